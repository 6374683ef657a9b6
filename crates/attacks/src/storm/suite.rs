//! Makes tests of the points: each once as a rule, fifty times where there is time.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

use contract::CallResult;
use libtest_mimic::{Completion, Failed, Trial};
use store::{Keys, Store};

use crate::Try;
use crate::bench::{Bench, Settings, find_program};
use crate::gate::stand::runtime;
use crate::launch::{Mode, command_of};
use crate::place::{Place, token};
use crate::storm::check::{self, Complaints};
use crate::storm::driver::{ARGUMENT, Deed, Orders};
use crate::storm::points::{During, POINTS, Point, Then};

/// Kills at each point where there is time for a storm.
const STORM: u32 = 50;

/// The points, on this host and for this caller.
pub struct StormSuite {
    bench: Result<Arc<Bench>, String>,
    settings: Settings,
}

impl StormSuite {
    /// Makes a folder. Nothing is prepared only to be listed.
    pub fn prepare(only_listed: bool) -> StormSuite {
        let settings = Settings::read();
        let bench = match only_listed {
            true => Err("listed only".to_owned()),
            false => Bench::new(settings.clone()).map(Arc::new).map_err(|error| error.to_string()),
        };
        if let (false, Err(why)) = (only_listed, &bench) {
            let _ = writeln!(std::io::stderr(), "warning: no gate can be killed on this host: {why}");
        }
        StormSuite { bench, settings }
    }

    /// A test for each point, and one for each mistake that has to be found.
    pub fn trials(&self) -> Vec<Trial> {
        let (rounds, databases) = match self.settings.long {
            true => (STORM, &[Database::Sqlite, Database::Postgres][..]),
            false => (1, &[Database::Sqlite][..]),
        };
        let points = databases.iter().flat_map(|database| POINTS.map(|point| (*database, point)));
        let points = points.map(|(database, point)| {
            let name = format!("{database:?}::killed_at::{}::while_{:?}", point.name, point.during);
            self.trial(name, database, move |bench| {
                let complaints = Site::new(bench, database)?.storm(point, rounds, None)?;
                if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
            })
        });
        let mistakes = MISTAKES.into_iter().map(|(mistake, point, complaint)| {
            let name = format!("a_gate_that_{mistake}_is_found");
            self.trial(name, Database::Sqlite, move |bench| {
                let complaints = Site::new(bench, Database::Sqlite)?.storm(point, 1, Some(mistake))?;
                match complaints.iter().any(|found| found.contains(complaint)) {
                    true => Ok(()),
                    false => Err(format!("the checker does not find it: {complaints:?}").into()),
                }
            })
        });
        points.chain(mistakes).collect()
    }

    fn trial(
        &self,
        name: String,
        database: Database,
        test: impl FnOnce(&Bench) -> Try<()> + Send + 'static,
    ) -> Trial {
        let (bench, needed) = match (database, &self.settings.postgres) {
            (Database::Postgres, None) => {
                (Err("TOOLGATE_TEST_POSTGRES names no server".to_owned()), "postgres")
            }
            _ => (self.bench.clone(), "native"),
        };
        let is_required = self.settings.required.iter().any(|required| required == needed);
        Trial::ignorable_test(name, move || match bench {
            Ok(bench) => match test(&bench) {
                Ok(()) => Ok(Completion::Completed),
                Err(error) => Err(Failed::from(error.to_string())),
            },
            Err(why) if is_required => Err(Failed::from(why)),
            Err(why) => Ok(Completion::ignored_with(why)),
        })
    }
}

/// Mistakes that a gate makes on purpose, where it is killed then, and what the checker has to say.
const MISTAKES: [(&str, Point, &str); 3] = [
    (
        "acts_before_it_records_that_it_begins",
        Point { name: "effect/after", during: During::Paying, then: Then::UnknownDone },
        "2 effects under one key",
    ),
    (
        "acts_without_any_record",
        Point { name: "effect/after", during: During::Paying, then: Then::UnknownDone },
        "an effect without its planned and started records",
    ),
    (
        "leaves_the_calls_of_the_dead_alone",
        Point { name: "effect/after", during: During::Paying, then: Then::UnknownDone },
        "has no living owner",
    ),
];

/// What keeps their store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Database {
    Sqlite,
    Postgres,
}

/// Where gates are killed: a home, a workspace, a store, and a binary of their own.
struct Site {
    place: Place,
    driver: PathBuf,
    store: String,
}

impl Site {
    fn new(bench: &Bench, database: Database) -> Try<Site> {
        let place = bench.site(Mode::Bare)?.place;
        place.folder("home")?;
        place.folder("work")?;
        place.file("work/Makefile", "all:\n\t@echo $(ROUND) >> effects\n")?;
        // Another name of the same file: told apart in the list of processes, and proved once for all.
        let name = place.root().file_name().ok_or("a place has a name")?.to_string_lossy().into_owned();
        let driver = bench.tool.with_file_name(format!("gate-{name}"));
        fs::hard_link(&bench.tool, &driver)?;
        let store = match (database, &bench.settings.postgres) {
            (Database::Sqlite, _) => format!("sqlite:{}", place.path("home/toolgate.db").display()),
            (Database::Postgres, Some(server)) => schema_of(server)?,
            (Database::Postgres, None) => return Err("there is no server".into()),
        };
        Ok(Site { place, driver, store })
    }

    /// Kills that many gates at one point, and says what is wrong afterwards.
    fn storm(&self, point: Point, rounds: u32, mistake: Option<&str>) -> Try<Complaints> {
        let mut complaints = Complaints::new();
        for round in 1..=rounds {
            let orders = self.orders(point.during, round, mistake);
            let answer = self.round(point, &orders)?;
            let store = self.store()?;
            complaints.extend(runtime()?.block_on(check::round(&store, &orders, &answer, point.then))?);
            runtime()?.block_on(store.close());
        }
        let store = self.store()?;
        complaints.extend(runtime()?.block_on(check::place(&store, &self.driver, &self.workspace()))?);
        Ok(complaints)
    }

    /// Kills a gate, and makes the same call again. The answer to that.
    fn round(&self, point: Point, orders: &Orders) -> Try<CallResult> {
        let at = |name: &str| Orders { point: Some(name.to_owned()), ..orders.clone() };
        let after_effect = || self.killed(&at("effect/after"));
        match point.during {
            During::Recovering => {
                after_effect()?;
                self.killed(&at(point.name))?;
            }
            During::Reconciling => {
                after_effect()?;
                let found = Orders { deed: Deed::Reconcile, ..orders.clone() };
                self.killed(&Orders { deed: Deed::Reconcile, ..at(point.name) })?;
                // Said again, by somebody who could not know that it had been taken.
                self.run(&found)?;
            }
            _ => self.killed(&at(point.name))?,
        }
        let output = self.run(orders)?;
        match serde_json::from_slice(&output.stdout) {
            Ok(answer) => Ok(answer),
            Err(error) => Err(format!("no answer: {error}: {}", said(&output)).into()),
        }
    }

    /// Runs a gate that has to be killed at its point.
    fn killed(&self, orders: &Orders) -> Try<()> {
        let output = self.run(orders)?;
        match output.status.signal() {
            Some(9) => Ok(()),
            _ => Err(format!("not killed at {:?}: {}", orders.point, said(&output)).into()),
        }
    }

    fn run(&self, orders: &Orders) -> Try<Output> {
        let arguments = [ARGUMENT.into(), serde_json::to_string(orders)?.into()];
        Ok(command_of(&self.driver, &arguments).output()?)
    }

    fn orders(&self, during: During, round: u32, mistake: Option<&str>) -> Orders {
        Orders {
            home: self.place.path("home"),
            workspace: self.workspace(),
            book: self.place.path("book"),
            store: self.store.clone(),
            deed: match during {
                During::Paying | During::Recovering | During::Reconciling => Deed::Pay,
                During::PayingWithApproval => Deed::PayWithApproval,
                During::Appending => Deed::Append,
                During::Making => Deed::Make,
            },
            round,
            point: None,
            mistake: mistake.map(str::to_owned),
            budget: None,
        }
    }

    fn workspace(&self) -> PathBuf {
        self.place.path("work")
    }

    fn store(&self) -> Try<Store> {
        let keys = Keys::load_or_create(&self.place.path("home"))?;
        Ok(runtime()?.block_on(Store::open(&self.store, keys))?)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.driver);
    }
}

/// A schema of its own at a server.
fn schema_of(server: &str) -> Try<String> {
    let schema = format!("s{}", token());
    let psql = find_program("psql").ok_or("there is no `psql`")?;
    let make = ["-q", "-d", server, "-c", &format!("CREATE SCHEMA {schema}")].map(OsString::from);
    let made = command_of(&psql, &make).output()?;
    if !made.status.success() {
        return Err(said(&made).into());
    }
    let mark = if server.contains('?') { '&' } else { '?' };
    Ok(format!("{server}{mark}options=-csearch_path%3D{schema}"))
}

fn said(output: &Output) -> String {
    format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

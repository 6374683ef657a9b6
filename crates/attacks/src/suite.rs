//! Makes tests of the cases, and one for every wall: that switching it off is noticed.

use std::io::Write;
use std::sync::Arc;

use jail::{Caller, Control};
use libtest_mimic::{Completion, Failed, Trial};

use crate::bench::{Bench, Need, Settings};
use crate::case::{Case, Effect, Teeth};
use crate::launch::{Mode, Run};
use crate::threats;

/// The whole suite, on this host and for this caller.
pub struct Suite {
    bench: Result<Arc<Bench>, String>,
    settings: Settings,
    caller: Caller,
}

impl Suite {
    /// Makes a folder and tries whether sandboxes can be made at all. Nothing is prepared only to be listed.
    pub fn prepare(only_listed: bool) -> Suite {
        let settings = Settings::read();
        let caller = Caller::current();
        let bench = if only_listed { Err("listed only".to_owned()) } else { prepared(&settings) };
        if let (false, Err(why)) = (only_listed, &bench) {
            let _ = writeln!(std::io::stderr(), "warning: no attack can be made on this host: {why}");
        }
        Suite { bench, settings, caller }
    }

    /// A test for each case, and for each wall.
    pub fn trials(&self) -> Vec<Trial> {
        let mut all = Vec::new();
        let mut trials = Vec::new();
        for (group, cases) in threats::all(self.caller) {
            for case in cases {
                let case = Arc::new(case);
                let proved = Arc::clone(&case);
                trials.push(self.trial(case.name(group), &case.needs, move |bench| {
                    proved.prove(bench).map_err(|error| Failed::from(error.to_string()))
                }));
                all.push(case);
            }
        }
        trials.extend(Control::ALL.into_iter().map(|control| self.switching_off(control, &all)));
        trials
    }

    /// The attacks that this wall stops get through without it.
    fn switching_off(&self, control: Control, all: &[Arc<Case>]) -> Trial {
        let is_bound =
            |case: &&Arc<Case>| matches!(case.teeth, Teeth::WithoutItsWalls) && case.walls.contains(&control);
        let mut bound: Vec<Arc<Case>> = all.iter().filter(is_bound).cloned().collect();
        bound.sort_by_key(|case| case.walls.len());
        // The needs of the whole are those of the case that needs least.
        let needs = bound.iter().map(|case| case.needs.clone()).min_by_key(Vec::len).unwrap_or_default();
        self.trial(format!("switching_off_{}_is_noticed", control.name()), &needs, move |bench| {
            let mut seen = Vec::new();
            for case in
                bound.iter().filter(|case| case.needs.iter().all(|need| need.missing(bench).is_none()))
            {
                match case.gets_through_without_walls(bench) {
                    Ok(Effect::Through(_)) => return Ok(()),
                    Ok(Effect::Held(why)) => seen.push(format!("{}: {why}", case.id)),
                    Err(error) => seen.push(format!("{}: {error}", case.id)),
                }
            }
            Err(Failed::from(format!("nothing gets through without {control}: {}", seen.join("; "))))
        })
    }

    fn trial(
        &self,
        name: String,
        needs: &[Need],
        test: impl FnOnce(&Bench) -> Result<(), Failed> + Send + 'static,
    ) -> Trial {
        let (bench, needs) = (self.bench.clone(), needs.to_vec());
        let required = self.settings.required.clone();
        Trial::ignorable_test(name, move || {
            let is_required =
                |name: Option<&str>| name.is_some_and(|name| required.iter().any(|r| r == name));
            let bench = match bench {
                Ok(bench) => bench,
                Err(why) if is_required(Some("native")) => return Err(Failed::from(why)),
                Err(why) => return Ok(Completion::ignored_with(why)),
            };
            for need in needs {
                match need.missing(&bench) {
                    Some(why) if is_required(need.required_as()) => return Err(Failed::from(why)),
                    Some(why) => return Ok(Completion::ignored_with(why)),
                    None => {}
                }
            }
            test(&bench).map(|()| Completion::Completed)
        })
    }
}

fn prepared(settings: &Settings) -> Result<Arc<Bench>, String> {
    let bench = Bench::new(settings.clone()).map_err(|error| error.to_string())?;
    let site = bench.site(Mode::behind_all()).map_err(|error| error.to_string())?;
    let ran = site.run(Run::payload("wait", ["0"])).map_err(|error| error.to_string())?;
    ran.report().map_err(|error| error.to_string())?;
    drop(site);
    Ok(Arc::new(bench))
}

//! Makes tests of the cases, and one for every guard that can be switched off from outside.

use std::io::Write;
use std::sync::Arc;

use libtest_mimic::{Completion, Failed, Trial};
use serde_json::json;

use crate::Try;
use crate::bench::{Bench, Need, Settings};
use crate::egress;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand, standard};
use crate::gate::{all, commands};

/// Which cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cases {
    /// What a model may ask for.
    Gate,
    /// What a program may reach. They need a world of their own: [`crate::enter_world`].
    Egress,
}

/// The cases against the gate, on this host and for this caller.
pub struct GateSuite {
    cases: Cases,
    bench: Result<Arc<Bench>, String>,
    settings: Settings,
}

impl GateSuite {
    /// Makes a folder and tries whether a gate can run anything. Nothing is prepared only to be listed.
    pub fn prepare(only_listed: bool, cases: Cases) -> GateSuite {
        let settings = Settings::read();
        let bench = if only_listed { Err("listed only".to_owned()) } else { prepared(&settings) };
        if let (false, Err(why)) = (only_listed, &bench) {
            let _ = writeln!(std::io::stderr(), "warning: no attack can be made on this host: {why}");
        }
        GateSuite { cases, bench, settings }
    }

    /// A test for each case, and for each guard with a switch.
    pub fn trials(&self) -> Vec<Trial> {
        let mut trials = Vec::new();
        let all = match self.cases {
            Cases::Gate => all(),
            Cases::Egress => egress::all(),
        };
        for (group, cases) in all {
            for case in cases {
                let of_the_case =
                    case.without.map(|(guard, attack)| (guard.replace(' ', "_"), attack, None, None));
                let of_the_network =
                    case.guard.map(|guard| (format!("the_guard_{guard:?}"), case.attack, Some(guard), None));
                let of_the_door = case.door.iter().map(|guard| {
                    (format!("the_guard_of_the_door_{guard:?}"), case.attack, None, Some(*guard))
                });
                let switches = [of_the_case, of_the_network].into_iter().flatten().chain(of_the_door);
                for (what, attack, guard, door) in switches {
                    let name = format!("switching_off_{what}_is_noticed::{}", case.id);
                    trials.push(self.trial(name, case.ships, case.need, move |bench| {
                        Case::prove_switch(attack, bench, guard, door)
                    }));
                }
                let (name, ships, need) = (case.name(group), case.ships, case.need);
                trials.push(self.trial(name, ships, need, move |bench| case.prove(bench)));
            }
        }
        if self.cases == Cases::Egress {
            return trials;
        }
        trials.push(self.trial(
            "switching_off_the_walls_behind_inspect_is_noticed".to_owned(),
            false,
            None,
            commands::switch_off_the_walls,
        ));
        trials
    }

    fn trial(
        &self,
        name: String,
        ships: bool,
        need: Option<Need>,
        test: impl FnOnce(&Bench) -> Try<()> + Send + 'static,
    ) -> Trial {
        let bench = match (self.bench.clone(), ships && self.settings.shipped.is_none()) {
            (Ok(_), true) => {
                Err("`toolgate` is not built: TOOLGATE_BIN names it, or `cargo build` makes it".to_owned())
            }
            (bench, _) => bench,
        };
        let required = self.settings.required.clone();
        Trial::ignorable_test(name, move || {
            let (missing, asked_as) = match &bench {
                Ok(bench) => (need.and_then(|need| need.missing(bench)), need.and_then(Need::required_as)),
                Err(why) => (Some(why.clone()), Some("native")),
            };
            let is_required = asked_as.is_some_and(|name| required.iter().any(|required| required == name));
            match (missing, bench) {
                (None, Ok(bench)) => {
                    test(&bench).map_err(|error| Failed::from(error.to_string()))?;
                    Ok(Completion::Completed)
                }
                (Some(why), _) | (None, Err(why)) if is_required => Err(Failed::from(why)),
                (Some(why), _) | (None, Err(why)) => Ok(Completion::ignored_with(why)),
            }
        })
    }
}

/// A bench whose walls are proved.
fn prepared(settings: &Settings) -> Result<Arc<Bench>, String> {
    let bench = Bench::new(settings.clone()).map_err(|error| error.to_string())?;
    let tried = || -> Try<()> {
        let stand = Stand::new(&bench)?;
        let gate = stand.gate(standard())?;
        let result = gate.call("shell", json!({ "command": "true" }), Ending::Done)?;
        if result.is_error { Err(result.content.into()) } else { Ok(()) }
    };
    tried().map_err(|error| error.to_string())?;
    Ok(Arc::new(bench))
}

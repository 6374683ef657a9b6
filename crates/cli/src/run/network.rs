//! Whom a command may reach, and the guard that sees to it while it runs.

use std::path::Path;

use anyhow::{Context, anyhow};
use contract::{Reach, ReachError, preset};
use egress::{Egress, EgressSettings, Methods, OpenGrant, Outcome, Permit, Usage};
use jail::{Doors, Guarded, LocalDoor, Report};
use sandbox::{Job, Native, Profile};
use tokio::runtime::Runtime;

use super::{Arguments, CODE_SANDBOX, CODE_USAGE, Failed, refused};
use crate::{config, talk, way_out};

/// Before the name of a preset.
const PRESET: &str = "preset:";

/// The way out of one command's network.
pub(super) struct WayOut {
    settings: EgressSettings,
    permit: Permit,
}

impl WayOut {
    /// What the arguments grant; nothing if they grant nothing.
    pub(super) fn of(profile: Profile, arguments: &Arguments) -> Result<Option<WayOut>, Failed> {
        let Arguments { allow, private, config, .. } = arguments;
        match (profile, allow.is_empty()) {
            (Profile::Networked, true) => {
                let error = anyhow!("the profile `networked` reaches nobody without `--allow`");
                return Err(Failed::usage(error, "name whom it may reach: `--allow example.com:443`"));
            }
            (Profile::Inspect, false) => {
                let error =
                    anyhow!("the profile `inspect` cannot connect, so `--allow` makes no sense with it");
                return Err(Failed::usage(error, "use `--profile networked`, or `--profile build`"));
            }
            (_, true) if !private.is_empty() => {
                let error = anyhow!("`--private` grants nothing by itself");
                return Err(Failed::usage(
                    error,
                    "name the place as well: `--allow 10.0.0.5:443 --private 10.0.0.5`",
                ));
            }
            (_, true) => return Ok(None),
            (_, false) => {}
        }
        let configured = configured(config.as_deref())?;
        let mut ranges = configured.private.clone();
        for text in private {
            ranges.add(text).map_err(|error| {
                Failed::usage(error.into(), "write a range, an address or a name: `--private 10.0.0.0/8`")
            })?;
        }
        let mut reach = Vec::new();
        for text in allow {
            match text.strip_prefix(PRESET) {
                Some(name) => reach.extend(preset(name).map_err(bad_grant)?),
                None => reach.push(Reach::permit(text, &ranges).map_err(bad_grant)?),
            }
        }
        // Credentials are for calls, which are decided and recorded.
        let configured = policy::EgressSettings { credentials: Vec::new(), vault: None, ..configured };
        let settings = way_out::settings_of(&configured).map_err(not_guarded)?;
        let limits = tools::permit_limits(&configured.limits, arguments.timeout);
        let permit = Permit {
            reach,
            blocked: configured.block,
            methods: Methods::Any,
            spends: Vec::new(),
            by_pattern: Vec::new(),
            private: ranges,
            login: None,
            limits,
        };
        Ok(Some(WayOut { settings, permit }))
    }

    /// What the sandbox needs for it.
    pub(super) fn guarded(&self) -> Guarded {
        let roots = &self.settings.extra_roots;
        Guarded {
            ports: self.permit.reach.iter().map(|reach| reach.port).collect(),
            authority: (!roots.trim().is_empty()).then(|| roots.clone()),
            local: LocalDoor::Absent,
        }
    }

    /// Runs the job with its network guarded, and says what that was used for.
    pub(super) fn run(self, native: &Native, job: Job) -> Result<(Report, Usage), Failed> {
        let mut guard = None;
        let mut posted = Some((self.settings, self.permit));
        let report = native
            .run_guarded(job, &mut |doors| {
                // Nothing is forked any more, so there may be threads from here on.
                guard = posted.take().map(|(settings, permit)| Guard::post(settings, permit, doors));
            })
            .map_err(refused)?;
        // Without a guard every door was closed: it has run, and has reached nobody.
        match guard {
            Some(Ok(guard)) => Ok((report, guard.dismiss())),
            Some(Err(error)) => {
                talk::warning(&format!("nobody could be reached: {error:#}"));
                Ok((report, Usage::default()))
            }
            None => Ok((report, Usage::default())),
        }
    }
}

/// Tells a person what their command was not let do.
pub(super) fn remark_on(usage: &Usage) {
    for event in &usage.events {
        if let Outcome::Deny(denial) = &event.outcome {
            let often = if event.times > 1 { format!(" ({} times)", event.times) } else { String::new() };
            talk::warning(&format!("`{}` was not reached{often}: {denial}", event.place()));
        }
    }
    if usage.more > 0 {
        talk::warning(&format!("{} more attempts to reach somebody are not listed", usage.more));
    }
}

/// Who answers for every address of a sandbox.
struct Guard {
    runtime: Runtime,
    open: OpenGrant,
}

impl Guard {
    /// If this fails the doors are closed, and nobody is reached.
    fn post(settings: EgressSettings, permit: Permit, doors: Doors) -> anyhow::Result<Guard> {
        let runtime = Runtime::new().context("cannot start the egress guard")?;
        let open = {
            let _entered = runtime.enter();
            Egress::new(settings)?.open(permit, tools::doors_of(doors))?
        };
        Ok(Guard { runtime, open })
    }

    fn dismiss(self) -> Usage {
        self.runtime.block_on(self.open.close())
    }
}

/// What is configured about the network: whom to ask for names, which private ranges there are, who is blocked.
fn configured(file: Option<&Path>) -> Result<policy::EgressSettings, Failed> {
    let loaded = config::load(file)
        .map_err(|error| Failed::usage(error.into(), "mend it, or name another with `--config`"))?;
    Ok(loaded.meaning.settings.egress)
}

fn bad_grant(error: ReachError) -> Failed {
    let hint = match &error {
        ReachError::Special { text, .. } => {
            Some(format!("if it is meant, say so: `--private {}`", text.escape_debug()))
        }
        _ => None,
    };
    Failed { error: error.into(), hint, code: CODE_USAGE, name: "usage" }
}

fn not_guarded(error: anyhow::Error) -> Failed {
    Failed { error, hint: None, code: CODE_SANDBOX, name: "sandbox_no_egress" }
}

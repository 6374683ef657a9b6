//! `toolgate policy simulate`: recorded calls by another configuration.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use engine::{Engine, Past, Simulated};
use policy::ToolGlob;
use store::Span;

use super::candidate::candidate;
use super::moment_of;
use super::report::{Names, print};
use crate::gate::open::{Gate, agent};
use crate::gate::{CODE_DONE, Trouble};
use crate::talk;

/// Something flips that was not to.
const CODE_FLIPS: i32 = 1;

/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// How many calls are named of a group at most.
const MOST_EXAMPLES: usize = 100;

const AFTER_HELP: &str = "\
Each recorded call is decided twice with the same facts: by the configuration in force, and by the one given. It is
decided for the time when it was asked, with the operators there are now, without any approval, and as if nothing had been
spent; hooks and rates are not heard. Nothing is run, and nothing is recorded. A ★ marks what the candidate is less
strict about.

Exit codes: 0 done, 1 with --fail-on if something flips or a record was altered, 2 it could not be done.";

#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct SimulateArguments {
    /// The candidate: a configuration that is not in force
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,

    /// Only calls asked since then: 2026-11-01, `2026-11-01 09:30:00`, or 7d, 12h, 30m ago
    #[arg(long, value_name = "MOMENT")]
    since: Option<String>,

    /// Only calls asked until then
    #[arg(long, value_name = "MOMENT")]
    until: Option<String>,

    /// Only calls of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// Only calls of these tools, such as `git.*`
    #[arg(long, value_name = "PATTERN")]
    tool: Option<String>,

    /// How many calls of each group are named
    #[arg(long, value_name = "N", default_value_t = 3)]
    limit: usize,

    /// Also show the calls of which the configuration in force says something else than was recorded
    #[arg(long)]
    drift: bool,

    /// Exit with 1 if a decision flips, or only if one is loosened
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// Any decision that would be another
    Flip,
    /// One by which the candidate is less strict
    Loosened,
}

pub(super) async fn simulate(arguments: SimulateArguments, gate: Gate) -> Result<i32, Trouble> {
    let opened = gate.open_existing().await?;
    let engine = &opened.engine;
    let candidate = candidate(&arguments.policy, engine)?;
    let past = past(&arguments, engine)?;
    let progress = Progress::new();
    let simulated = engine.simulate(candidate, &past, |done, of| progress.tell(done, of)).await;
    progress.clear();
    let simulated = simulated?;
    if gate.json {
        talk::json(&simulated);
    } else {
        // Without its folders: it is found again by whoever named it, and lines stay short.
        let name = arguments.policy.file_name().unwrap_or(arguments.policy.as_os_str());
        let candidate = crate::config::name_of(name.as_ref());
        print(&simulated, &Names { candidate, drift: arguments.drift });
    }
    if simulated.found.decided == 0 {
        talk::warning("no recorded call fits what was asked for, so nothing was compared");
    }
    if !simulated.not_compared.is_empty() && arguments.fail_on.is_some() {
        let keys = simulated.not_compared.join(", ");
        talk::warning(&format!("the candidate also changes what is not compared: {keys}"));
    }
    let altered = simulated.found.not_decided.altered.count;
    if altered > 0 {
        talk::warning(&format!(
            "{altered} calls are not as they were recorded; `toolgate ledger verify` looks at the rest"
        ));
    }
    Ok(code(&simulated, &arguments))
}

fn past(arguments: &SimulateArguments, engine: &Engine) -> Result<Past, Trouble> {
    let at = |text: &Option<String>| text.as_deref().map(|text| moment_of(text, engine.now())).transpose();
    Ok(Past {
        span: Span {
            since: at(&arguments.since)?,
            until: at(&arguments.until)?,
            agent: arguments.agent.as_deref().map(agent).transpose()?,
        },
        tool: arguments.tool.as_deref().map(ToolGlob::parse).transpose()?,
        examples: arguments.limit.min(MOST_EXAMPLES),
        most_calls: None,
        longest: None,
    })
}

fn code(simulated: &Simulated, arguments: &SimulateArguments) -> i32 {
    let found = &simulated.found;
    let is_failed = match arguments.fail_on {
        None => false,
        Some(FailOn::Flip) => found.flips > 0 || found.not_decided.altered.count > 0,
        Some(FailOn::Loosened) => found.loosened > 0 || found.not_decided.altered.count > 0,
    };
    if is_failed { CODE_FLIPS } else { CODE_DONE }
}

/// One line on a terminal that says how far it is.
struct Progress {
    told: Option<Mutex<Instant>>,
}

impl Progress {
    fn new() -> Progress {
        let is_seen = std::io::stderr().is_terminal();
        Progress { told: is_seen.then(|| Mutex::new(Instant::now())) }
    }

    fn tell(&self, done: u64, of: u64) {
        let Some(Ok(mut told)) = self.told.as_ref().map(Mutex::lock) else { return };
        if told.elapsed() >= TELL_EVERY {
            *told = Instant::now();
            let _ = write!(std::io::stderr(), "\r{done} of {of} calls ");
        }
    }

    fn clear(&self) {
        if self.told.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

//! `toolgate run`: one command behind walls.

mod network;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Args;
use jail::{
    ChangeReport, Feed, Limit, Limits, Names, Outcome, Pattern, PlanError, Prepared, Program, Report,
    Streams, Strictness,
};
use sandbox::{Backend, BackendName, Deny, Job, Native, PlanRequest, Profile, Proofs, Refusal, Subprocess};

use egress::Usage;
use serde::Serialize;

use self::network::WayOut;
use crate::{amount, config, talk};

const CODE_USAGE: i32 = 2;
const CODE_REFUSED: i32 = 3;
const CODE_TIMEOUT: i32 = 124;
const CODE_SANDBOX: i32 = 125;
const CODE_CANNOT_EXECUTE: i32 = 126;
const CODE_NOT_FOUND: i32 = 127;

const AFTER_HELP: &str = "\
The command sees the system read-only, an empty home and an empty /tmp of its own, and the directories named here;
without any, the current one is shown read-only. It starts in the current directory if that is shown, else in /.
There is no network but its own loopback, unless --allow names whom it may reach: then any program reaches them, with no
proxy to be set, and nobody else. Secrets in the tree (.env*, .ssh, *.pem …) are hidden, and .git/hooks and .git/config
cannot be written.

Exit codes: the command's own; 2 usage, 3 `--backend deny`, 124 timeout, 125 the sandbox could not be built, 126 cannot execute,
127 not found, 128+N ended by signal N.

Examples:
  toolgate run -- ls -la
  toolgate run --profile build --rw . -- make
  toolgate run --profile build --rw . --memory 4g --timeout 600 -- cargo test --offline
  toolgate run --profile networked --allow example.com:443 -- curl https://example.com/
  toolgate run --profile build --rw . --allow preset:rust -- cargo fetch";

/// Run a command in a sandbox
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// inspect: look only, no network; build, mutate: also write in --rw; networked: the same, for commands that are about the network
    #[arg(long, value_name = "PROFILE", default_value = "inspect")]
    profile: String,

    /// native: Linux namespaces; subprocess: native where it works, else a plain process; deny: nothing
    #[arg(long, value_name = "BACKEND", default_value = "native")]
    backend: String,

    /// Show this directory read-only; can be repeated
    #[arg(long, value_name = "DIR")]
    ro: Vec<PathBuf>,

    /// Let the command write in this directory; can be repeated
    #[arg(long, value_name = "DIR")]
    rw: Vec<PathBuf>,

    /// Let the command reach this host and port, such as example.com:443, *.example.com:443 or preset:python, with any profile but inspect; can be repeated
    #[arg(long, value_name = "HOST:PORT")]
    allow: Vec<String>,

    /// Let granted hosts lie in this private range or at this special address; can be repeated
    #[arg(long, value_name = "RANGE")]
    private: Vec<String>,

    /// The configuration, for --allow: name servers, certificates, private ranges, blocked hosts, and no credentials; else TOOLGATE_CONFIG
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Set a variable
    #[arg(long, value_name = "K=V")]
    env: Vec<OsString>,

    /// Hide entries that match this pattern too, such as `*.sqlite` or `.config/tool`
    #[arg(long, value_name = "PATTERN")]
    hide: Vec<String>,

    /// Do not hide entries matched by this default pattern, such as `.env*`
    #[arg(long, value_name = "PATTERN")]
    show: Vec<String>,

    /// Seconds before everything is killed
    #[arg(long, value_name = "S", default_value = "30", value_parser = amount::seconds, allow_hyphen_values = true)]
    timeout: Duration,

    /// Memory for all its processes together
    #[arg(long, value_name = "SIZE", default_value = "2g", value_parser = amount::bytes, allow_hyphen_values = true)]
    memory: u64,

    /// Processes and threads at once
    #[arg(long, value_name = "N", default_value = "512", allow_hyphen_values = true)]
    pids: u32,

    /// Processors it may keep busy, such as 1.5
    #[arg(long, value_name = "N", default_value = "4", value_parser = amount::thousandths, allow_hyphen_values = true)]
    cpus: u32,

    /// Bytes it may write to scratch space or to granted directories
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = amount::bytes, allow_hyphen_values = true)]
    disk: u64,

    /// Bytes of each output stream that are passed on, or kept with --json [default: 1g, with --json 10m]
    #[arg(long, value_name = "SIZE", value_parser = amount::bytes, allow_hyphen_values = true)]
    output: Option<u64>,

    /// Give it a terminal
    #[arg(short = 't', long)]
    tty: bool,

    /// Refuse limits that the host can only watch
    #[arg(long)]
    strict: bool,

    /// Print a report as JSON instead of passing output on; it lists changed files
    #[arg(long, conflicts_with = "tty")]
    json: bool,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Why nothing was run, and with which exit code.
struct Failed {
    error: anyhow::Error,
    hint: Option<String>,
    code: i32,
    /// A stable name for programs.
    name: &'static str,
}

impl Failed {
    fn usage(error: anyhow::Error, hint: &str) -> Failed {
        Failed { error, hint: Some(hint.to_owned()), code: CODE_USAGE, name: "usage" }
    }
}

/// Runs the command, in the sandbox that was begun if there is one; returns the exit code.
pub(crate) fn run(arguments: Arguments, begun: Option<Prepared>) -> i32 {
    let json = arguments.json;
    match try_run(arguments, begun) {
        Ok(code) => code,
        Err(failed) => {
            if json {
                talk::failure(failed.name, &format!("{:#}", failed.error), failed.hint.as_deref());
            } else {
                talk::error(&failed.error, failed.hint.as_deref());
            }
            failed.code
        }
    }
}

fn try_run(arguments: Arguments, begun: Option<Prepared>) -> Result<i32, Failed> {
    let json = arguments.json;
    let streams = match (json, arguments.tty) {
        (true, _) => Streams::Collect { input: Feed::Own },
        (false, true) => Streams::Terminal,
        (false, false) => Streams::Pass,
    };
    let backend = BackendName::parse(&arguments.backend).ok_or_else(|| {
        let error = anyhow!("`{}` is not a backend of this version", arguments.backend);
        Failed::usage(error, "choose native, subprocess or deny")
    })?;
    let wanted = arguments.command.first().cloned().unwrap_or_default();
    let profile = profile_of(&arguments)?;
    let way = WayOut::of(profile, &arguments)?;
    let mut request = request_of(profile, arguments)?;
    request.guarded = way.as_ref().map(WayOut::guarded);
    let plan = request.into_plan(&config::host()).map_err(bad_plan)?;
    let (report, usage) = run_in(backend, Job { plan, sealed: Vec::new(), streams }, way, begun)?;
    if json {
        talk::json(&Shown { egress: usage, ..Shown::from(&report) });
    } else {
        remark_on(&report, &wanted);
        if let Some(usage) = &usage {
            network::remark_on(usage);
        }
    }
    Ok(code_of(&report.outcome))
}

/// What the arguments ask for, in a profile's terms.
fn request_of(profile: Profile, arguments: Arguments) -> Result<PlanRequest, Failed> {
    let here = std::env::current_dir()
        .context("cannot tell the current directory")
        .map_err(|error| Failed { error, hint: None, code: CODE_SANDBOX, name: "sandbox_bad_directory" })?;
    let absolute = |path: &PathBuf| plain(&here, path);
    let mut read: Vec<PathBuf> = arguments.ro.iter().map(absolute).collect();
    let write: Vec<PathBuf> = arguments.rw.iter().map(absolute).collect();
    if read.is_empty() && write.is_empty() && is_worth_showing(&here) {
        read.push(here.clone());
    }
    let mut command = arguments.command.into_iter();
    Ok(PlanRequest {
        profile,
        program: Program::Inside(command.next().unwrap_or_default()),
        arguments: command.collect(),
        working_directory: here,
        read,
        workspace: None,
        write,
        variables: arguments.env.iter().map(|text| variable_of(text)).collect::<Result<_, _>>()?,
        names: names_of(&arguments.hide, &arguments.show)?,
        guarded: None,
        limits: Limits {
            memory: arguments.memory,
            pids: arguments.pids,
            cpu_millis: arguments.cpus,
            disk: arguments.disk,
            output: arguments.output.unwrap_or(if arguments.json { 10 << 20 } else { 1 << 30 }),
            timeout: arguments.timeout,
            ..Limits::default()
        },
        changes: if arguments.json { ChangeReport::List } else { ChangeReport::Skip },
        strictness: if arguments.strict { Strictness::Refuse } else { Strictness::Report },
    })
}

fn profile_of(arguments: &Arguments) -> Result<Profile, Failed> {
    let profile = Profile::parse(&arguments.profile).ok_or_else(|| {
        Failed::usage(
            anyhow!("`{}` is not a profile", arguments.profile),
            "choose inspect, build, mutate or networked",
        )
    })?;
    if !profile.may_write() && !arguments.rw.is_empty() {
        let error =
            anyhow!("the profile `{}` cannot write, so `--rw` makes no sense with it", profile.as_str());
        return Err(Failed::usage(error, "use `--profile build`, or `--ro` instead"));
    }
    Ok(profile)
}

/// The path as the caller means it: absolute, without `.` and `..`. Links are not followed; they are refused later.
fn plain(here: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in here.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Whether the current directory can be shown without having been named: not the root, nor what belongs to the system.
fn is_worth_showing(here: &Path) -> bool {
    here != Path::new("/") && !jail::is_of_the_system(here)
}

fn variable_of(text: &OsStr) -> Result<(OsString, OsString), Failed> {
    let bytes = text.as_bytes();
    let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
        let error = anyhow!("`--env {}` has no value", text.display());
        return Err(Failed::usage(error, "write it as NAME=VALUE"));
    };
    let (name, value) = bytes.split_at(at);
    let value = value.get(1..).unwrap_or_default();
    Ok((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
}

fn names_of(hide: &[String], show: &[String]) -> Result<Names, Failed> {
    let parse = |text: &String| {
        let advice = "a pattern is one or more names joined by `/`, such as `*.sqlite`";
        Pattern::parse(text).map_err(|error| Failed::usage(error.into(), advice))
    };
    let mut names = Names::default();
    for pattern in show.iter().map(parse) {
        let pattern = pattern?;
        let before = names.hidden.len();
        names.hidden.retain(|hidden| *hidden != pattern);
        if names.hidden.len() == before {
            return Err(not_shown(pattern, &names.hidden));
        }
    }
    names.hidden.extend(hide.iter().map(parse).collect::<Result<Vec<_>, _>>()?);
    Ok(names)
}

/// Why a name cannot be shown: it is no pattern of those that hide, but one of them may hide it.
fn not_shown(name: Pattern, hidden: &[Pattern]) -> Failed {
    let name = String::from(name);
    let hiding = hidden.iter().find(|hidden| hidden.matches(Path::new(&name)));
    let name = name.escape_debug();
    match hiding {
        Some(hidden) => {
            let pattern = String::from(hidden.clone());
            let error = anyhow!(
                "`{name}` is hidden by the pattern `{pattern}`, and shown only with all that it hides"
            );
            Failed::usage(error, &format!("name the pattern: `--show '{pattern}'`"))
        }
        None => {
            let error = anyhow!("`{name}` is not hidden by default");
            Failed::usage(error, "name a default pattern exactly, such as `.env*`")
        }
    }
}

fn run_in(
    backend: BackendName,
    job: Job,
    way: Option<WayOut>,
    begun: Option<Prepared>,
) -> Result<(Report, Option<Usage>), Failed> {
    let prober = std::env::current_exe()
        .context("cannot find the toolgate binary")
        .map_err(|error| Failed { error, hint: None, code: CODE_SANDBOX, name: "sandbox_cannot_build" })?;
    let native = Native::single_threaded(Proofs { folder: config::state_folder(), prober }, begun);
    let report = match (backend, way) {
        (BackendName::Native, Some(way)) => {
            let (report, usage) = way.run(&native, job)?;
            return Ok((report, Some(usage)));
        }
        (BackendName::Native, None) => native.run(job),
        (BackendName::Subprocess, Some(_)) => {
            Err(Refusal::Beyond { backend: "subprocess", why: "it cannot guard a network" })
        }
        (BackendName::Subprocess, None) => Subprocess::new(native).run(job),
        (BackendName::Deny, _) => Deny.run(job),
    };
    Ok((report.map_err(refused)?, None))
}

fn refused(refusal: Refusal) -> Failed {
    let (hint, name) = (refusal.fix(), refusal.code());
    let code = if matches!(refusal, Refusal::Denied) { CODE_REFUSED } else { CODE_SANDBOX };
    Failed { error: refusal.into(), hint, code, name }
}

fn bad_plan(error: PlanError) -> Failed {
    let hint = match &error {
        PlanError::Forbidden { .. } => {
            Some("name the directory the command needs, not the system's".to_owned())
        }
        PlanError::DeniedVariable { .. } => {
            Some("credentials do not enter a sandbox; put what is not secret under another name".to_owned())
        }
        PlanError::BadVariable { .. } => Some("write it as NAME=VALUE".to_owned()),
        PlanError::NoCommand => Some("write it after `--`, such as `toolgate run -- ls -la`".to_owned()),
        PlanError::TooLarge { .. } => Some("put large input into a file or standard input".to_owned()),
        _ => None,
    };
    Failed { error: error.into(), hint, code: CODE_USAGE, name: "usage" }
}

/// Tells a person what they would otherwise wonder about.
fn remark_on(report: &Report, wanted: &OsStr) {
    match &report.outcome {
        Outcome::NotFound => {
            talk::say(&format!("error: `{}` is not in the sandbox", wanted.display()));
            talk::hint(
                "show the directory it is in with `--ro DIR`, or use `--profile build` for toolchains in your home",
            );
        }
        Outcome::CannotExecute(number) => {
            let why = std::io::Error::from_raw_os_error(*number);
            talk::say(&format!("error: `{}` cannot be executed: {why}", wanted.display()));
        }
        Outcome::Stopped(Limit::Timeout) => talk::say("error: stopped: it ran past its time (`--timeout`)"),
        Outcome::Stopped(Limit::Memory) => talk::say("error: stopped: it went past its memory (`--memory`)"),
        Outcome::Stopped(Limit::Disk) => talk::say("error: stopped: it wrote more than it may (`--disk`)"),
        Outcome::Stopped(Limit::Abandoned) | Outcome::Exit(_) | Outcome::Signal(_) => {}
    }
    for (stream, captured) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        if captured.dropped > 0 {
            let dropped = captured.dropped;
            talk::warning(&format!("{dropped} bytes of {stream} were dropped: past the cap (`--output`)"));
        }
    }
    for moved in &report.quarantined {
        // The tool chose the name; it does not get to write lines of ours with it.
        let shown = |path: &Path| path.to_string_lossy().escape_debug().to_string();
        let (path, to) = (shown(&moved.path), shown(&moved.moved_to));
        talk::warning(&format!("`{path}` was moved to `{to}`: {}", moved.why));
    }
}

fn code_of(outcome: &Outcome) -> i32 {
    match outcome {
        Outcome::Exit(code) => *code,
        Outcome::Signal(signal) => 128 + signal,
        Outcome::Stopped(Limit::Timeout) => CODE_TIMEOUT,
        Outcome::Stopped(_) => 128 + 9,
        Outcome::NotFound => CODE_NOT_FOUND,
        Outcome::CannotExecute(_) => CODE_CANNOT_EXECUTE,
    }
}

/// The report as it goes out: output as text, times in milliseconds.
#[derive(Serialize)]
struct Shown<'a> {
    outcome: &'a Outcome,
    stdout: ShownStream,
    stderr: ShownStream,
    setup_ms: f64,
    run_ms: f64,
    cpu_ms: f64,
    peak_memory: &'a jail::Memory,
    files_changed: &'a jail::Changes,
    quarantined: &'a [jail::Quarantined],
    enforcement: &'a jail::Enforcement,
    #[serde(skip_serializing_if = "Option::is_none")]
    egress: Option<Usage>,
}

#[derive(Serialize)]
struct ShownStream {
    text: String,
    bytes: u64,
    dropped: u64,
}

impl<'a> From<&'a Report> for Shown<'a> {
    fn from(report: &'a Report) -> Shown<'a> {
        let stream = |captured: &jail::Captured| ShownStream {
            text: captured.text(),
            bytes: captured.total,
            dropped: captured.dropped,
        };
        let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
        Shown {
            outcome: &report.outcome,
            stdout: stream(&report.stdout),
            stderr: stream(&report.stderr),
            setup_ms: millis(report.timings.setup),
            run_ms: millis(report.timings.run),
            cpu_ms: millis(report.usage.cpu_user + report.usage.cpu_system),
            peak_memory: &report.usage.memory,
            files_changed: &report.changes,
            quarantined: &report.quarantined,
            enforcement: &report.enforcement,
            egress: None,
        }
    }
}

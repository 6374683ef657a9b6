//! A plain process, for low-risk work on hosts without better. It says what it is: nothing here is a wall.
//!
//! Where the native walls work, a configured `subprocess` gets them.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use jail::{
    Access, Capture, Changes, Control, Enforcement, Feed, Level, Limit, Network, Outcome, Program, Report,
    Streams, Timings, Usage,
};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::backend::{Backend, BackendName, Job, Refusal};
use crate::native::Native;

/// Runs jobs as plain processes, or behind native walls where those work.
pub struct Subprocess {
    native: Native,
}

impl Subprocess {
    /// `native` is used wherever it is proved.
    pub fn new(native: Native) -> Subprocess {
        Subprocess { native }
    }
}

impl Backend for Subprocess {
    fn name(&self) -> BackendName {
        BackendName::Subprocess
    }

    fn run(&self, job: Job) -> Result<Report, Refusal> {
        // Whatever keeps the walls from being proved, this backend was chosen knowing that there may be none.
        match self.native.proof() {
            Ok(proof) if proof.missing_walls().is_empty() => self.native.run(job),
            _ => run_plain(job),
        }
    }
}

/// Environment filter, restricted `PATH`, working directory, timeout and the end of the process group.
pub(crate) fn run_plain(job: Job) -> Result<Report, Refusal> {
    let draft = job.plan.draft();
    let beyond = |why| Err(Refusal::Beyond { backend: "subprocess", why });
    let Program::Inside(program) = &draft.program else {
        return beyond("it runs programs of the host only");
    };
    if !job.plan.sealed().is_empty() {
        return beyond("it cannot show a file as it was sealed");
    }
    if draft.network != Network::Closed {
        return beyond(
            "it cannot keep a program off the network, and this plan is for one that may use sockets",
        );
    }
    if draft.directories.iter().any(|directory| directory.access == Access::Write) {
        return beyond("it cannot confine writing to the granted directories");
    }
    let Streams::Collect { input } = job.streams else {
        return beyond("it collects output, it does not pass it on: use `--json`");
    };
    let begun = Instant::now();
    let child = spawn(program, &job.plan, &input).map_err(Refusal::Spawn)?;
    let started = Instant::now();
    let ended = wait_for_end(child, input, &job.plan, started).map_err(Refusal::Spawn)?;
    Ok(Report {
        outcome: ended.outcome,
        stdout: ended.stdout.finish(),
        stderr: ended.stderr.finish(),
        timings: Timings { setup: started - begun, run: started.elapsed() },
        usage: Usage::default(),
        enforcement: enforcement(),
        changes: Changes::NotAsked,
        quarantined: Vec::new(),
    })
}

#[expect(clippy::disallowed_methods, reason = "this backend is a plain process, and says so in its report")]
fn spawn(program: &std::ffi::OsStr, plan: &jail::Plan, input: &Feed) -> std::io::Result<Child> {
    let draft = plan.draft();
    Command::new(program)
        .args(&draft.arguments)
        .env_clear()
        .envs(draft.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&draft.working_directory)
        .process_group(0)
        .stdin(match input {
            Feed::Bytes(_) => Stdio::piped(),
            Feed::Own => Stdio::inherit(),
            // Nobody has one here.
            Feed::Lifeline => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
}

struct Ended {
    outcome: Outcome,
    stdout: Capture,
    stderr: Capture,
}

fn wait_for_end(
    mut child: Child,
    input: Feed,
    plan: &jail::Plan,
    started: Instant,
) -> std::io::Result<Ended> {
    let limits = &plan.draft().limits;
    let feed = match (child.stdin.take(), input) {
        // A tool that does not read its input ends, and so does this.
        (Some(mut stdin), Feed::Bytes(bytes)) => {
            Some(std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &bytes)))
        }
        _ => None,
    };
    let stdout = child.stdout.take().map(|stream| collect(stream, limits.output));
    let stderr = child.stderr.take().map(|stream| collect(stream, limits.output));
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let mut stopped = false;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() >= limits.timeout && !stopped {
            stopped = true;
            kill_group(group);
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // Whoever is left of the group would keep the pipes open.
    kill_group(group);
    drop(feed);
    let join = |thread: Option<std::thread::JoinHandle<Capture>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| Capture::new(0))
    };
    let outcome = match (stopped, status.code(), status.signal()) {
        (true, _, _) => Outcome::Stopped(Limit::Timeout),
        (false, Some(code), _) => Outcome::Exit(code),
        (false, None, signal) => Outcome::Signal(signal.unwrap_or_default()),
    };
    Ok(Ended { outcome, stdout: join(stdout), stderr: join(stderr) })
}

fn kill_group(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn collect(mut stream: impl Read + Send + 'static, cap: u64) -> std::thread::JoinHandle<Capture> {
    std::thread::spawn(move || {
        let mut capture = Capture::new(cap);
        let mut buffer = [0; 16 * 1024];
        while let Ok(count) = stream.read(&mut buffer) {
            match buffer.get(..count) {
                Some(bytes) if count > 0 => capture.keep(bytes),
                _ => break,
            }
        }
        capture
    })
}

fn enforcement() -> Enforcement {
    let mut enforcement =
        Enforcement::absent("a plain process: nothing but its environment and its time is limited");
    enforcement.set(Control::Environment, Level::Enforced, "only what the plan names");
    enforcement.set(Control::Output, Level::Enforced, "counted and drained");
    enforcement.set(
        Control::Timeout,
        Level::Partly,
        "the process group is killed; one that leaves it is not",
    );
    enforcement
}

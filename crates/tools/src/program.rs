//! A program of the operator's own that is asked behind walls: one text in, one text out.
//!
//! Knows neither questions nor answers. It sees the system's software and itself, and nothing else of the host: no
//! workspace, nothing it could write to, nobody it could talk to.
//!
//! # Invariants
//! - Only its owner, who is root or who runs the gate, can change it or put another in its place.
//! - What runs is what was configured: after any change it is read again, and one with another digest is not run.
//! - A run that nobody waits for any more is ended.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use contract::Digest;
use jail::{Captured, ChangeReport, Limit, Limits, Outcome, Plan, Program, Report, Request, Strictness};
use rustix::fs::OFlags;
use rustix::process::geteuid;
use sandbox::{PlanRequest, Profile, Refusal};
use thiserror::Error;

use crate::pipeline::{EndOnDrop, Ending};
use crate::surroundings::Surroundings;

/// The largest program.
const MOST_BYTES: u64 = 256 << 20;
/// As much of each stream as is taken.
const MOST_SAID: u64 = 64 << 10;

/// Why a file is not a program that decides about others.
#[derive(Debug, Error)]
pub enum UnfitProgram {
    /// Where it is depends on who asks.
    #[error("`{}` is not an absolute path", path.display())]
    Relative {
        /// What was given.
        path: PathBuf,
    },
    /// It is not there.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A link can be led elsewhere.
    #[error("`{}` leads through a link", path.display())]
    Link {
        /// What was given.
        path: PathBuf,
        /// Where it leads.
        real: PathBuf,
    },
    /// It is something else.
    #[error("`{}` is not a file", path.display())]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// It is no program, or not for the one as whom it runs.
    #[error("`{}` cannot be executed: `chmod {mode}` would change that", path.display())]
    NotExecutable {
        /// Which.
        path: PathBuf,
        /// What it takes.
        mode: &'static str,
    },
    /// Others can change it, or put another in its place.
    #[error("`{}` {why}", path.display())]
    Planted {
        /// Which file or directory.
        path: PathBuf,
        /// Who can.
        why: &'static str,
    },
    /// It is too large.
    #[error("`{}` is larger than 256 MiB", path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
}

/// Why a program has said nothing that counts. For operators.
#[derive(Debug, Error)]
pub enum ProgramError {
    /// It cannot be trusted any more.
    #[error(transparent)]
    Unfit(#[from] UnfitProgram),
    /// It is another one by now.
    #[error("`{}` is not the program that was configured: start the gate anew if it is yours", path.display())]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// Nothing was executed.
    #[error("it cannot be run behind walls")]
    NotRun(#[from] Refusal),
    /// It did not come to a good end.
    #[error("it {how}")]
    Ended {
        /// How it ended.
        how: String,
        /// What it complained.
        stderr: String,
    },
    /// Half of an answer reads like a whole one.
    #[error("it wrote more than 64 KiB")]
    TooMuch,
    /// Nobody wants to know any more.
    #[error("it was not run: nobody waits for it")]
    NotWaitedFor,
    /// Nobody is left to run it.
    #[error("the gate is ending")]
    Ending,
}

/// What a program has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spoken {
    /// All that it wrote.
    pub stdout: Vec<u8>,
    /// What it complained, for operators.
    pub stderr: String,
}

/// A program of the operator's own.
pub struct OwnProgram {
    path: PathBuf,
    arguments: Vec<String>,
    digest: Digest,
    timeout: Duration,
    /// The file that was last seen to have this digest.
    seen: Mutex<Option<Stamp>>,
}

impl fmt::Debug for OwnProgram {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "OwnProgram({})", self.path.display())
    }
}

/// By which a file is known not to have changed: nobody but root can set the time of its last change.
type Stamp = (u64, u64, u64, i64, i64);

/// The digest of a program that only root, or whoever runs this, can change.
pub fn examine_program(path: &Path) -> Result<Digest, UnfitProgram> {
    examine(path).map(|(digest, _)| digest)
}

impl OwnProgram {
    /// The program that has this digest. Nothing is looked at before it is asked.
    pub fn new(path: PathBuf, arguments: Vec<String>, digest: Digest, timeout: Duration) -> OwnProgram {
        OwnProgram { path, arguments, digest, timeout, seen: Mutex::default() }
    }

    /// Runs it to its end with this input. Dropping the future ends it.
    pub async fn ask(self: &Arc<Self>, at: &Surroundings, input: Vec<u8>) -> Result<Spoken, ProgramError> {
        let plan = self.plan(at)?;
        let request = Request { plan, sealed: Vec::new(), input };
        let ending = Arc::new(Ending::default());
        let _on_drop = EndOnDrop(Arc::clone(&ending));
        let own = Arc::clone(self);
        let ran = at.launch(move |launcher| {
            // It may have waited for a thread longer than anybody waited for it.
            if ending.has_ended() {
                return Err(ProgramError::NotWaitedFor);
            }
            own.check()?;
            Ok::<Report, ProgramError>(launcher.run(&request, |hangup| ending.begun(hangup))?)
        });
        spoken(ran.await.ok_or(ProgramError::Ending)??)
    }

    fn plan(&self, at: &Surroundings) -> Result<Plan, ProgramError> {
        let request = PlanRequest {
            guarded: None,
            profile: Profile::Inspect,
            program: Program::Brought(self.path.clone()),
            arguments: self.arguments.iter().map(OsString::from).collect(),
            working_directory: "/".into(),
            read: Vec::new(),
            workspace: None,
            write: Vec::new(),
            variables: vec![("LC_ALL".into(), "C.UTF-8".into())],
            names: at.names().clone(),
            limits: Limits {
                memory: 512 << 20,
                pids: 64,
                disk: 64 << 20,
                output: MOST_SAID,
                timeout: self.timeout,
                ..Limits::default()
            },
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        };
        Ok(request.into_plan(at.host()).map_err(Refusal::from)?)
    }

    /// ATTACK(planted-hook): what stands there now is what was configured, and nobody else's.
    fn check(&self) -> Result<(), ProgramError> {
        let stamp = fs::symlink_metadata(&self.path).as_ref().map(stamp_of).ok();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if stamp.is_some() && *seen == stamp {
            return Ok(());
        }
        *seen = None;
        let (digest, stamp) = examine(&self.path)?;
        if digest != self.digest {
            return Err(ProgramError::Changed { path: self.path.clone() });
        }
        *seen = Some(stamp);
        Ok(())
    }
}

fn spoken(report: Report) -> Result<Spoken, ProgramError> {
    let stderr = report.stderr.text();
    let how = match report.outcome {
        Outcome::Exit(0) if report.stdout.dropped > 0 => return Err(ProgramError::TooMuch),
        Outcome::Exit(0) => {
            let Captured { bytes, .. } = report.stdout;
            return Ok(Spoken { stdout: bytes, stderr });
        }
        Outcome::Exit(code) => format!("ended with exit code {code}"),
        Outcome::Signal(signal) => format!("was ended by signal {signal}"),
        Outcome::Stopped(Limit::Timeout) => "took too long".to_owned(),
        Outcome::Stopped(Limit::Memory) => "took too much memory".to_owned(),
        Outcome::Stopped(Limit::Disk) => "wrote too much scratch space".to_owned(),
        Outcome::Stopped(Limit::Abandoned) => "was not waited for".to_owned(),
        Outcome::NotFound => "cannot be started: what its first line names is not there".to_owned(),
        Outcome::CannotExecute(number) => {
            format!("cannot be executed: {}", io::Error::from_raw_os_error(number))
        }
    };
    Err(ProgramError::Ended { how, stderr })
}

fn examine(path: &Path) -> Result<(Digest, Stamp), UnfitProgram> {
    let of = || path.to_owned();
    if !path.is_absolute() {
        return Err(UnfitProgram::Relative { path: of() });
    }
    let unreadable = |source| UnfitProgram::Unreadable { path: of(), source };
    let real = path.canonicalize().map_err(unreadable)?;
    if real.as_os_str() != path.as_os_str() {
        return Err(UnfitProgram::Link { path: of(), real });
    }
    let caller = geteuid().as_raw();
    for folder in path.ancestors().skip(1) {
        let status = fs::symlink_metadata(folder).map_err(unreadable)?;
        check_owner(folder, &status, caller)?;
    }
    // Opening a named pipe would wait for a writer.
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    let status = file.metadata().map_err(unreadable)?;
    if !status.is_file() {
        return Err(UnfitProgram::NotAFile { path: of() });
    }
    check_owner(path, &status, caller)?;
    // What root starts runs as nobody in particular.
    let (needed, mode) =
        if caller != 0 && status.uid() == caller { (0o500, "u+rx") } else { (0o005, "a+rx") };
    if status.mode() & needed != needed {
        return Err(UnfitProgram::NotExecutable { path: of(), mode });
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(UnfitProgram::TooLarge { path: of() });
    }
    Ok((Digest::of(&bytes), stamp_of(&status)))
}

/// Only root and the caller can change a program, or what is on the way to it. In a directory like `/tmp` everybody can
/// make files, and nobody can replace those of others.
fn check_owner(path: &Path, status: &Metadata, caller: u32) -> Result<(), UnfitProgram> {
    let planted = |why| Err(UnfitProgram::Planted { path: path.to_owned(), why });
    let guarded = status.is_dir() && status.mode() & 0o1000 != 0;
    if status.mode() & 0o022 != 0 && !guarded {
        return planted("can be written by others: `chmod go-w` would change that");
    }
    if status.uid() != 0 && status.uid() != caller {
        return planted("belongs to somebody else");
    }
    Ok(())
}

fn stamp_of(status: &Metadata) -> Stamp {
    (status.dev(), status.ino(), status.size(), status.ctime(), status.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn why(path: &Path) -> String {
        examine_program(path).unwrap_err().to_string()
    }

    #[test]
    fn a_program_that_only_its_owner_can_change_has_a_digest() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = file(&folder, "hook", 0o755);
        assert_eq!(examine_program(&path).unwrap(), Digest::of(b"#!/bin/sh\n"));
    }

    #[test]
    fn what_others_can_change_or_replace_is_unfit() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for mode in [0o775, 0o757, 0o777] {
            assert!(why(&file(&folder, "hook", mode)).contains("can be written by others"), "{mode:o}");
        }
        let open = folder.join("open");
        fs::create_dir(&open).unwrap();
        let path = file(&open, "hook", 0o755);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(why(&path).contains("can be written by others"));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(examine_program(&path).is_ok(), "as in `/tmp`");
    }

    #[test]
    fn what_is_no_plain_program_is_unfit() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = file(&folder, "hook", 0o755);
        symlink(&path, folder.join("link")).unwrap();
        for (path, expected) in [
            (PathBuf::from("hook"), "is not an absolute path"),
            (folder.join("gone"), "cannot be read"),
            (folder.join("link"), "leads through a link"),
            (folder.join("./hook/../hook"), "cannot be read"),
            (folder.clone(), "is not a file"),
            (file(&folder, "text", 0o644), "cannot be executed"),
        ] {
            assert!(why(&path).contains(expected), "{}: {}", path.display(), why(&path));
        }
    }

    #[test]
    fn a_program_that_nobody_waits_for_any_more_is_not_even_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = file(&folder, "hook", 0o755);
        let digest = examine_program(&path).unwrap();
        let program = Arc::new(OwnProgram::new(path, Vec::new(), digest, Duration::from_secs(1)));
        let binary = folder.join("no-binary");
        let proofs = sandbox::Proofs { folder: None, prober: binary.clone() };
        let at = Surroundings::new(binary, proofs, sandbox::Host::default(), || 0);
        let asked = async |program: &Arc<OwnProgram>| {
            let (go_on, wait) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || wait.recv());
            tokio::select! {
                biased;
                said = program.ask(&at, Vec::new()) => panic!("{said:?}"),
                () = tokio::task::yield_now() => {}
            }
            drop(go_on);
            let _ = busy.await;
            // The only thread has come to what was after it.
            tokio::task::spawn_blocking(|| ()).await.unwrap();
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.max_blocking_threads(1).build().unwrap();
        runtime.block_on(asked(&program));
        assert!(program.seen.lock().unwrap().is_none());
        assert!(runtime.block_on(program.ask(&at, Vec::new())).is_err());
        assert!(program.seen.lock().unwrap().is_some(), "it is looked at when somebody waits");
    }

    #[test]
    fn a_program_that_has_changed_is_not_the_one_that_was_configured() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let path = file(&folder, "hook", 0o755);
        let digest = examine_program(&path).unwrap();
        let program = OwnProgram::new(path.clone(), Vec::new(), digest, Duration::from_secs(1));
        assert!(program.check().is_ok() && program.check().is_ok());
        fs::write(&path, "#!/bin/sh\necho '{}'\n").unwrap();
        assert!(matches!(program.check(), Err(ProgramError::Changed { .. })));
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(program.check().is_ok(), "it is the same again");
        fs::remove_file(&path).unwrap();
        assert!(matches!(program.check(), Err(ProgramError::Unfit(UnfitProgram::Unreadable { .. }))));
    }
}

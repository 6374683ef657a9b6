//! The plan of one run: everything the sandbox will permit, checked before anything is built.
//!
//! A plan that exists is valid in itself. Whether the host can carry it out is found out when it is.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::control::{Control, Controls};
use crate::environment::{HOME, is_denied_variable};
use crate::limits::{Limits, LimitsError};
use crate::names::Names;
use crate::seal::{self, SealedFile};
use crate::system::{is_never_shown, is_never_writable};

/// The largest encoded plan that is accepted.
pub(crate) const MAX_PLAN_BYTES: usize = 1024 * 1024;

const MAX_DIRECTORIES: usize = 64;
const MAX_PORTS: usize = 64;
const MAX_AUTHORITY_BYTES: usize = 256 * 1024;
const MAX_ARGUMENTS: usize = 8192;
const MAX_TEXT_BYTES: usize = 768 * 1024;
const MAX_HOME_FILES: usize = 16;
const MAX_HOME_BYTES: usize = 64 * 1024;

/// What was asked for, before it is checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draft {
    /// What to execute.
    pub program: Program,
    /// Its arguments, without its own name.
    pub arguments: Vec<OsString>,
    /// Where it starts.
    #[serde(with = "wire_path")]
    pub working_directory: PathBuf,
    /// Host directories that it can see, each at its own path.
    pub directories: Vec<Directory>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Secrets to hide and files to protect.
    #[serde(with = "crate::names::wire")]
    pub names: Names,
    /// Whom it may talk to.
    pub network: Network,
    /// How much it may use.
    pub limits: Limits,
    /// Whether a list of changed files is wanted.
    pub changes: ChangeReport,
    /// What to do about a limit that can only be watched.
    pub strictness: Strictness,
}

/// What to execute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// A program of the sandbox: an absolute path, or a name looked up in its `PATH`.
    Inside(OsString),
    /// The same, executed when the run has been given its input and not before. That is a [`WORD`] to begin: the program itself
    /// reads nothing.
    WhenTold(OsString),
    /// A file of the host, brought in read-only.
    Brought(#[serde(with = "wire_path")] PathBuf),
    /// What [`crate::serve_if_asked`] was given: our own code, in a copy of the process that launches it. Nothing is
    /// executed, so it begins at once.
    Own,
}

/// The input that has a [`Program::WhenTold`] begin.
pub const WORD: &[u8] = b"\n";

/// A file that a program finds in its home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomeFile {
    /// Its name there.
    pub name: String,
    /// What is in it.
    pub content: String,
}

/// A host directory that the sandbox can see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Where it is, on the host and in the sandbox.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// What may be done there.
    pub access: Access,
    /// What is in it.
    pub content: Content,
}

/// What is in a granted directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Somebody's work: searched for secrets, sockets and names to protect before it is shown.
    Work,
    /// The same, and the tool works there for its owner: what only the owner may read is shown, even when root asks and
    /// everybody may enter.
    Workspace,
    /// Installed software, shown as it is.
    Software,
}

/// What may be done in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Access {
    /// Read and execute.
    Read,
    /// Read, execute and change.
    Write,
}

/// Whom the programs of a sandbox may talk to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Nobody: no TCP at all.
    Closed,
    /// Each other, over loopback.
    Loopback,
    /// Each other, and whoever holds the [`crate::Doors`]: for them every address leads there.
    Guarded(Guarded),
}

/// A network of which somebody else answers for every address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guarded {
    /// TCP ports that are answered; others are refused by the kernel.
    pub ports: Vec<u16>,
    /// Certificate authorities, in PEM, that programs trust besides the host's.
    pub authority: Option<String>,
    /// Whether programs find a unix socket of the guard's as well.
    pub local: LocalDoor,
}

/// A unix socket of the guard's, at [`crate::LOCAL_DOOR`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LocalDoor {
    /// There is none.
    #[default]
    Absent,
    /// There is.
    Open,
}

/// Whether a list of changed files is wanted; it costs a walk of the writable directories before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeReport {
    /// No list.
    Skip,
    /// A list.
    List,
}

/// What to do about a limit that the host can watch but not enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strictness {
    /// Run, and say so in the report.
    Report,
    /// Refuse.
    Refuse,
}

/// Why a draft is not a plan.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// There is nothing to run.
    #[error("no command was given")]
    NoCommand,
    /// A text cannot be passed to a program.
    #[error("{what} holds a NUL byte")]
    Nul {
        /// Which text.
        what: &'static str,
    },
    /// A path is relative or not in its plain form.
    #[error("`{}` is not an absolute path without `.` and `..`", path.display())]
    NotPlain {
        /// The path.
        path: PathBuf,
    },
    /// A directory nobody may have.
    #[error("`{}` cannot be granted for {access}", path.display())]
    Forbidden {
        /// The directory.
        path: PathBuf,
        /// What was asked.
        access: &'static str,
    },
    /// A variable that may not exist in a sandbox.
    #[error("the variable `{name}` is not allowed in a sandbox: it is a secret by its name, or injects code")]
    DeniedVariable {
        /// Its name.
        name: String,
    },
    /// A variable without a proper name.
    #[error("`{name}` is not the name of a variable")]
    BadVariable {
        /// What was given.
        name: String,
    },
    /// A limit makes no sense.
    #[error(transparent)]
    Limits(#[from] LimitsError),
    /// A file that is not in a granted directory, or is a secret by its name.
    #[error("`{}` cannot be sealed", path.display())]
    NotSealable {
        /// The file.
        path: PathBuf,
    },
    /// Nobody can be reached there.
    #[error("0 is not a port")]
    NoPort,
    /// Too much of something.
    #[error("the plan is too large: {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
    },
    /// The bytes are no plan.
    #[error("the plan cannot be decoded")]
    Garbled,
}

/// A checked plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    draft: Draft,
    /// INVARIANT(no-weak-plan): empty in every build without the `weaken` feature; `decode` sees to it.
    without: Controls,
    sealed: Vec<SealedFile>,
    home: Vec<HomeFile>,
}

impl TryFrom<Draft> for Plan {
    type Error = PlanError;

    fn try_from(mut draft: Draft) -> Result<Plan, PlanError> {
        check_command(&draft)?;
        check_plain(&draft.working_directory)?;
        check_environment(&draft.environment)?;
        check_network(&mut draft.network)?;
        draft.limits.check()?;
        if draft.directories.len() > MAX_DIRECTORIES {
            return Err(PlanError::TooLarge { what: "more than 64 directories" });
        }
        for directory in &draft.directories {
            check_directory(directory)?;
        }
        if draft.names.hidden.len() + draft.names.protected.len() > 512 {
            return Err(PlanError::TooLarge { what: "more than 512 name patterns" });
        }
        // One spelling for one directory: `/a//b/` and `/a/b` are the same.
        for directory in &mut draft.directories {
            directory.path = directory.path.components().collect();
        }
        // Parents are mounted before children; of two grants for one directory the wider one comes last and wins.
        draft.directories.sort_by(|a, b| (&a.path, a.access).cmp(&(&b.path, b.access)));
        Ok(Plan { draft, without: Controls::NONE, sealed: Vec::new(), home: Vec::new() })
    }
}

impl Plan {
    /// What the plan says.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// The same plan with files whose content comes with it.
    pub fn sealing(self, files: Vec<SealedFile>) -> Result<Plan, PlanError> {
        files.iter().try_for_each(|file| check_plain(&file.path))?;
        seal::check(&files, &self.draft.directories, &self.draft.names)?;
        Ok(Plan { sealed: files, ..self })
    }

    /// The files whose content comes with it.
    pub fn sealed(&self) -> &[SealedFile] {
        &self.sealed
    }

    /// The same plan with files in the home that a program finds, which is empty otherwise.
    pub fn with_home(self, files: Vec<HomeFile>) -> Result<Plan, PlanError> {
        let text: usize = files.iter().map(|file| file.name.len() + file.content.len()).sum();
        if files.len() > MAX_HOME_FILES || text > MAX_HOME_BYTES {
            return Err(PlanError::TooLarge { what: "more than 16 files or 64 KiB in the home" });
        }
        for HomeFile { name, .. } in &files {
            check_plain(&Path::new(HOME).join(name))?;
            if Path::new(name).file_name() != Some(OsStr::new(name)) {
                return Err(PlanError::NotPlain { path: PathBuf::from(name) });
            }
        }
        Ok(Plan { home: files, ..self })
    }

    /// The files that a program finds in its home.
    pub(crate) fn home(&self) -> &[HomeFile] {
        &self.home
    }

    /// Whether somebody may stand in its place before its command is there: nothing is written there, or brought in, or led out,
    /// and where it starts cannot be taken elsewhere.
    pub(crate) fn has_lasting_place(&self) -> bool {
        let draft = &self.draft;
        self.without.is_empty()
            && self.sealed.is_empty()
            && !matches!(draft.network, Network::Guarded(_))
            && !matches!(draft.program, Program::Brought(_))
            && draft.directories.iter().all(|directory| {
                let beneath = draft.working_directory.strip_prefix(&directory.path);
                directory.access == Access::Read && beneath.map_or(true, |path| path.as_os_str().is_empty())
            })
    }

    /// Whether another plan differs by its command alone, so that either can be run where the other was.
    pub(crate) fn shares_place_with(&self, other: &Plan) -> bool {
        fn place(plan: &Plan) -> impl PartialEq {
            let Plan { draft, without, sealed, home: _ } = plan;
            let Draft { program: _, arguments: _, environment: _, working_directory, directories, .. } =
                draft;
            let Draft { names, network, limits, changes, strictness, .. } = draft;
            (without, sealed, working_directory, directories, names, network, limits, changes, strictness)
        }
        place(self) == place(other)
    }

    /// Whether a control is to be raised.
    pub(crate) fn keeps(&self, control: Control) -> bool {
        !self.without.contains(control)
    }

    /// The controls that are left out.
    pub(crate) fn without(&self) -> Controls {
        self.without
    }

    /// The same plan with one wall left out, to prove that its absence is noticed.
    #[cfg(feature = "weaken")]
    pub fn dangerously_without(mut self, control: Control) -> Plan {
        self.without = self.without.with(control);
        self
    }

    /// The plan as bytes.
    pub fn encode(&self) -> Result<Vec<u8>, PlanError> {
        let bytes = postcard::to_stdvec(&(&self.draft, self.without, &self.sealed, &self.home))
            .map_err(|_| PlanError::Garbled)?;
        if bytes.len() > MAX_PLAN_BYTES {
            return Err(PlanError::TooLarge { what: "more than 1 MiB when encoded" });
        }
        Ok(bytes)
    }

    /// A plan from bytes that anyone may have written.
    pub fn decode(bytes: &[u8]) -> Result<Plan, PlanError> {
        if bytes.len() > MAX_PLAN_BYTES {
            return Err(PlanError::TooLarge { what: "more than 1 MiB when encoded" });
        }
        type Wire = (Draft, Controls, Vec<SealedFile>, Vec<HomeFile>);
        let (draft, without, sealed, home): Wire =
            postcard::from_bytes(bytes).map_err(|_| PlanError::Garbled)?;
        if !without.is_empty() && !cfg!(feature = "weaken") {
            return Err(PlanError::Garbled);
        }
        Plan { without, ..Plan::try_from(draft)? }.sealing(sealed)?.with_home(home)
    }
}

fn check_command(draft: &Draft) -> Result<(), PlanError> {
    match &draft.program {
        Program::Inside(name) | Program::WhenTold(name) if name.is_empty() => {
            return Err(PlanError::NoCommand);
        }
        Program::Inside(name) | Program::WhenTold(name) => check_nul(name, "the command")?,
        Program::Brought(path) => check_plain(path)?,
        Program::Own => {}
    }
    if draft.arguments.len() > MAX_ARGUMENTS {
        return Err(PlanError::TooLarge { what: "more than 8192 arguments" });
    }
    let text: usize = draft.arguments.iter().map(|a| a.len()).sum();
    if text > MAX_TEXT_BYTES {
        return Err(PlanError::TooLarge { what: "more than 768 KiB of arguments" });
    }
    draft.arguments.iter().try_for_each(|argument| check_nul(argument, "an argument"))
}

fn check_network(network: &mut Network) -> Result<(), PlanError> {
    let Network::Guarded(guarded) = network else { return Ok(()) };
    guarded.ports.sort_unstable();
    guarded.ports.dedup();
    if guarded.ports.len() > MAX_PORTS {
        return Err(PlanError::TooLarge { what: "more than 64 ports" });
    }
    if guarded.ports.contains(&0) {
        return Err(PlanError::NoPort);
    }
    match &guarded.authority {
        Some(text) if text.len() > MAX_AUTHORITY_BYTES => {
            Err(PlanError::TooLarge { what: "more than 256 KiB of certificates" })
        }
        _ => Ok(()),
    }
}

fn check_environment(environment: &[(OsString, OsString)]) -> Result<(), PlanError> {
    for (name, value) in environment {
        let shown = || name.to_string_lossy().into_owned();
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(PlanError::BadVariable { name: shown() });
        }
        check_nul(name, "a variable")?;
        check_nul(value, "a variable")?;
        if is_denied_variable(name) {
            return Err(PlanError::DeniedVariable { name: shown() });
        }
    }
    let text: usize = environment.iter().map(|(name, value)| name.len() + value.len()).sum();
    if environment.len() > 1024 || text > MAX_TEXT_BYTES {
        return Err(PlanError::TooLarge { what: "more than 1024 variables or 768 KiB of them" });
    }
    Ok(())
}

fn check_directory(directory: &Directory) -> Result<(), PlanError> {
    check_plain(&directory.path)?;
    let forbidden = |access| Err(PlanError::Forbidden { path: directory.path.clone(), access });
    if is_never_shown(&directory.path) {
        return forbidden(match directory.access {
            Access::Read => "reading",
            Access::Write => "writing",
        });
    }
    // ATTACK(granted-git-directory): `.git` itself is guarded when it is granted; what is in it cannot be granted alone.
    let in_git =
        directory.path.parent().is_some_and(|p| p.iter().any(|name| name.eq_ignore_ascii_case(".git")));
    if directory.access == Access::Write && (in_git || is_never_writable(&directory.path)) {
        return forbidden("writing");
    }
    Ok(())
}

fn check_plain(path: &Path) -> Result<(), PlanError> {
    let plain = path.is_absolute()
        && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
        && !path.as_os_str().as_bytes().contains(&0)
        && path.as_os_str().len() < 4096;
    if plain { Ok(()) } else { Err(PlanError::NotPlain { path: path.to_owned() }) }
}

fn check_nul(text: &OsStr, what: &'static str) -> Result<(), PlanError> {
    if text.as_bytes().contains(&0) { Err(PlanError::Nul { what }) } else { Ok(()) }
}

/// Paths on the wire are bytes: they need not be UTF-8.
pub(crate) mod wire_path {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            path.to_string_lossy().serialize(serializer)
        } else {
            path.as_os_str().as_bytes().serialize(serializer)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer).map(PathBuf::from)
        } else {
            Vec::<u8>::deserialize(deserializer).map(|bytes| PathBuf::from(OsString::from_vec(bytes)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        Draft {
            program: Program::Inside("ls".into()),
            arguments: vec!["-la".into()],
            working_directory: "/".into(),
            directories: Vec::new(),
            environment: Vec::new(),
            names: Names::default(),
            network: Network::Closed,
            limits: Limits::default(),
            changes: ChangeReport::Skip,
            strictness: Strictness::Report,
        }
    }

    fn with_directory(path: &str, access: Access) -> Result<Plan, PlanError> {
        Plan::try_from(Draft {
            directories: vec![Directory { path: path.into(), access, content: Content::Work }],
            ..draft()
        })
    }

    #[test]
    fn a_plan_survives_the_wire_whole() {
        let plan = Plan::try_from(draft());
        let back = plan.as_ref().ok().and_then(|p| p.encode().ok()).and_then(|b| Plan::decode(&b).ok());
        assert_eq!(back, plan.ok());
    }

    #[test]
    fn the_system_cannot_be_granted_for_writing_nor_the_kernel_for_reading() {
        for path in ["/", "/etc", "/usr/local", "/proc/sys", "/home", "/run"] {
            assert!(
                matches!(with_directory(path, Access::Write), Err(PlanError::Forbidden { .. })),
                "{path}"
            );
        }
        for path in ["/", "/proc", "/sys/kernel", "/dev/shm", "/var/run"] {
            assert!(matches!(with_directory(path, Access::Read), Err(PlanError::Forbidden { .. })), "{path}");
        }
        assert!(with_directory("/home/me/project", Access::Write).is_ok());
        assert!(with_directory("/etcetera", Access::Write).is_ok(), "a prefix of a name is not containment");
    }

    #[test]
    fn paths_that_are_not_plain_are_refused() {
        for path in ["relative", "/a/../b", "", "/a\0b"] {
            assert!(
                matches!(with_directory(path, Access::Read), Err(PlanError::NotPlain { .. })),
                "{path:?}"
            );
        }
    }

    #[test]
    fn secrets_and_injection_cannot_be_put_into_the_environment() {
        let environment = vec![("LD_PRELOAD".into(), "/tmp/x.so".into())];
        let refused = Plan::try_from(Draft { environment, ..draft() });
        assert_eq!(refused, Err(PlanError::DeniedVariable { name: "LD_PRELOAD".into() }));
    }

    #[test]
    fn an_oversized_or_garbled_plan_is_refused() {
        assert_eq!(Plan::decode(&[0xff; 40]), Err(PlanError::Garbled));
        assert!(matches!(Plan::decode(&vec![0; MAX_PLAN_BYTES + 1]), Err(PlanError::TooLarge { .. })));
        let arguments = vec![OsString::from("x".repeat(MAX_TEXT_BYTES + 1))];
        assert!(matches!(Plan::try_from(Draft { arguments, ..draft() }), Err(PlanError::TooLarge { .. })));
    }

    #[cfg(not(feature = "weaken"))]
    #[test]
    fn a_weakened_plan_cannot_be_decoded() {
        let without = Controls::NONE.with(Control::Seccomp);
        let sealed: Vec<SealedFile> = Vec::new();
        let bytes = postcard::to_stdvec(&(draft(), without, sealed)).unwrap_or_default();
        assert_eq!(Plan::decode(&bytes), Err(PlanError::Garbled));
    }
}

//! The directories of a plan, on the launcher's side: opened, searched for names, and made into mounts and orders.
//!
//! Attaches nothing: the init does that, and checks that it has what was searched.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;

use crate::control::Control;
use crate::entry::{Guarded, open_directory};
use crate::identity::Identity;
use crate::launch::StartError;
use crate::mounts::{copy_of, translate_owners};
use crate::names::Names;
use crate::nursery::Nursery;
use crate::orders::{OrderedDirectory, Source, Step};
use crate::plan::{Access, ChangeReport, Content, Directory, Draft, Plan};
use crate::system::is_public;
use crate::tree::{Detail, End, Search, Survey, survey};
use crate::windows::{self, Window};

/// A directory of the plan, opened and surveyed.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) access: Access,
    pub(crate) content: Content,
    pub(crate) handle: OwnedFd,
    /// Windows into the host's kernel that are mounted in it.
    pub(crate) windows: Vec<Guarded>,
    pub(crate) survey: Survey,
}

impl Opened {
    /// A survey of it as it is now.
    pub(crate) fn search<'a>(
        &'a self,
        names: &'a Names,
        detail: Detail,
        until: Option<Instant>,
    ) -> Search<'a, &'a OwnedFd> {
        let (directory, path, windows) = (&self.handle, &self.path, &self.windows);
        Search { directory, path, names, windows, detail, before: None, until }
    }
}

pub(crate) fn open_directories(
    plan: &Plan,
    windows: Option<Arc<[Window]>>,
    until: Option<Instant>,
) -> Result<Vec<Opened>, StartError> {
    let draft = plan.draft();
    if draft.directories.is_empty() {
        return Ok(Vec::new());
    }
    let windows = windows
        .map_or_else(|| windows::of_the_host().map(Arc::from), Ok)
        .map_err(|source| StartError::Wall { step: Step::Mounts, source })?;
    draft.directories.iter().map(|directory| open(directory, draft, &windows, until)).collect()
}

fn open(
    directory: &Directory,
    draft: &Draft,
    windows: &[Window],
    until: Option<Instant>,
) -> Result<Opened, StartError> {
    let path = directory.path.clone();
    let failed = |error: Errno| match error {
        Errno::LOOP => StartError::Link { path: path.clone() },
        error => StartError::Directory { path: path.clone(), source: error.into() },
    };
    let handle = open_directory(&path).map_err(failed)?;
    let device = rustix::fs::fstat(&handle).map_err(failed)?.st_dev;
    if let Some(kind) = windows::kind_of_device(windows, device) {
        return Err(StartError::Window { path, kind });
    }
    let windows = windows::beneath(windows, &handle, &path);
    let (access, content) = (directory.access, directory.content);
    let mut opened = Opened { path, access, content, handle, windows, survey: Survey::nothing_to_guard() };
    let detail = match (draft.changes, directory.access) {
        (ChangeReport::List, Access::Write) => Detail::Stamps,
        _ => Detail::Names,
    };
    if directory.content != Content::Software {
        opened.survey = survey(&opened.search(&draft.names, detail, until));
    }
    match opened.survey.end {
        End::Unstable => Err(StartError::Unstable { path: opened.path }),
        // ATTACK(endless-search): what cannot be searched is not shown.
        End::Late => Err(StartError::Late { path: opened.path }),
        End::TooManyLinks => Err(StartError::Links { path: opened.path }),
        End::Whole | End::Part => Ok(opened),
    }
}

pub(crate) fn order_for(
    plan: &Plan,
    directory: &Opened,
    all: &[Opened],
    source: Source,
) -> Result<OrderedDirectory, StartError> {
    let failed = |error: Errno| StartError::Directory { path: directory.path.clone(), source: error.into() };
    let status = rustix::fs::fstat(&directory.handle).map_err(failed)?;
    let mut covered = Vec::new();
    if plan.keeps(Control::ProcFiles) {
        covered.extend(directory.windows.iter().cloned());
    }
    if plan.keeps(Control::HiddenNames) {
        covered.extend(directory.survey.hidden.iter().cloned());
    }
    if plan.keeps(Control::HostSockets) {
        covered.extend(directory.survey.doors.iter().cloned());
    }
    // The deepest first, each once: what is covered, or lies in what is, is not found again. A link with a hidden name
    // brings in what may be hidden by its own name, or hold something that is.
    covered.sort_by(|one, other| other.path.cmp(&one.path));
    covered.dedup_by(|one, other| one.path == other.path);
    Ok(OrderedDirectory {
        path: directory.path.clone(),
        access: directory.access,
        source,
        identity: (status.st_dev, status.st_ino),
        covered,
        between: between(directory, all)?,
        pinned: directory.survey.pinned.clone(),
        protected: directory.survey.protected.iter().chain(&directory.survey.git).cloned().collect(),
    })
}

/// The directories on the way from a writable grant down to the other grants in it.
///
/// ATTACK(nested-grant-moved): only they can be moved from inside, and with them what lies beneath, as the host sees it.
fn between(directory: &Opened, all: &[Opened]) -> Result<Vec<Guarded>, StartError> {
    let mut ways: BTreeSet<&Path> = BTreeSet::new();
    if directory.access == Access::Write {
        let beneath = all.iter().filter_map(|other| other.path.strip_prefix(&directory.path).ok());
        let is_way = |path: &&Path| !path.as_os_str().is_empty();
        ways.extend(beneath.flat_map(|path| path.ancestors().skip(1).filter(is_way)));
    }
    let guard = |way: &Path| {
        Guarded::at(&directory.handle, way)
            .map_err(|error| StartError::Directory { path: directory.path.join(way), source: error.into() })
    };
    ways.into_iter().map(guard).collect()
}

/// Root's directories are mounted by root itself: only it may translate owners, so that the sandbox, which is not root,
/// can use the files of the directory's owner, and what it makes belongs to that owner.
pub(crate) fn detached_for_root(
    directory: &Opened,
    identity: &Identity,
    nursery: &Nursery,
) -> Result<OwnedFd, StartError> {
    let path = || directory.path.clone();
    let failed = |source: io::Error| StartError::Directory { path: path(), source };
    let tree = copy_of(&directory.handle, Path::new("")).map_err(|error| failed(error.into()))?;
    let status = rustix::fs::fstat(&tree).map_err(|error| failed(error.into()))?;
    if identity.is_host_root() || needs_no_translation(directory, status.st_mode) {
        return Ok(tree);
    }
    let namespace = nursery.translation(identity, (status.st_uid, status.st_gid)).map_err(failed)?;
    match (translate_owners(&tree, &namespace), directory.access) {
        (Ok(()), _) => Ok(tree),
        // Without translation a stranger's eyes remain: less is seen, never more.
        (Err(_), Access::Read) => {
            copy_of(&directory.handle, Path::new("")).map_err(|error| failed(error.into()))
        }
        (Err(source), Access::Write) => Err(StartError::Owners { path: path(), source }),
    }
}

/// What is only shown is shown with a stranger's eyes, so that root's `--ro` does not open what only root may read:
/// always for the system, elsewhere if strangers may enter at all, unless the tool works there for the owner.
fn needs_no_translation(directory: &Opened, mode: u32) -> bool {
    let is_open = mode & 0o005 == 0o005 && directory.content != Content::Workspace;
    directory.access == Access::Read && (is_public(&directory.path) || is_open)
}

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
    /// What it was when it was opened.
    pub(crate) status: Status,
    /// Windows into the host's kernel that are mounted in it.
    pub(crate) windows: Vec<Guarded>,
    pub(crate) survey: Survey,
}

/// Which directory it is, to whom it belongs, and whom it is open to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) identity: (u64, u64),
    owner: (u32, u32),
    mode: u32,
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

/// Whether nothing in any of them is covered or kept as it is.
pub(crate) fn have_nothing_to_guard(opened: &[Opened]) -> bool {
    opened.iter().all(|directory| {
        let Survey { hidden, doors, pinned: _, protected: _, git: _, stamps: _, end } = &directory.survey;
        // The rest is guarded where something may be written.
        directory.access == Access::Read
            && directory.windows.is_empty()
            && hidden.is_empty()
            && doors.is_empty()
            && *end == End::Whole
    })
}

/// Whether directories are those that were opened before, belong to the same, and are open to the same.
pub(crate) fn are_the_same(before: &[Opened], now: &[Opened]) -> bool {
    let told = |opened: &Opened| (opened.path.clone(), opened.status);
    before.iter().map(told).eq(now.iter().map(told))
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
    draft
        .directories
        .iter()
        .map(|directory| searched(open(directory, &windows)?, directory, draft, until))
        .collect()
}

/// The same without having looked for anything in them.
pub(crate) fn open_unsearched(plan: &Plan, windows: &[Window]) -> Result<Vec<Opened>, StartError> {
    plan.draft().directories.iter().map(|directory| open(directory, windows)).collect()
}

fn open(directory: &Directory, windows: &[Window]) -> Result<Opened, StartError> {
    let path = directory.path.clone();
    let failed = |error: Errno| match error {
        Errno::LOOP => StartError::Link { path: path.clone() },
        error => StartError::Directory { path: path.clone(), source: error.into() },
    };
    let handle = open_directory(&path).map_err(failed)?;
    let status = rustix::fs::fstat(&handle).map_err(failed)?;
    if let Some(kind) = windows::kind_of_device(windows, status.st_dev) {
        return Err(StartError::Window { path, kind });
    }
    let windows = windows::beneath(windows, &handle, &path);
    let (access, content) = (directory.access, directory.content);
    let status = Status {
        identity: (status.st_dev, status.st_ino),
        owner: (status.st_uid, status.st_gid),
        mode: status.st_mode,
    };
    Ok(Opened { path, access, content, handle, status, windows, survey: Survey::nothing_to_guard() })
}

fn searched(
    mut opened: Opened,
    directory: &Directory,
    draft: &Draft,
    until: Option<Instant>,
) -> Result<Opened, StartError> {
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
        identity: directory.status.identity,
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
    if identity.is_host_root() || needs_no_translation(directory) {
        return Ok(tree);
    }
    let namespace = nursery.translation(identity, directory.status.owner).map_err(failed)?;
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
fn needs_no_translation(directory: &Opened) -> bool {
    let is_open = directory.status.mode & 0o005 == 0o005 && directory.content != Content::Workspace;
    directory.access == Access::Read && (is_public(&directory.path) || is_open)
}

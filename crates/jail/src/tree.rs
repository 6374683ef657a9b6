//! Surveys a granted directory: what must be hidden, what must be protected, and how its files look.
//!
//! Reads names and attributes, never content. Paths are resolved beneath the directory handle and never through links.
//!
//! # Invariants
//! - A survey is of one moment: what was renamed while it looked is looked at again, or the survey says it is not stable.
//! - Whatever is to be guarded is known by its device and inode, so that something else under its name is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat, openat2, statat};
use rustix::io::Errno;

use crate::entry::{Guarded, Identity, Kind, by_handle, changed, open_beneath, or_here, real_path};
use crate::names::{Beginning, List, Names, Progress};

/// Entries looked at before a run; beyond that the survey gives up and says so.
const MAX_BEFORE: usize = 250_000;
/// Entries looked at after a run: more, because the tool may have made many to hide one.
const MAX_AFTER: usize = 5_000_000;
/// Directories that links give another name that means something; a plan with more is refused.
const MAX_LINKED: usize = 10_000;
/// How often changed directories are looked at again.
const MAX_ROUNDS: usize = 64;

/// Files in a git directory that decide what git will execute.
const GIT_DECIDES: [&str; 4] = ["hooks", "config", "config.worktree", "commondir"];

/// What a survey is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Only names that mean something.
    Names,
    /// The attributes of every entry too.
    Stamps,
}

/// A directory to be surveyed.
pub(crate) struct Search<'a, Fd> {
    pub(crate) directory: Fd,
    /// Where it is: a name may mean something by its parent's.
    pub(crate) path: &'a Path,
    pub(crate) names: &'a Names,
    /// Not to be entered: they are covered, and show the kernel.
    pub(crate) windows: &'a [Guarded],
    pub(crate) detail: Detail,
    /// After a run, what was known before: hidden directories that are new are searched too.
    pub(crate) before: Option<&'a Survey>,
    /// When it has to end.
    pub(crate) until: Option<Instant>,
}

/// What was found in one directory. Paths are relative to it.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// To be covered by something empty.
    pub(crate) hidden: Vec<Guarded>,
    /// Sockets and pipes, behind which the host may listen: to be covered too.
    pub(crate) doors: Vec<Guarded>,
    /// Directories that must become mount points, so that they cannot be renamed.
    pub(crate) pinned: Vec<Guarded>,
    /// To be read-only inside a writable directory.
    pub(crate) protected: Vec<Guarded>,
    /// The same, because git obeys it: harmless if git has made it itself.
    pub(crate) git: Vec<Guarded>,
    /// Attributes by path, if they were asked for.
    pub(crate) stamps: BTreeMap<PathBuf, Stamp>,
    /// How far it got.
    pub(crate) end: End,
}

/// How far a survey got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was seen, as of one moment.
    Whole,
    /// There were too many entries, or some could not be looked at.
    #[default]
    Part,
    /// Its time was over.
    Late,
    /// Directories kept moving, so that something may have been missed.
    Unstable,
    /// Links give too many directories another name.
    TooManyLinks,
}

impl Survey {
    /// For a directory that is not searched.
    pub(crate) fn nothing_to_guard() -> Survey {
        Survey { end: End::Whole, ..Survey::default() }
    }

    /// Everything that was guarded.
    pub(crate) fn known(&self) -> BTreeSet<Identity> {
        self.hidden.iter().chain(&self.protected).chain(&self.git).map(|guarded| guarded.identity).collect()
    }
}

/// Attributes that change when a file does. The change time cannot be set back from inside a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: i64,
    mode: u32,
    changed: (i64, i64),
    is_directory: bool,
}

impl Stamp {
    /// Whether the difference between the two is worth reporting: a directory changes with its entries, which are
    /// reported themselves.
    pub(crate) fn differs(&self, after: &Stamp) -> bool {
        if self.is_directory && after.is_directory { self.mode != after.mode } else { self != after }
    }
}

/// Looks through the whole directory.
pub(crate) fn survey<Fd: AsFd>(search: &Search<'_, Fd>) -> Survey {
    let known = search.before.map(Survey::known);
    let mut walk = Walk {
        search,
        known,
        linked: BTreeMap::new(),
        renamed: BTreeSet::new(),
        folders: BTreeMap::new(),
        stamps: BTreeMap::new(),
        entries: 0,
        unseen: false,
        late: false,
        questions: 0,
    };
    walk.run()
}

struct Walk<'a, Fd> {
    search: &'a Search<'a, Fd>,
    known: Option<BTreeSet<Identity>>,
    /// What directories are by the names that links give them: the patterns that begin there. However many links lead
    /// to one, each pattern counts once.
    linked: BTreeMap<PathBuf, BTreeSet<Beginning>>,
    /// Directories that were listed before a link gave them another name.
    renamed: BTreeSet<PathBuf>,
    folders: BTreeMap<PathBuf, Folder>,
    stamps: BTreeMap<PathBuf, Stamp>,
    entries: usize,
    /// Something could not be looked at.
    unseen: bool,
    late: bool,
    questions: u32,
}

/// A directory as it was when it was listed.
#[derive(PartialEq, Eq)]
struct Folder {
    identity: Option<Identity>,
    /// Not the time of its last modification, which anyone inside can set.
    changed: (i64, i64),
    /// Its directories, and the entries whose names mean something.
    entries: Vec<Entry>,
    /// It could not be listed: its owner could open it up from inside.
    closed: bool,
    /// Whether git takes it for a git directory, whatever its name.
    is_repository: bool,
}

/// What git looks for before it takes a directory for a git directory.
#[derive(Default)]
struct GitSigns {
    head: bool,
    objects: bool,
    refs: bool,
    commondir: bool,
}

impl GitSigns {
    fn note(&mut self, name: &OsStr) {
        let signs = [
            (&mut self.head, "HEAD"),
            (&mut self.objects, "objects"),
            (&mut self.refs, "refs"),
            (&mut self.commondir, "commondir"),
        ];
        for (sign, wanted) in signs {
            *sign |= name.eq_ignore_ascii_case(wanted);
        }
    }

    fn are_there(&self) -> bool {
        self.head && (self.objects && self.refs || self.commondir)
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Entry {
    name: OsString,
    kind: FileType,
    inode: u64,
}

impl Entry {
    /// ATTACK(fifo-in-a-writable-directory): neither a read-only mount nor one that may be written closes these.
    fn is_door(&self) -> bool {
        matches!(self.kind, FileType::Socket | FileType::Fifo)
    }
}

impl<Fd: AsFd> Walk<'_, Fd> {
    fn run(&mut self) -> Survey {
        let mut waiting = vec![PathBuf::new()];
        for _ in 0..MAX_ROUNDS {
            while let Some(folder) = waiting.pop().or_else(|| self.renamed.pop_first()) {
                if let Some(end) = self.gives_up() {
                    return self.found_until(end);
                }
                waiting.extend(self.look_into(&folder));
            }
            let found = self.collect();
            // ATTACK(hidden-name-moved): a directory that moves from where we have yet to look to where we have been.
            waiting = self.look_again();
            if let Some(end) = self.gives_up() {
                return self.found_until(end);
            }
            if waiting.is_empty() && self.renamed.is_empty() {
                let end = if self.unseen { End::Part } else { End::Whole };
                return Survey { end, ..found };
            }
        }
        self.found_until(End::Unstable)
    }

    /// Why to look no further, if there is a reason. Asked often, it looks at the clock now and then.
    fn gives_up(&mut self) -> Option<End> {
        let most = if self.known.is_none() { MAX_BEFORE } else { MAX_AFTER };
        self.questions = self.questions.wrapping_add(1);
        if self.questions.is_multiple_of(64) {
            self.late |= self.search.until.is_some_and(|until| Instant::now() >= until);
        }
        if self.late {
            Some(End::Late)
        } else if self.linked.len() > MAX_LINKED {
            Some(End::TooManyLinks)
        } else {
            (self.entries > most).then_some(End::Part)
        }
    }

    /// What was found so far. Nobody asks for it where a plan will be refused.
    fn found_until(&self, end: End) -> Survey {
        let refused = self.known.is_none() && end != End::Part;
        let found = if refused { Survey::default() } else { self.collect() };
        Survey { end, ..found }
    }

    /// Lists one directory; returns those in it that are to be listed too and have not been.
    fn look_into(&mut self, folder: &Path) -> Vec<PathBuf> {
        let opened = match self.open_folder(folder) {
            // ATTACK(unlistable-directory): what the tool has closed is opened again.
            Err(Errno::ACCESS) if self.is_new(folder) && self.make_listable(folder).is_ok() => {
                self.open_folder(folder)
            }
            other => other,
        };
        let handle = match opened {
            Ok(handle) => handle,
            Err(Errno::ACCESS | Errno::PERM) => {
                let identity = self.status(folder).as_ref().map(Identity::of);
                let closed = Folder {
                    identity,
                    changed: (0, 0),
                    entries: Vec::new(),
                    closed: true,
                    is_repository: false,
                };
                self.folders.insert(folder.to_owned(), closed);
                return Vec::new();
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.forget(folder);
                return Vec::new();
            }
            Err(_) => {
                self.unseen = true;
                return Vec::new();
            }
        };
        let Ok(status) = rustix::fs::fstat(&handle) else { return Vec::new() };
        let (listed, is_repository) = self.list(&handle, folder);
        let old = self.folders.remove(folder).map(|old| old.entries).unwrap_or_default();
        let is_listed = |entry: &Entry| {
            let place = listed.binary_search_by(|other| other.name.cmp(&entry.name));
            place.is_ok_and(|place| listed.get(place) == Some(entry))
        };
        for gone in old.iter().filter(|entry| !is_listed(entry)) {
            self.forget(&folder.join(&gone.name));
        }
        let next =
            listed.iter().filter(|entry| self.descends(folder, entry)).map(|entry| folder.join(&entry.name));
        let next = next.filter(|path| !self.folders.contains_key(path)).collect();
        let identity = Some(Identity::of(&status));
        let changed = changed(&status);
        let seen = Folder { identity, changed, entries: listed, closed: false, is_repository };
        self.folders.insert(folder.to_owned(), seen);
        next
    }

    /// A directory that can be listed and entered. One that can only be listed says nothing of what is in it, and its
    /// owner could open it up from inside.
    fn open_folder(&self, folder: &Path) -> Result<OwnedFd, Errno> {
        let handle = open_beneath(&self.search.directory, folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
        statat(&handle, ".", AtFlags::empty())?;
        Ok(handle)
    }

    /// Whether this is after a run, and the directory was not guarded in it.
    fn is_new(&self, folder: &Path) -> bool {
        let Some(known) = &self.known else { return false };
        self.status(folder).is_some_and(|status| !known.contains(&Identity::of(&status)))
    }

    fn make_listable(&self, folder: &Path) -> Result<(), Errno> {
        if folder.as_os_str().is_empty() {
            return rustix::fs::fchmod(&self.search.directory, Mode::RWXU);
        }
        let handle = open_beneath(&self.search.directory, folder, OFlags::PATH | OFlags::DIRECTORY)?;
        rustix::fs::chmod(by_handle(&handle), Mode::RWXU)?;
        // Nothing is gained if it still cannot be listed.
        rustix::fs::access(by_handle(&handle), rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK)
    }

    /// The entries of a directory that matter, and whether git would take it for its own.
    fn list(&mut self, handle: &OwnedFd, folder: &Path) -> (Vec<Entry>, bool) {
        let mut buffer = [MaybeUninit::uninit(); 32 * 1024];
        let mut reader = RawDir::new(handle, &mut buffer);
        let mut kept = Vec::new();
        let mut signs = GitSigns::default();
        while let Some(found) = reader.next() {
            let Ok(found) = found else {
                self.unseen = true;
                break;
            };
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.entries += 1;
            if self.gives_up().is_some() {
                break;
            }
            signs.note(name);
            let path = folder.join(name);
            let mut entry = Entry { name: name.to_owned(), kind: found.file_type(), inode: found.ino() };
            if entry.kind == FileType::Unknown {
                // Some filesystems do not say.
                entry.kind =
                    self.status(&path).map_or(FileType::Unknown, |s| FileType::from_raw_mode(s.st_mode));
            }
            if self.search.detail == Detail::Stamps {
                self.stamp(&path);
            }
            if self.matters(&path, &entry) {
                kept.push(entry);
            }
        }
        kept.sort_by(|a, b| a.name.cmp(&b.name));
        (kept, signs.are_there())
    }

    fn matters(&mut self, path: &Path, entry: &Entry) -> bool {
        if entry.kind == FileType::Symlink {
            self.follow(path);
        }
        entry.kind == FileType::Directory
            || entry.is_door()
            || is_git(&entry.name)
            || self.hides(path)
            || self.protects(path)
    }

    /// Remembers what the directory that a link leads to is by the link's name.
    fn follow(&mut self, link: &Path) {
        let mut begun: BTreeSet<Beginning> =
            self.search.names.beginnings(&self.search.path.join(link)).into_iter().collect();
        begun.extend(self.by_links(link).filter_map(|(_, progress)| match progress {
            Progress::Begins(beginning) => Some(beginning),
            Progress::Match => None,
        }));
        if begun.is_empty() {
            return;
        }
        let Some(target) = self.target(link) else { return };
        let known = self.linked.entry(target.clone()).or_default();
        let before = known.len();
        known.extend(begun);
        // ATTACK(hidden-behind-many-links): names that meant nothing when they were listed may do now.
        if known.len() > before {
            let listed = self.folders.range(target.clone()..).map(|(path, _)| path);
            self.renamed.extend(listed.take_while(|path| path.starts_with(&target)).cloned());
        }
    }

    /// What an entry is by the names that links give the directories it is in.
    fn by_links<'b>(&'b self, path: &'b Path) -> impl Iterator<Item = (List, Progress)> + 'b {
        let linked = path.ancestors().skip(1).filter_map(|above| Some((above, self.linked.get(above)?)));
        linked.flat_map(move |(above, begun)| {
            let rest = path.strip_prefix(above).unwrap_or(path);
            begun.iter().filter_map(move |b| Some((b.list, self.search.names.go_on(*b, rest)?)))
        })
    }

    fn descends(&self, folder: &Path, entry: &Entry) -> bool {
        let path = folder.join(&entry.name);
        let is_window = || self.search.windows.iter().any(|window| window.path == path);
        if entry.kind != FileType::Directory || is_window() {
            return false;
        }
        if self.hides(&path) {
            // ATTACK(hidden-shelter): before a run it will be covered; after one it may be new, and hold anything.
            return self.is_new(&path);
        }
        // Git's objects are its own; but a change report lists them like anything else.
        !self.is_object_store(&path) || self.search.detail == Detail::Stamps
    }

    /// Directories that are not as they were listed; what has changed in them is listed again by the caller.
    fn look_again(&mut self) -> Vec<PathBuf> {
        let changed: Vec<(PathBuf, Option<Identity>)> = self
            .folders
            .iter()
            .filter_map(|(path, folder)| {
                let now = self.status(path);
                let identity = now.as_ref().map(Identity::of);
                let is_other = identity != folder.identity;
                let has_changed = !folder.closed && now.is_none_or(|now| changed(&now) != folder.changed);
                (is_other || has_changed).then(|| (path.clone(), identity))
            })
            .collect();
        let mut moved = Vec::new();
        for (path, seen) in changed {
            if self.gives_up().is_some() {
                break;
            }
            let before = self.folders.get(&path).map(|folder| (folder.identity, folder.entries.clone()));
            let next = self.look_into(&path);
            let now = self.folders.get(&path).map(|folder| (folder.identity, folder.entries.as_slice()));
            // ATTACK(hidden-name-moved): what was another directory for a moment may be so again by now, and what is in that
            // other one has not been looked at.
            let was_another = before.as_ref().is_none_or(|(identity, _)| *identity != seen)
                || now.is_none_or(|(identity, _)| identity != seen);
            let now = now.map(|(_, entries)| entries).unwrap_or_default();
            // New files without a meaning are no reason to look once more. But directories may have changed places an
            // even number of times, which no listing shows.
            let may_have_moved = now.iter().any(|entry| entry.kind == FileType::Directory);
            if was_another || may_have_moved || before.is_none_or(|(_, entries)| entries != now) {
                moved.push(path);
                moved.extend(next);
            }
        }
        moved
    }

    fn forget(&mut self, path: &Path) {
        forget_beneath(&mut self.folders, path);
        forget_beneath(&mut self.stamps, path);
    }

    /// What the listed entries mean.
    fn collect(&self) -> Survey {
        let mut found = Survey { stamps: self.stamps.clone(), ..Survey::default() };
        // ATTACK(granted-git-directory): the directory itself may be git's.
        if self.search.path.file_name().is_some_and(is_git) {
            self.collect_git(Path::new(""), &mut found);
        }
        for (folder, seen) in &self.folders {
            if seen.closed {
                let (path, kind) = (folder.clone(), Kind::Directory);
                found.hidden.extend(seen.identity.map(|identity| Guarded { path, kind, identity }));
            }
            // ATTACK(planted-bare-repository): git obeys the settings of one wherever somebody enters it.
            if seen.is_repository && !self.search.path.join(folder).iter().any(is_git) {
                found.pinned.extend(self.guarded(folder).filter(|_| !folder.as_os_str().is_empty()));
                self.collect_git(folder, &mut found);
            }
            for entry in &seen.entries {
                self.collect_entry(&folder.join(&entry.name), entry, &mut found);
            }
        }
        // From the outside in: what is mounted later would cover what was mounted within it.
        found.pinned.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }

    fn collect_entry(&self, path: &Path, entry: &Entry, found: &mut Survey) {
        if is_in_git(path) {
            if self.hides(path) {
                found.hidden.extend(self.guarded(path));
            } else if entry.is_door() {
                found.doors.extend(self.guarded(path));
            }
            return;
        }
        if self.protects(path) {
            self.add(path, &mut found.protected);
            self.pin_parents(path, found);
        }
        if self.hides(path) {
            self.pin_parents(path, found);
            // ATTACK(hidden-symlink): a link with a hidden name hides what it leads to, if that is in the directory.
            let real =
                if entry.kind == FileType::Symlink { self.resolve(path) } else { Some(path.to_owned()) };
            if let Some(guarded) = real.and_then(|real| self.guarded(&real)) {
                found.hidden.push(guarded);
            }
        } else if entry.is_door() {
            found.doors.extend(self.guarded(path));
        } else if is_git(&entry.name) {
            if entry.kind == FileType::Directory {
                found.pinned.extend(self.guarded(path));
                self.collect_git(path, found);
            } else {
                // A worktree's or submodule's pointer to a git directory elsewhere.
                self.add(path, &mut found.protected);
            }
        }
    }

    /// ATTACK(named-by-its-parent): `.config/gh` is known by both names, so `.config` must keep its own.
    fn pin_parents(&self, path: &Path, found: &mut Survey) {
        let meant = self.search.names.parents_meant(&self.search.path.join(path));
        let parents = path.ancestors().skip(1).take(meant).filter(|parent| !parent.as_os_str().is_empty());
        for parent in parents {
            if !found.pinned.iter().any(|pinned| pinned.path == parent) {
                found.pinned.extend(self.guarded(parent));
            }
        }
    }

    fn collect_git(&self, path: &Path, found: &mut Survey) {
        let mut waiting = vec![path.to_owned()];
        while let Some(folder) = waiting.pop() {
            for name in GIT_DECIDES {
                self.add(&folder.join(name), &mut found.git);
            }
            // ATTACK(git-commondir): a submodule or worktree has files of its own that decide. Its name is free, and may
            // have several parts: only what is a git directory itself has a known inside.
            if folder == path || self.status(&folder.join("HEAD")).is_some() {
                waiting.extend(
                    ["modules", "worktrees"].iter().flat_map(|nest| self.directories_in(&folder.join(nest))),
                );
            } else {
                waiting.extend(self.directories_in(&folder));
            }
        }
    }

    fn directories_in(&self, folder: &Path) -> Vec<PathBuf> {
        let Ok(handle) = open_beneath(&self.search.directory, folder, OFlags::RDONLY | OFlags::DIRECTORY)
        else {
            return Vec::new();
        };
        let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
        let mut reader = RawDir::new(&handle, &mut buffer);
        let mut found = Vec::new();
        while let Some(Ok(entry)) = reader.next() {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && entry.file_type() == FileType::Directory {
                found.push(folder.join(name));
            }
        }
        found
    }

    /// Guards an entry if it is there; of a link, what it leads to as well.
    fn add(&self, path: &Path, list: &mut Vec<Guarded>) {
        let Some(guarded) = self.guarded(path) else { return };
        let is_link =
            self.status(path).is_some_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Symlink);
        list.push(guarded);
        if is_link {
            list.extend(self.resolve(path).and_then(|target| self.guarded(&target)));
        }
    }

    fn guarded(&self, path: &Path) -> Option<Guarded> {
        Guarded::at(&self.search.directory, path).ok()
    }

    /// Whether git chose the name: a branch called `a.key` is no secret.
    fn is_named_by_git(&self, path: &Path) -> bool {
        is_in_git(path) && path.iter().any(|name| name == "refs" || name == "logs" || name == "objects")
    }

    /// Whether this holds git's objects and nothing else, thousands of them.
    fn is_object_store(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_numbered = name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit);
        let in_objects = path.parent().and_then(Path::file_name).is_some_and(|parent| parent == "objects");
        in_objects && (is_numbered || name == b"pack" || name == b"info") && is_in_git(path)
    }

    fn hides(&self, path: &Path) -> bool {
        !self.is_named_by_git(path) && self.is_meant(path, List::Hidden)
    }

    fn protects(&self, path: &Path) -> bool {
        self.is_meant(path, List::Protected)
    }

    /// Whether a pattern of this list matches any of the names an entry has.
    fn is_meant(&self, path: &Path, list: List) -> bool {
        self.search.names.matches(list, &self.search.path.join(path))
            || self.by_links(path).any(|(of, progress)| of == list && progress == Progress::Match)
    }

    /// Where a link leads, if that is in the directory and not the directory itself.
    fn resolve(&self, link: &Path) -> Option<PathBuf> {
        self.target(link).filter(|inside| !inside.as_os_str().is_empty())
    }

    /// Where a link leads, if that is in the directory.
    fn target(&self, link: &Path) -> Option<PathBuf> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let target =
            openat2(&self.search.directory, link, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).ok()?;
        real_path(&target)?.strip_prefix(real_path(&self.search.directory)?).ok().map(Path::to_owned)
    }

    fn status(&self, path: &Path) -> Option<Stat> {
        statat(&self.search.directory, or_here(path), AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    fn stamp(&mut self, path: &Path) {
        if let Some(status) = self.status(path) {
            let stamp = Stamp {
                inode: status.st_ino,
                size: status.st_size,
                mode: status.st_mode,
                changed: changed(&status),
                is_directory: FileType::from_raw_mode(status.st_mode) == FileType::Directory,
            };
            self.stamps.insert(path.to_owned(), stamp);
        }
    }
}

fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

fn is_in_git(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.iter().any(is_git))
}

/// Removes what is at a path and beneath it: neighbours in the order of paths.
fn forget_beneath<T>(known: &mut BTreeMap<PathBuf, T>, path: &Path) {
    let beneath = known.range(path.to_owned()..).map(|(key, _)| key).take_while(|key| key.starts_with(path));
    let gone: Vec<PathBuf> = beneath.cloned().collect();
    for key in gone {
        known.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::open_directory;
    use std::fs;

    #[test]
    fn secrets_sockets_and_git_files_are_found_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir_all(at("a/b/.git/hooks")).unwrap();
        fs::create_dir_all(at("a/.ssh")).unwrap();
        fs::write(at("a/b/.git/config"), "").unwrap();
        fs::write(at("a/b/.env"), "X=1").unwrap();
        fs::write(at("plain"), "").unwrap();
        fs::write(at("real-secret"), "").unwrap();
        std::os::unix::fs::symlink("../real-secret", at("a/.env.link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a/.env.out")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("a/s.sock")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("a/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();

        let names = Names::default();
        let directory = open_directory(folder.path()).unwrap();
        let search = Search {
            directory,
            path: folder.path(),
            names: &names,
            windows: &[],
            detail: Detail::Names,
            before: None,
            until: None,
        };
        let found = survey(&search);
        let paths = |list: &[Guarded]| {
            let mut paths: Vec<String> = list.iter().map(|g| g.path.display().to_string()).collect();
            paths.sort();
            paths
        };
        assert_eq!(paths(&found.hidden), ["a/.ssh", "a/b/.env", "real-secret"]);
        assert_eq!(paths(&found.doors), ["a/pipe", "a/s.sock"]);
        assert_eq!(paths(&found.pinned), ["a/b/.git"]);
        assert_eq!(paths(&found.protected), ["a/.ssh"]);
        assert_eq!(paths(&found.git), ["a/b/.git/config", "a/b/.git/hooks"]);
        assert_eq!(found.end, End::Whole);
    }

    #[test]
    fn a_search_whose_time_is_over_says_so() {
        let folder = tempfile::tempdir().unwrap();
        (0..200).for_each(|number| fs::write(folder.path().join(number.to_string()), "").unwrap());
        (0..200).for_each(|number| fs::create_dir(folder.path().join(format!("d{number}"))).unwrap());
        let (names, before) = (Names::default(), Survey::nothing_to_guard());
        let search = Search {
            directory: open_directory(folder.path()).unwrap(),
            path: folder.path(),
            names: &names,
            windows: &[],
            detail: Detail::Names,
            before: None,
            until: Some(Instant::now()),
        };
        assert_eq!(survey(&search).end, End::Late);
        assert_eq!(survey(&Search { before: Some(&before), ..search }).end, End::Late);
    }

    #[test]
    fn a_directory_reached_through_a_link_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc", folder.path().join("link")).unwrap();
        assert_eq!(open_directory(&folder.path().join("link")).err(), Some(Errno::LOOP));
    }
}

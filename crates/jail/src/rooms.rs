//! Where the directories of a plan are mounted in a root that other sandboxes have, too.
//!
//! Nothing can be made in such a root: whoever has the same would see it. So the usual places for people's work are there as
//! empty directories, in every sandbox. Over one of those a directory of the sandbox's own scratch space is mounted, in which
//! the way to what the plan grants is made. A plan that needs something else gets a root of its own.
//!
//! # Invariants
//! - A shared root is mounted read-only, and nothing is ever made in it.
//! - A room is read-only when the tool begins; what is mounted in it has the access that the plan gives.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, mkdirat};
use rustix::io::Errno;

use crate::entry::Kind;
use crate::environment::HOME;
use crate::landlock;
use crate::mounts::{Use, attach_at, attach_at_new, attach_over_name, copy_of, make_link, restrict_only};
use crate::orders::{OrderedDirectory, Orders, Step};
use crate::plan::Network;
use crate::readied::{OWN, Readied};
use crate::stage_one::{self, Failure, HalfBuilt, Shown, no_landlock};
use crate::stage_two::BROUGHT;

/// Directories that every root has, empty unless a plan puts something there: those of Debian and of usual containers.
pub(crate) const ROOMS: [&str; 15] = [
    "app",
    "code",
    "data",
    "home",
    "media",
    "mnt",
    "opt",
    "root",
    "run",
    "src",
    "srv",
    "var",
    "work",
    "workspace",
    "workspaces",
];

/// Rooms that were made, each with where it is, to be closed when everything is in its place.
#[derive(Default)]
pub(crate) struct Rooms(Vec<(PathBuf, OwnedFd)>);

impl Rooms {
    /// Attaches a directory of a plan in its room. False if it has none, or lies beneath another of the plan and so has its
    /// place there: nobody but this process has made anything on the way to what is attached here.
    pub(crate) fn attach(
        &self,
        tree: &OwnedFd,
        path: &Path,
        directories: &[OrderedDirectory],
    ) -> Result<bool, Errno> {
        let holds = |other: &OrderedDirectory| other.path != path && path.starts_with(&other.path);
        if directories.iter().any(holds) {
            return Ok(false);
        }
        let mut rooms = self.0.iter();
        let found = rooms.find_map(|(place, room)| Some((room, path.strip_prefix(place).ok()?)));
        let Some((room, way)) = found else { return Ok(false) };
        let mut steps: Vec<&Path> = way.ancestors().filter(|step| !step.as_os_str().is_empty()).collect();
        steps.reverse();
        for step in steps {
            match mkdirat(room, step, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        attach_over_name(tree, room, way).map(|()| true)
    }

    /// Nothing more is made in them.
    pub(crate) fn close(self) -> Result<(), Failure> {
        let close = |(_, room): &(_, OwnedFd)| restrict_only(room, Use::ReadOnly);
        self.0.iter().try_for_each(close).map_err(Failure::at(Step::Root))
    }
}

/// Makes room for a plan: in the root that it shares with others, or by giving it one of its own.
pub(crate) fn make(built: &mut HalfBuilt, orders: &Orders) -> Result<Rooms, Failure> {
    let Some(shared) = built.shared else { return Ok(Rooms::default()) };
    let Some(wanted) = wanted(orders) else {
        let root = own_root(&built.root, shared)?;
        // It was begun for the other one.
        let tcp = landlock::Tcp::of(&orders.network);
        built.landlock = landlock::begin(&root, tcp, orders.without).map_err(no_landlock)?;
        (built.root, built.shared) = (root, None);
        return Ok(Rooms::default());
    };
    let make = |name: &str| make_room(built, orders, name).map_err(Failure::at(Step::Root));
    wanted.into_iter().map(make).collect::<Result<_, _>>().map(Rooms)
}

/// The rooms that a plan needs; nothing if these are not enough for it.
fn wanted(orders: &Orders) -> Option<BTreeSet<&'static str>> {
    if !orders.sealed.is_empty() || matches!(orders.network, Network::Guarded(_)) {
        return None;
    }
    let brought = orders.brought().map(|_| Path::new(BROUGHT));
    rooms_of(orders.directories.iter().map(|directory| directory.path.as_path()).chain(brought))
}

fn rooms_of<'a>(paths: impl Iterator<Item = &'a Path> + Clone) -> Option<BTreeSet<&'static str>> {
    let mut rooms = BTreeSet::new();
    for path in paths.clone() {
        let mut names = path.strip_prefix("/").ok()?.iter();
        let first = names.next()?;
        match ROOMS.into_iter().find(|room| OsStr::new(room) == first) {
            // Scratch space, in which everything can be made; and what is mounted over a room itself needs nothing.
            None if first == "tmp" => {}
            Some(_) if names.next().is_none() => {}
            Some(room) => _ = rooms.insert(room),
            None => return None,
        }
    }
    // What lies in something that is granted as a whole has its place there.
    rooms.retain(|room| !paths.clone().any(|path| path == Path::new("/").join(room)));
    Some(rooms)
}

fn make_room(built: &HalfBuilt, orders: &Orders, name: &str) -> Result<(PathBuf, OwnedFd), Errno> {
    let path = Path::new("/").join(name);
    let place = format!("room-{name}");
    mkdirat(&built.scratch, &place, Mode::from_raw_mode(0o755))?;
    let room = copy_of(&built.scratch, Path::new(&place))?;
    // What the root has there.
    if name == "var" && !orders.directories.iter().any(|directory| directory.path.starts_with("/var/tmp")) {
        make_link(&room, Path::new("tmp"), Path::new("/tmp"))?;
    }
    attach_over_name(&room, &built.root, Path::new(name))?;
    if Path::new(HOME).starts_with(&path) {
        attach_at(
            copy_of(&built.scratch, Path::new("home"))?,
            &built.root,
            Path::new(HOME),
            Kind::Directory,
        )?;
    }
    Ok((path, room))
}

/// A root in which something can be made: a copy of the one that is shared, and of what this sandbox has mounted there.
fn own_root(shared: &OwnedFd, readied: &Readied) -> Result<OwnedFd, Failure> {
    let root = stage_one::empty_root().map_err(Failure::at(Step::Root))?;
    let build = || -> Result<(), Errno> {
        attach_over_name(&root, shared, Path::new("mnt"))?;
        stage_one::make_skeleton(&root)?;
        for (path, shown) in &readied.software {
            match shown {
                Shown::Link(target) => make_link(&root, path, target)?,
                Shown::Mounted(kind) => attach_at_new(copy_of(shared, relative(path))?, &root, path, *kind)?,
            }
        }
        for path in OWN.map(Path::new) {
            attach_at_new(copy_of(shared, path)?, &root, path, Kind::Directory)?;
        }
        for path in ["proc", "tmp", HOME].map(Path::new) {
            attach_at(copy_of(shared, relative(path))?, &root, path, Kind::Directory)?;
        }
        Ok(())
    };
    build().map_err(Failure::at(Step::Root))?;
    stage_one::leave_host(&root)?;
    Ok(root)
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rooms_for(paths: &[&str]) -> Option<Vec<&'static str>> {
        let paths = paths.iter().map(Path::new);
        rooms_of(paths).map(|rooms| rooms.into_iter().collect())
    }

    #[test]
    fn a_directory_has_the_room_of_its_path() {
        assert_eq!(rooms_for(&[]), Some(vec![]));
        assert_eq!(rooms_for(&["/srv/shop", "/home/a/b", "/srv/x"]), Some(vec!["home", "srv"]));
    }

    #[test]
    fn scratch_space_and_a_room_itself_need_none() {
        assert_eq!(rooms_for(&["/tmp/a", "/opt"]), Some(vec![]));
        assert_eq!(rooms_for(&["/home", "/home/a/b", "/srv/x"]), Some(vec!["srv"]));
    }

    #[test]
    fn elsewhere_there_is_no_room() {
        for path in ["/works/a", "/usr/local/x", "/srvx/a", "/", "relative"] {
            assert_eq!(rooms_for(&["/srv/shop", path]), None, "{path}");
        }
    }
}

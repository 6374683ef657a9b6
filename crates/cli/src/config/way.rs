//! The way to a file, link by link.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows on one way.
const MOST_LINKS: usize = 40;

/// What is in a directory and stands on the way to a file, by whatever links that goes. Where it leads today is not all:
/// whoever can write in the directory can lead it elsewhere.
pub(crate) fn way_through(path: &Path, directory: &Path) -> Option<PathBuf> {
    // ATTACK(linked-configuration)
    let mut left: Vec<OsString> = names(&std::path::absolute(path).ok()?);
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        if at.starts_with(directory) && at != directory {
            return Some(at);
        }
        if let Ok(target) = fs::read_link(&at) {
            links += 1;
            if links > MOST_LINKS {
                return Some(at);
            }
            at.pop();
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(names(&target));
        }
    }
    None
}

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let named = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(named).collect()
}

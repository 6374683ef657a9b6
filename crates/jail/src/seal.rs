//! Files whose content came with the plan: the tool sees that content at their path, whatever stands there.
//!
//! Knows no digests and no approvals: it is handed bytes. What the tool does to such a file it cannot do: it is read-only.
//!
//! # Invariants
//! - The bytes are in memory of the sandbox's own before anything is mounted; no file of the host is read for them.
//! - A path that is not a regular file of a granted directory by then, or leads through a link, is an error.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Mode, OFlags, chmodat, fstat, memfd_create, openat};
use rustix::mount::MountAttrFlags;
use serde::{Deserialize, Serialize};

use crate::entry::{Kind, open_beneath};
use crate::mounts::{Use, attach_at, attach_over, copy_of, new_filesystem, restrict, restrict_only};
use crate::names::{List, Names};
use crate::orders::Step;
use crate::plan::{Directory, PlanError, wire_path};
use crate::stage_one::Failure;

/// As many files as one plan seals.
pub const MAX_SEALED_FILES: usize = 64;
/// As many bytes as they have in all.
pub const MAX_SEALED_BYTES: u64 = 32 * 1024 * 1024;

/// Where the copies stand while they are mounted from.
const PLACE: &str = "/.seal";

/// A file whose content comes with the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedFile {
    /// Where the tool sees it: in a granted directory, where there is such a file.
    #[serde(with = "wire_path")]
    pub path: PathBuf,
    /// How much of the plan's content is its own.
    pub bytes: u64,
    /// Whether it can be executed.
    pub executable: bool,
}

/// Refuses what cannot be sealed, whoever asks.
pub(crate) fn check(files: &[SealedFile], granted: &[Directory], names: &Names) -> Result<(), PlanError> {
    let bytes = total(files);
    if files.len() > MAX_SEALED_FILES || bytes > MAX_SEALED_BYTES {
        return Err(PlanError::TooLarge { what: "more than 64 sealed files or 32 MiB of them" });
    }
    for file in files {
        let not_here = || PlanError::NotSealable { path: file.path.clone() };
        let roots = granted.iter().map(|directory| directory.path.as_path());
        let root = roots.filter(|root| file.path.starts_with(root) && file.path != **root);
        let root = root.max_by_key(|root| root.as_os_str().len()).ok_or_else(not_here)?;
        // ATTACK(sealed-secret): a copy of what is hidden would stand where its cover is.
        let named = file.path.ancestors().take_while(|part| *part != root);
        if named.into_iter().any(|part| names.matches(List::Hidden, part)) {
            return Err(not_here());
        }
    }
    Ok(())
}

/// How much content the files have in all.
pub(crate) fn total(files: &[SealedFile]) -> u64 {
    files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
}

/// The content, in memory that can be handed to the init.
pub(crate) fn in_memory(content: &[u8]) -> io::Result<OwnedFd> {
    let memory = memfd_create("sealed", MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(content)?;
    Ok(file.into())
}

/// Mounts the copies over what is at their paths.
pub(crate) fn mount(root: &OwnedFd, files: &[SealedFile], content: OwnedFd) -> Result<(), Failure> {
    let place = fill(root, files, content).map_err(Failure::at(Step::Seal))?;
    for (number, file) in files.iter().enumerate() {
        let put = || -> io::Result<()> {
            let relative = file.path.strip_prefix("/").unwrap_or(&file.path);
            let target = open_beneath(root, relative, OFlags::PATH)?;
            if FileType::from_raw_mode(fstat(&target)?.st_mode) != FileType::RegularFile {
                return Err(io::Error::from_raw_os_error(libc::ESTALE));
            }
            let copy = copy_of(&place, Path::new(&number.to_string()))?;
            restrict(&copy, Use::ReadOnly)?;
            Ok(attach_over(copy, target)?)
        };
        put().map_err(Failure::at(Step::Sealed(file.path.clone())))?;
    }
    restrict_only(&place, Use::ReadOnly).map_err(Failure::at(Step::Seal))
}

/// A filesystem of the copies, each by its number.
fn fill(root: &OwnedFd, files: &[SealedFile], content: OwnedFd) -> io::Result<OwnedFd> {
    // Each file takes whole pages.
    let size = (total(files) + (files.len() as u64 + 1) * 4096).to_string();
    let inodes = (files.len() + 2).to_string();
    let place = new_filesystem(
        "tmpfs",
        &[("mode", "0755"), ("size", &size), ("nr_inodes", &inodes)],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    // Only an attached filesystem can be copied from.
    attach_at(&place, root, Path::new(PLACE), Kind::Directory)?;
    let mut content = File::from(content);
    content.rewind()?;
    for (number, file) in files.iter().enumerate() {
        let name = number.to_string();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut to = File::from(openat(&place, &name, flags, Mode::RUSR | Mode::WUSR)?);
        if io::copy(&mut (&content).take(file.bytes), &mut to)? != file.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mode = if file.executable { 0o555 } else { 0o444 };
        chmodat(&place, &name, Mode::from_raw_mode(mode), AtFlags::empty())?;
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Access, Content};

    fn checked(path: &str, bytes: u64) -> Result<(), PlanError> {
        let granted = [Directory { path: "/w/p".into(), access: Access::Write, content: Content::Work }];
        let file = SealedFile { path: path.into(), bytes, executable: false };
        check(&[file], &granted, &Names::default())
    }

    #[test]
    fn only_files_beneath_what_is_granted_are_sealed_and_never_hidden_ones() {
        assert_eq!(checked("/w/p/run.sh", 1), Ok(()));
        for path in ["/w/p", "/w/px/run.sh", "/etc/passwd", "/w/p/.env", "/w/p/.ssh/config", "/w/p/a/x.pem"] {
            assert_eq!(checked(path, 1), Err(PlanError::NotSealable { path: path.into() }), "{path}");
        }
    }

    #[test]
    fn more_than_a_plan_carries_is_refused() {
        assert!(matches!(checked("/w/p/x", MAX_SEALED_BYTES + 1), Err(PlanError::TooLarge { .. })));
        assert!(matches!(checked("/w/p/x", u64::MAX), Err(PlanError::TooLarge { .. })));
    }
}

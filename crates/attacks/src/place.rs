//! A disposable folder of the host with targets in it, for one attempt.

use std::fs::{self, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Try;
use crate::launch::command_of;

/// Copies a program to where everyone may run it.
///
/// Another process does: whoever starts something while the copy is open for writing here takes it along, and until it
/// lets go the copy cannot be run.
pub(crate) fn copy_program(from: &Path, to: &Path) -> Try<()> {
    if !command_of(Path::new("cp"), &[from.into(), to.into()]).status()?.success() {
        return Err(format!("`{}` cannot be copied", from.display()).into());
    }
    fs::set_permissions(to, Permissions::from_mode(0o755))?;
    Ok(())
}

/// Makes a program of a file that was written here: a copy that was never open for writing in this process.
///
/// See [`copy_program`]: whoever is started while the file is written keeps it open, and the kernel does not execute what is
/// open for writing.
pub(crate) fn make_executable(path: &Path) -> Try<()> {
    let mut written = path.as_os_str().to_owned();
    written.push(".written");
    let written = PathBuf::from(written);
    fs::rename(path, &written)?;
    copy_program(&written, path)?;
    Ok(fs::remove_file(written)?)
}

/// A folder of the host for one attempt; removed when dropped.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new(base: &Path) -> Try<Place> {
        let folder = tempfile::Builder::new().prefix("at-").tempdir_in(base)?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
        Ok(Place { folder })
    }

    /// The folder itself.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Where something in it is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes a directory, and those above it.
    pub(crate) fn folder(&self, name: &str) -> Try<PathBuf> {
        let mut path = self.folder.path().to_owned();
        for part in Path::new(name) {
            path.push(part);
            if !path.is_dir() {
                fs::create_dir(&path)?;
                fs::set_permissions(&path, Permissions::from_mode(0o755))?;
            }
        }
        Ok(path)
    }

    /// Makes a directory that everyone may write: what holds there is not the owner of files.
    pub(crate) fn open_folder(&self, name: &str) -> Try<PathBuf> {
        let path = self.folder(name)?;
        fs::set_permissions(&path, Permissions::from_mode(0o777))?;
        Ok(path)
    }

    /// Makes a file that everyone may read, and the directories above it.
    pub(crate) fn file(&self, name: &str, content: &str) -> Try<PathBuf> {
        if let Some(parent) = Path::new(name).parent().and_then(Path::to_str).filter(|p| !p.is_empty()) {
            self.folder(parent)?;
        }
        let path = self.path(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, Permissions::from_mode(0o644))?;
        Ok(path)
    }

    /// Makes a program that everyone may run.
    pub(crate) fn program(&self, name: &str, content: &str) -> Try<PathBuf> {
        let text = self.file(&format!("{name}.text"), content)?;
        let path = self.path(name);
        copy_program(&text, &path)?;
        Ok(path)
    }

    /// Makes a symbolic link, and the directories above it.
    pub(crate) fn link(&self, name: &str, target: impl AsRef<Path>) -> Try<PathBuf> {
        if let Some(parent) = Path::new(name).parent().and_then(Path::to_str).filter(|p| !p.is_empty()) {
            self.folder(parent)?;
        }
        symlink(target, self.path(name))?;
        Ok(self.path(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // An attack may have left directories that cannot be listed.
        make_listable(self.folder.path());
    }
}

fn make_listable(path: &Path) {
    let Ok(status) = fs::symlink_metadata(path) else { return };
    if !status.is_dir() {
        return;
    }
    if status.permissions().mode() & 0o700 != 0o700 {
        let _ = fs::set_permissions(path, Permissions::from_mode(0o700));
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        make_listable(&entry.path());
    }
}

/// A text that occurs nowhere else.
pub(crate) fn token() -> String {
    let number = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("token{number:016x}")
}

/// The same text in a form that does not contain it, to be handed to somebody who must not simply repeat it.
pub(crate) fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

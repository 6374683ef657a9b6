//! Puts files in their place whole, or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::keys::hex;

/// Puts a file in its place, durably, unless one is there already. False if one is.
///
/// It is written under another name first: nobody ever sees half of it, and of two that start at once one wins.
pub(crate) fn place(path: &Path, content: &[u8], mode: u32) -> io::Result<bool> {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let draft = folder.join(format!(".{}.draft", hex(&random)));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        });
    let placed = written.and_then(|()| match fs::hard_link(&draft, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    });
    // It may never have been made; either way nothing is left.
    let _ = fs::remove_file(&draft);
    let placed = placed?;
    File::open(folder)?.sync_all()?;
    Ok(placed)
}

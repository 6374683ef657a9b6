use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use crate::Try;
use crate::gate::case::Case;
pub(crate) fn cases() -> Vec<Case> { Vec::new() }

/// Writes a file that nobody else can read.
pub(crate) fn private(path: &Path, text: &str) -> Try<()> {
    let _ = fs::remove_file(path);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

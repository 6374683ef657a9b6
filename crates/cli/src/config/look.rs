//! Files as they were at one moment: whether what a configuration was read from is still the same.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use contract::Digest;

use super::load::{self, name_of};

/// Files as they were at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    files: Vec<(PathBuf, Seen)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// A file that may decide, and whose it is.
    Content { digest: Digest, owner: u32 },
    /// What is wrong with it.
    Unfit(String),
}

impl Look {
    /// These files, and more.
    pub(crate) fn and(mut self, more: Look) -> Look {
        self.files.extend(more.files);
        self
    }

    /// Reads them, with the same checks as a configuration is read with.
    pub(crate) fn at(paths: &[PathBuf]) -> Look {
        let see = |path: &PathBuf| match load::read_with_owner(path) {
            Ok((bytes, owner)) => Seen::Content { digest: Digest::of(&bytes), owner },
            Err(error) => Seen::Unfit(match error.source() {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            }),
        };
        Look { files: paths.iter().map(|path| (path.clone(), see(path))).collect() }
    }

    /// One digest of all of them; nothing if there are none.
    pub(crate) fn digest(&self) -> Option<Digest> {
        if self.files.is_empty() {
            return None;
        }
        let mut text = String::new();
        for (path, seen) in &self.files {
            let seen = match seen {
                Seen::Content { digest, .. } => digest.to_string(),
                Seen::Unfit(why) => why.clone(),
            };
            // Whoever writes to a text is never refused.
            let _ = writeln!(text, "{:?} {seen:?}", path.as_os_str());
        }
        Some(Digest::of(text.as_bytes()))
    }

    /// A file that belongs to somebody else than before, who is not root.
    ///
    /// ATTACK(another-owner-while-running): root reads anybody's files, and has to notice when they change hands.
    pub(crate) fn changed_hands(&self, before: &Look) -> Option<String> {
        let owner = |look: &Look, path: &Path| {
            let (_, seen) = look.files.iter().find(|(known, _)| known == path)?;
            match seen {
                Seen::Content { owner, .. } => Some(*owner),
                Seen::Unfit(_) => None,
            }
        };
        let differs = |path: &PathBuf| {
            let (now, then) = (owner(self, path)?, owner(before, path)?);
            (now != then && now != 0)
                .then(|| format!("`{}` belongs to somebody else than before", name_of(path)))
        };
        self.files.iter().find_map(|(path, _)| differs(path))
    }
}

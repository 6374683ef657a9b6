//! Where a store is: a file for SQLite, or a database of a PostgreSQL server.
//!
//! # Invariants
//! - What is shown of a place holds no password, whatever stood in its URL.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::any::AnyConnectOptions;
use thiserror::Error;

use crate::file::place;
use crate::open::OpenError;

/// What a server is told so that it ends the session of a gate whose host is gone, and lets go of its locks, after 25
/// seconds and not after two hours.
pub(crate) const NOTICES_A_DEAD_PEER: &str = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; \
    SET tcp_keepalives_count = 3; SET tcp_user_timeout = 25000";

/// Which database keeps a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

/// Where a store is.
#[derive(Clone)]
pub(crate) enum Place {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of a PostgreSQL server.
    Server {
        options: AnyConnectOptions,
        /// The server and the database, without what nobody should see.
        shown: String,
    },
}

impl Place {
    /// Reads `sqlite:PATH` or `postgres://USER@HOST/DATABASE`.
    pub(crate) fn parse(url: &str) -> Result<Place, OpenError> {
        let unsupported = || OpenError::UnsupportedUrl { url: without_password(url) };
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            let options: AnyConnectOptions = url.parse().map_err(|_| unsupported())?;
            let shown = without_password(url);
            return Ok(Place::Server { options, shown });
        }
        let path = url.strip_prefix("sqlite:").ok_or_else(unsupported)?;
        let path = path.strip_prefix("//").unwrap_or(path);
        // Memory is forgotten; the rest would be read as options by SQLite, not as a name.
        if path.is_empty() || path.starts_with(':') || path.starts_with("file:") || path.contains('\0') {
            return Err(unsupported());
        }
        Ok(Place::File(PathBuf::from(path)))
    }

    pub(crate) fn database(&self) -> Database {
        match self {
            Place::File(_) => Database::Sqlite,
            Place::Server { .. } => Database::Postgres,
        }
    }

    /// The place itself, made if it is a file that is not there, and by its own name: what lies beside the file lies beside
    /// that one, for all who come by a link.
    pub(crate) fn made(self) -> Result<Place, OpenError> {
        match self {
            Place::File(path) => {
                touch(&path)?;
                fs::canonicalize(&path).map(Place::File).map_err(|source| OpenError::File { path, source })
            }
            server @ Place::Server { .. } => Ok(server),
        }
    }

    /// How to connect to it, and how long to wait for others who hold a file.
    pub(crate) fn options(&self, patience: Duration) -> Result<AnyConnectOptions, OpenError> {
        match self {
            Place::File(path) => {
                let failed = |source| OpenError::File { path: path.clone(), source };
                // The name goes through a URL, which would take marks for something else.
                let name = path.to_str().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
                let escaped = |byte: u8| match byte {
                    b'/' | b'-' | b'_' => char::from(byte).to_string(),
                    byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                    byte => format!("%{byte:02X}"),
                };
                let name = name.bytes().map(escaped).collect::<String>();
                let url = format!("sqlite:{name}?patience={}", patience.as_millis());
                url.parse().map_err(|_| OpenError::UnsupportedUrl { url: self.to_string() })
            }
            Place::Server { options, .. } => Ok(options.clone()),
        }
    }

    /// What is said to the database when a connection is made.
    pub(crate) fn settings(&self, purpose: Purpose, patience: Duration) -> String {
        let wait = patience.as_millis();
        match (self.database(), purpose) {
            // What is committed survives a power cut: `Disk` sees to it, for many at once. It also sees to it that the log
            // stays short, unless it never gets to it. A call changes a little of many pages, so those of a new file are small.
            (Database::Sqlite, Purpose::Write) => {
                "PRAGMA page_size = 2048; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 8000; \
                 PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; \
                 PRAGMA temp_store = MEMORY"
                    .to_owned()
            }
            (Database::Sqlite, Purpose::Read) => "PRAGMA query_only = ON".to_owned(),
            (Database::Postgres, purpose) => format!(
                "SET synchronous_commit = on; SET lock_timeout = {wait}; SET statement_timeout = '60s'; \
                 SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = warning; \
                 SET default_transaction_read_only = {}; SET application_name = 'toolgate'; {NOTICES_A_DEAD_PEER}",
                if purpose == Purpose::Read { "on" } else { "off" }
            ),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(path) => write!(formatter, "{}", path.display()),
            Place::Server { shown, .. } => formatter.write_str(shown),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Place({self})")
    }
}

/// Why a URL cannot stand in a file that others read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It names no server.
    #[error("it is not the URL of a server: write `postgres://USER@HOST/DATABASE`")]
    NotAServer,
    /// It says what only the gate and the server should know.
    #[error(
        "a password does not belong in this file: use `PGPASSWORD`, the file of `PGPASSFILE`, or `store: env:NAME` for a \
         variable with the whole URL"
    )]
    HoldsPassword,
}

/// Whether a URL of a server can stand in a file that others read.
pub fn names_no_secret(url: &str) -> Result<(), UrlError> {
    let Ok(Place::Server { options, .. }) = Place::parse(url) else { return Err(UrlError::NotAServer) };
    let url = &options.database_url;
    let is_secret = |key: &str| key.to_ascii_lowercase().contains("password");
    match url.password().is_some() || url.query_pairs().any(|(key, _)| is_secret(&key)) {
        true => Err(UrlError::HoldsPassword),
        false => Ok(()),
    }
}

/// A URL as far as it can be shown: not what stands between a user's name and the host, nor any option.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let end = if url.contains('@') { url.find([':', '@', '?']) } else { None };
        return url.chars().take(end.unwrap_or(256)).collect();
    };
    let (before, options) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    match before.rsplit_once('@') {
        Some((who, server)) => {
            let user = who.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{server}")
        }
        // Not a URL as it should be: the mark may stand in a password.
        None if options.contains('@') => format!("{scheme}://"),
        None => format!("{scheme}://{before}"),
    }
}

/// Makes the file, for its owner alone; SQLite gives the files beside it the same permissions.
///
/// One that is there is looked at, never opened: to close it would let go of every lock that SQLite holds on it for
/// another store of this process.
fn touch(path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::File { path: path.to_owned(), source };
    let shown = || path.display().to_string();
    match fs::metadata(path) {
        // Also for root, who could write it all the same: somebody has protected it.
        Ok(metadata) if metadata.is_file() && metadata.permissions().readonly() => {
            Err(OpenError::ReadOnly { place: shown() })
        }
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(OpenError::NotAStore { place: shown() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => place(path, &[], 0o600)
            .map(drop)
            .map_err(|source| OpenError::Folder { path: path.to_owned(), source }),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_place_holds_no_password() {
        for (url, shown) in [
            ("postgres://me:hunter2@db.example:5433/gate", "postgres://me@db.example:5433/gate"),
            ("postgres://me:hun@ter2@db.example/gate", "postgres://me@db.example/gate"),
            ("postgresql://db.example/gate?password=hunter2&host=x", "postgresql://db.example/gate"),
            ("postgres://me@db.example/gate?password=hunter@2", "postgres://me@db.example/gate"),
            ("postgres://:hunter2@db.example/gate", "postgres://@db.example/gate"),
        ] {
            let place = Place::parse(url).unwrap();
            assert_eq!(place.to_string(), shown);
            assert!(!format!("{place:?}").contains("hun"), "{place:?}");
        }
        for url in ["mysql://me:hunter2@db/gate", "postgres://me:hun?ter2@db/gate:x", "me:hunter2@db?x"] {
            let shown = match Place::parse(url) {
                Ok(place) => place.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(!shown.contains("ter2"), "{shown}");
        }
    }
}

//! Repositories of the world's web servers, served by git itself.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

use super::web::header;
use crate::bench::find_program;
use crate::launch::command_of;

/// The folder that each repository is in, by its name.
static SERVED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());

/// Serves the repository of this name in the folder, as `/git/NAME` of every host.
pub(crate) fn serve_beneath(name: &str, folder: PathBuf) {
    SERVED.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), folder);
}

/// What git says to a request, if it is for a repository.
pub(super) fn say(head: &str, body: &[u8]) -> Option<Vec<u8>> {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.strip_prefix("/git")?;
    let name = path.split('/').nth(1)?;
    let folder = SERVED.lock().unwrap_or_else(PoisonError::into_inner).get(name)?.clone();
    let git = find_program("git")?;
    let of = |name| header(head, name).unwrap_or_default();
    let mut backend = command_of(&git, &["http-backend".into()])
        .env_clear()
        .env("PATH", jail::DEFAULT_PATH)
        .env("HOME", &folder)
        .env("GIT_PROJECT_ROOT", &folder)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_TYPE", of("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", of("content-encoding"))
        .env("GIT_PROTOCOL", of("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    backend.stdin.take()?.write_all(body).ok()?;
    let said = backend.wait_with_output().ok()?.stdout;
    let end = said.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let (headers, body) = (said.get(..end)?, said.get(end + 4..)?);
    let headers = String::from_utf8_lossy(headers);
    let status = header(&headers, "status").unwrap_or("200 OK");
    let others: String = headers
        .lines()
        .filter(|line| !line.starts_with("Status:"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let head = format!("HTTP/1.1 {status}\r\n{others}Content-Length: {}\r\n\r\n", body.len());
    Some([head.as_bytes(), body].concat())
}

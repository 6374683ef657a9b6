//! Secrets in a granted directory: read by their name, by another name, by moving them.

use std::fs::{self, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jail::{Access, Control};
use rustix::fs::{Mode as FileMode, OFlags};

use crate::Try;
use crate::case::{Attempt, Case};
use crate::launch::{Run, Site};
use crate::payload::{Payload, held, say, through};
use crate::place::token;

pub(crate) const PAYLOADS: &[Payload] = &[("pry", pry), ("open-up", open_up)];

/// A secret in a granted directory, and how it could be reached.
struct Secret {
    id: &'static str,
    promise: &'static str,
    /// Where the secret is.
    file: &'static str,
    /// A link to make, and what it leads to: relative, or with `=` for the granted directory.
    link: Option<(&'static str, &'static str)>,
    /// What is granted, of the place of this attempt.
    granted: &'static str,
    access: Access,
    /// The names to try, below what is granted.
    tried: &'static [&'static str],
}

const PLAIN: Secret = Secret {
    id: "hidden-file",
    promise: "",
    file: "work/.env",
    link: None,
    granted: "work",
    access: Access::Read,
    tried: &[".env"],
};

const SECRETS: &[Secret] = &[
    Secret { promise: "a hidden file cannot be read", ..PLAIN },
    Secret {
        id: "hidden-file-deep",
        promise: "a hidden file cannot be read at any depth",
        file: "work/a/b/c/.env.local",
        tried: &["a/b/c/.env.local", "a/../a/b/c/.env.local"],
        ..PLAIN
    },
    Secret {
        id: "hidden-file-writable",
        promise: "a hidden file in a writable directory cannot be read or moved or linked or uncovered",
        file: "work/api/.env",
        access: Access::Write,
        tried: &["api/.env"],
        ..PLAIN
    },
    Secret {
        id: "hidden-name-case",
        promise: "a hidden name in capitals is hidden",
        file: "work/.ENV.Production",
        tried: &[".ENV.Production"],
        ..PLAIN
    },
    Secret {
        id: "hidden-name-case",
        promise: "a hidden ending in capitals is hidden",
        file: "work/Server.PEM",
        tried: &["Server.PEM"],
        ..PLAIN
    },
    Secret {
        id: "hidden-directory",
        promise: "nothing in a hidden directory can be read",
        file: "work/home/.ssh/known",
        tried: &["home/.ssh/known", "home/.ssh"],
        ..PLAIN
    },
    Secret {
        id: "hidden-in-git",
        promise: "a hidden file in a git directory cannot be read",
        file: "work/.git/deploy.key",
        tried: &[".git/deploy.key"],
        ..PLAIN
    },
    Secret {
        id: "link-to-a-hidden-file",
        promise: "a link with an innocent name does not show a hidden file",
        link: Some(("work/innocent", ".env")),
        tried: &["innocent"],
        ..PLAIN
    },
    Secret {
        id: "hidden-symlink",
        promise: "a link with a hidden name hides what it leads to",
        file: "work/shared/settings",
        link: Some(("work/api/.env", "../shared/settings")),
        tried: &["api/.env", "shared/settings"],
        ..PLAIN
    },
    Secret {
        id: "hidden-symlink",
        promise: "an absolute link with a hidden name hides what it leads to",
        file: "work/shared/settings",
        link: Some(("work/api/.env", "=/shared/settings")),
        tried: &["api/.env", "shared/settings"],
        ..PLAIN
    },
    Secret {
        id: "hidden-symlink",
        promise: "a link with a hidden name to what has one itself hides it once",
        file: "work/.env",
        link: Some(("work/api/.env.local", "../.env")),
        tried: &["api/.env.local", ".env"],
        ..PLAIN
    },
    Secret {
        id: "hidden-symlink",
        promise: "a link with a hidden name hides a directory in which something is hidden",
        file: "work/shared/.env",
        link: Some(("work/.env.shared", "shared")),
        tried: &[".env.shared/.env", "shared/.env"],
        ..PLAIN
    },
    Secret {
        id: "hidden-behind-a-linked-directory",
        promise: "a hidden name is hidden when a link gives it the directory it is hidden in",
        file: "work/dotfiles/gcloud/token",
        link: Some(("work/.config", "dotfiles")),
        tried: &[".config/gcloud/token"],
        ..PLAIN
    },
    Secret {
        id: "granted-parent",
        promise: "a name hidden in its parent is hidden when the parent itself is granted",
        file: "work/.config/gcloud/token",
        granted: "work/.config",
        tried: &["gcloud/token"],
        ..PLAIN
    },
];

pub(crate) fn cases() -> Vec<Case> {
    let case = |secret: &'static Secret| {
        Case::new(secret.id, secret.promise, &[Control::HiddenNames], move |site| attempt(site, secret))
    };
    let nested = Case::new(
        "hidden-in-two-grants",
        "a hidden file is hidden in a directory that is granted within another",
        &[Control::HiddenNames],
        in_two_grants,
    );
    let behind_links = Case::new(
        "hidden-behind-many-links",
        "a hidden name is hidden behind a link however many others there are and in whatever order they are found",
        &[Control::HiddenNames],
        behind_many_links,
    );
    let in_closed = Case::new(
        "hidden-in-a-closed-directory",
        "a hidden file cannot be read in a directory that can be listed and not entered until it is opened up",
        &[Control::HiddenNames],
        in_closed_directory,
    );
    // Two runs: what the first one moves, the second one would find under a name that hides nothing.
    let by_its_parent = Case::new(
        "named-by-its-parent",
        "a file that is hidden by the name of its directory too stays hidden because that cannot be moved",
        &[Control::HiddenNames],
        moved_by_its_parent,
    );
    SECRETS.iter().map(case).chain([nested, behind_links, in_closed, by_its_parent]).collect()
}

fn attempt(site: &Site<'_>, secret: &Secret) -> Try<Attempt> {
    let text = token();
    let file = site.place.file(secret.file, &text)?;
    fs::set_permissions(&file, Permissions::from_mode(0o666))?;
    let granted = site.place.path(secret.granted);
    if let Some((name, target)) = secret.link {
        let target = match target.strip_prefix("=/") {
            Some(rest) => granted.join(rest),
            None => PathBuf::from(target),
        };
        site.place.link(name, target)?;
    }
    let tried = secret.tried.iter().map(|name| granted.join(name));
    let mut run = Run::payload("pry", tried);
    match secret.access {
        Access::Read => run.read = vec![granted.clone()],
        Access::Write => run.write = vec![granted.clone()],
    }
    let ran = site.run(run)?;
    ran.judged(|ran| ran.revealed(&text))
}

fn moved_by_its_parent(site: &Site<'_>) -> Try<Attempt> {
    let text = token();
    let file = site.place.file("work/.local/state/toolgate/key", &text)?;
    fs::set_permissions(&file, Permissions::from_mode(0o666))?;
    let work = site.place.open_folder("work")?;
    for folder in ["work/.local", "work/.local/state"] {
        site.place.open_folder(folder)?;
    }
    let moves = [work.display().to_string(), "move:.local/state:.local/s2".into(), "move:.local:l2".into()];
    site.run(Run { write: vec![work.clone()], ..Run::payload("perform", moves) })?;
    let names = ["l2/s2", ".local/s2", "l2/state", ".local/state"];
    let tried = names.map(|folder| work.join(folder).join("toolgate/key"));
    let ran = site.run(Run { write: vec![work], ..Run::payload("read", tried) })?;
    ran.judged(|ran| ran.revealed(&text))
}

fn in_two_grants(site: &Site<'_>) -> Try<Attempt> {
    let text = token();
    let file = site.place.file("work/inner/.env", &text)?;
    let outer = site.place.path("work");
    let run =
        Run { read: vec![outer], write: vec![site.place.path("work/inner")], ..Run::payload("pry", [file]) };
    let ran = site.run(run)?;
    ran.judged(|ran| ran.revealed(&text))
}

/// One link among many, each to a directory of its own, found after what it leads to; the other by another link.
fn behind_many_links(site: &Site<'_>) -> Try<Attempt> {
    let text = token();
    let mut tried = Vec::new();
    for number in 0..100 {
        site.place.file(&format!("work/{number:03}/plain/config.json"), &text)?;
        tried.push(site.place.link(&format!("work/m{number:03}/.docker"), format!("../{number:03}/plain"))?);
    }
    site.place.file("work/x/deep/toolgate/key", &text)?;
    site.place.link("work/x/.local", "middle")?;
    site.place.link("work/x/middle/state", "../deep")?;
    let mut tried: Vec<PathBuf> = tried.into_iter().map(|link| link.join("config.json")).collect();
    tried.push(site.place.path("work/x/.local/state/toolgate/key"));
    let run = Run { read: vec![site.place.path("work")], ..Run::payload("read", tried) };
    site.run(run)?.judged(|ran| ran.revealed(&text))
}

/// Whoever owns it can give it another mode from inside; the launcher of an ordinary user could not look into it.
fn in_closed_directory(site: &Site<'_>) -> Try<Attempt> {
    let text = token();
    let file = site.place.file("work/closed/.env", &text)?;
    let closed = site.place.path("work/closed");
    fs::set_permissions(&closed, Permissions::from_mode(0o600))?;
    let work = site.place.path("work");
    let ran = site.run(Run { write: vec![work], ..Run::payload("open-up", [&closed, &file]) })?;
    ran.judged(|ran| ran.revealed(&text))
}

/// Opens a directory up, and reads what is in it.
fn open_up(arguments: &[String]) {
    let (folders, files) = arguments.split_at(arguments.len().min(1));
    for folder in folders {
        let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    }
    pry(files);
}

/// Reads a file by every way there is.
fn pry(arguments: &[String]) {
    for path in arguments {
        let path = Path::new(path);
        show("open", path);
        if let Ok(handle) = rustix::fs::open(path, OFlags::PATH, FileMode::empty()) {
            show("open by handle", Path::new(&format!("/proc/self/fd/{}", handle.as_raw_fd())));
        }
        let _ = fs::set_permissions(path, Permissions::from_mode(0o644));
        show("open after changing its mode", path);
        let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
        show("open after taking off its cover", path);
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let _ = fs::hard_link(path, parent.join("linked"));
        show("open by a hard link", &parent.join("linked"));
        let _ = fs::rename(path, parent.join("moved"));
        show("open after moving it", &parent.join("moved"));
        let _ = fs::remove_file(path);
        let moved = parent.with_file_name("moved-parent");
        if fs::rename(parent, &moved).is_ok() {
            show("open after moving what it is in", &moved.join(name));
        }
    }
    held("tried every way");
}

fn show(how: &str, path: &Path) {
    if let Some(content) = fs::read(path).ok().filter(|content| !content.is_empty()) {
        say(&String::from_utf8_lossy(&content));
        through(how);
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        say(&fs::read_to_string(entry.path()).unwrap_or_default());
        through(format!("{how}: {}", entry.path().display()));
    }
}

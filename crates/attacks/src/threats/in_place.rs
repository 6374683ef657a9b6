//! What changes on the host while a sandbox waits where a plan is going to be run.

use std::fs::{self, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jail::{Control, Request, Response};

use crate::Try;
use crate::bench::Need;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Mode, Reply, Run, Site};

const SECRET: &str = "PLACE=before";

/// Something that changes between two runs in one place.
struct Change {
    id: &'static str,
    promise: &'static str,
    walls: &'static [Control],
    /// What is read there afterwards.
    read: &'static str,
    /// How the place is at first, and what becomes of it.
    make: fn(&Site<'_>) -> Try<PathBuf>,
    change: fn(&Path) -> Try<()>,
    needs: &'static [Need],
}

static CHANGES: [Change; 3] = [
    Change {
        id: "place-that-changed",
        promise: "a secret that came to be while a sandbox waited in its place is hidden in it",
        walls: &[Control::HiddenNames],
        read: ".env",
        make: |site| site.place.folder("granted"),
        change: |folder| {
            fs::write(folder.join(".env"), SECRET)?;
            Ok(fs::set_permissions(folder.join(".env"), Permissions::from_mode(0o644))?)
        },
        needs: &[],
    },
    Change {
        id: "place-that-was-replaced",
        promise: "a directory that was replaced while a sandbox waited in it is not seen any more",
        walls: &[Control::Filesystem],
        read: "note",
        make: |site| site.place.file("granted/note", SECRET).and(Ok(site.place.path("granted"))),
        change: |folder| {
            fs::rename(folder, folder.with_extension("before"))?;
            fs::create_dir(folder)?;
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
            Ok(fs::write(folder.join("note"), "after")?)
        },
        needs: &[],
    },
    Change {
        id: "place-that-was-opened",
        promise: "a directory that was opened to everybody while a sandbox waited in it is seen as everybody sees it",
        walls: &[Control::Identity],
        read: "note",
        make: |site| {
            let note = site.place.file("granted/note", SECRET)?;
            fs::set_permissions(&note, Permissions::from_mode(0o600))?;
            let folder = site.place.path("granted");
            fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
            Ok(folder)
        },
        change: |folder| Ok(fs::set_permissions(folder, Permissions::from_mode(0o755))?),
        // An ordinary user's own files are the tool's.
        needs: &[Need::Root],
    },
];

pub(crate) fn cases() -> Vec<Case> {
    CHANGES.iter().map(case).collect()
}

fn case(change: &'static Change) -> Case {
    let teeth = match change.walls {
        [Control::HiddenNames] => Teeth::WithoutItsWalls,
        _ => Teeth::Shown(Box::new(|site| see_before_and_after(site, change))),
    };
    Case {
        teeth,
        needs: change.needs.to_vec(),
        ..Case::new(change.id, change.promise, change.walls, |site| attempt(site, change))
    }
}

/// The control: whoever stood there before the change sees afterwards what was there.
fn see_before_and_after(site: &Site<'_>, change: &Change) -> Try<Effect> {
    let folder = (change.make)(site)?;
    let stands = fs::File::open(&folder)?;
    (change.change)(&folder)?;
    let seen = fs::read_to_string(format!("/proc/self/fd/{}/{}", stands.as_raw_fd(), change.read))?;
    Ok(Effect::through_if(seen.contains(SECRET), seen))
}

fn attempt(site: &Site<'_>, change: &Change) -> Try<Attempt> {
    let Mode::Behind(without) = site.mode else { return Err("this needs a sandbox".into()) };
    let folder = (change.make)(site)?;
    let (read, working_directory) = (vec![folder.clone()], folder.clone());
    let run = Run { read, working_directory, ..Run::command("cat", [change.read]) };
    let request = Request { plan: site.plan(&run, without)?, sealed: Vec::new(), input: Vec::new() };
    // Nobody waits where a wall is left out.
    let waiting = without.is_empty().then(|| site.in_place(&request)).transpose()?;
    (change.change)(&folder)?;
    let response = match &waiting {
        Some(warm) if !warm.waits_in_place_of(&request.plan) => {
            return Err("nobody waits there any more".into());
        }
        Some(warm) => warm.run(&request)?,
        None => site.bench.helper.run(&request)?,
    };
    match response {
        Response::Report(report) => {
            let seen = format!("{}{}", report.stdout.text(), report.stderr.text());
            let effect = Effect::through_if(seen.contains(SECRET), seen);
            Ok(Attempt { effect, answer: Reply::Report(report) })
        }
        Response::Refused { messages, .. } => Err(messages.join(": ").into()),
    }
}

//! Disk fillers: scratch space, one file, many files, files without a name, empty files.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use jail::{Control, Limit, Limits, Outcome};

use crate::Try;
use crate::case::{Attempt, Case, Effect, Trace};
use crate::launch::{Run, Site};
use crate::payload::{Payload, argument, held, tell, through};

pub(crate) const PAYLOADS: &[Payload] = &[
    ("fill-scratch", fill_scratch),
    ("fill-scratch-with-names", fill_scratch_with_names),
    ("fill-one-file", fill_one_file),
    ("fill-many-files", fill_many_files),
    ("fill-unlinked", fill_unlinked),
];

const MIB: u64 = 1024 * 1024;
/// What a filler may have, and what it takes.
const DISK: u64 = MIB;
const TAKEN: usize = 16 * 1024 * 1024;
/// Far more names than a scratch space of this size needs.
const NAMES: usize = 60_000;

pub(crate) fn cases() -> Vec<Case> {
    let case = |id, promise, trace, payload: &'static str| Case {
        trace,
        ..Case::new(id, promise, &[Control::Disk], move |site| fill(site, payload))
    };
    vec![
        case("disk-filler-scratch", "scratch space ends at the limit", Trace::Walls, "fill-scratch"),
        case(
            "disk-filler-names",
            "scratch space ends at a number of files too",
            Trace::Walls,
            "fill-scratch-with-names",
        ),
        case("disk-filler-one-file", "one file cannot grow past the limit", Trace::Walls, "fill-one-file"),
        case(
            "disk-filler-many-files",
            "many files in a granted directory are stopped",
            Trace::Stopped(Limit::Disk),
            "fill-many-files",
        ),
        case(
            "disk-filler-unlinked",
            "files that are open and have no name are stopped",
            Trace::Stopped(Limit::Disk),
            "fill-unlinked",
        ),
    ]
}

fn fill(site: &Site<'_>, payload: &'static str) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let limits = Limits { disk: DISK, timeout: Duration::from_secs(10), ..Limits::default() };
    let ran = site.run(Run { write: vec![granted.clone()], limits, ..Run::payload(payload, [&granted]) })?;
    let effect = match (&ran.report()?.outcome, ran.told()) {
        (_, Ok(told)) => told,
        (Outcome::Stopped(limit), Err(_)) => Effect::Held(format!("stopped for {limit:?}")),
        (_, Err(error)) => return Err(error),
    };
    Ok(ran.attempt(effect))
}

fn fill_scratch(_: &[String]) {
    for folder in ["/tmp", "/dev/shm", jail::HOME] {
        tell(&format!("fill {folder}"), fs::write(Path::new(folder).join("fill"), vec![1; TAKEN / 4]));
    }
}

/// Empty files take no room that a limit in bytes would count, and memory of the kernel all the same.
fn fill_scratch_with_names(_: &[String]) {
    let made = (0..NAMES).take_while(|n| fs::File::create(format!("/tmp/{n}")).is_ok()).count();
    if made == NAMES { through(format!("made {made} files")) } else { held(format!("made {made} files")) }
}

fn fill_one_file(arguments: &[String]) {
    let file = Path::new(argument(arguments, 0)).join("fill");
    tell("grow one file", fs::write(&file, vec![1; TAKEN]));
    let sparse = fs::File::create(&file).and_then(|mut file| {
        file.seek(SeekFrom::Start(1 << 40))?;
        file.write_all(b"x")
    });
    tell("grow one file by its end", sparse);
}

fn fill_many_files(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let piece = vec![1; TAKEN / 64];
    for number in 0..64 {
        if let Err(error) = fs::write(folder.join(number.to_string()), &piece) {
            return held(format!("fill many files: {error}"));
        }
    }
    stay("filled many files");
}

fn fill_unlinked(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let piece = vec![1; TAKEN / 64];
    let mut kept = Vec::new();
    for number in 0..64 {
        let path = folder.join(number.to_string());
        let filled = fs::File::create(&path).and_then(|mut file| {
            fs::remove_file(&path)?;
            file.write_all(&piece)?;
            Ok(file)
        });
        match filled {
            Ok(file) => kept.push(file),
            Err(error) => return held(format!("fill files without a name: {error}")),
        }
    }
    stay("filled files without a name");
    drop(kept);
}

/// Long enough to be seen by whoever looks.
fn stay(what: &str) {
    std::thread::sleep(Duration::from_millis(700));
    through(what);
}

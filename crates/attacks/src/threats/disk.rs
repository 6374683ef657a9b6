//! Disk fillers: scratch space, one file, many files, files without a name, empty files.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jail::{Control, Limit, Limits, Outcome};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, renameat_with};

use crate::Try;
use crate::case::{Attempt, Case, Effect, Trace};
use crate::launch::{Reply, Run, Site};
use crate::payload::{Payload, argument, held, tell, through};
use crate::raw;

pub(crate) const PAYLOADS: &[Payload] = &[
    ("fill-scratch", fill_scratch),
    ("fill-scratch-with-names", fill_scratch_with_names),
    ("fill-one-file", fill_one_file),
    ("fill-many-files", fill_many_files),
    ("fill-when-told", fill_when_told),
    ("fill-unlinked", fill_unlinked),
    ("fill-reserved", fill_reserved),
    ("fill-mapped", fill_mapped),
    ("keep-moving", keep_moving),
    ("make-many", make_many),
];

const MIB: u64 = 1024 * 1024;
/// What a filler may have, and what it takes.
const DISK: u64 = MIB;
const TAKEN: usize = 16 * 1024 * 1024;
/// Directories with directories in them, for a launcher to look through.
const PARTS: usize = 100;
/// When a command that keeps its launcher busy has to end.
const IN_TIME: Duration = Duration::from_millis(700);
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
        case(
            "disk-filler-reserved",
            "files without a name that were only reserved are stopped",
            Trace::Stopped(Limit::Disk),
            "fill-reserved",
        ),
        case(
            "disk-filler-mapped",
            "files that are mapped and neither open nor named are stopped",
            Trace::Stopped(Limit::Disk),
            "fill-mapped",
        ),
        Case {
            trace: Trace::Stopped(Limit::Disk),
            ..Case::new(
                "disk-filler-while-others-free",
                "many files are stopped also where others free as much of the same disk",
                &[Control::Disk],
                fill_while_others_free,
            )
        },
        Case {
            trace: Trace::Stopped(Limit::Timeout),
            ..Case::new(
                "watch-has-much-to-see",
                "many files do not keep the launcher from ending a command in time",
                &[Control::Timeout],
                give_the_watch_much_to_see,
            )
        },
        Case {
            trace: Trace::Refused("could not be searched in time"),
            ..Case::new(
                "endless-search",
                "a directory that takes longer to search than there is time is refused",
                &[Control::Timeout],
                grant_much,
            )
        },
        Case {
            trace: Trace::Stopped(Limit::Timeout),
            ..Case::new(
                "watch-kept-busy",
                "directories that never rest do not keep the launcher from ending a command in time",
                &[Control::Timeout],
                keep_the_watch_busy,
            )
        },
    ]
}

/// Whoever looks at the disk alone sees more room than before.
fn fill_while_others_free(site: &Site<'_>) -> Try<Attempt> {
    let others = site.place.file("others", "")?;
    fs::write(&others, vec![1; 4 * TAKEN])?;
    let disk = fs::OpenOptions::new().write(true).open(&others)?;
    disk.sync_all()?;
    let (ready, go) = (site.place.path("granted/ready"), site.place.path("granted/go"));
    std::thread::scope(|scope| {
        let freeing = scope.spawn(move || -> Try<()> {
            super::lifetime::wait_patiently(|| ready.exists())?;
            disk.set_len(0)?;
            // Some filesystems give room back when they have written down that they do.
            rustix::fs::syncfs(&disk)?;
            Ok(fs::write(go, "")?)
        });
        let attempt = fill(site, "fill-when-told");
        freeing.join().map_err(|_| "the others have ended")??;
        attempt
    })
}

fn fill(site: &Site<'_>, payload: &'static str) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let limits = Limits { disk: DISK, timeout: Duration::from_secs(30), ..Limits::default() };
    let ran = site.run(Run { write: vec![granted.clone()], limits, ..Run::payload(payload, [&granted]) })?;
    let effect = match (&ran.report()?.outcome, ran.told()) {
        (_, Ok(told)) => told,
        (Outcome::Stopped(limit), Err(_)) => Effect::Held(format!("stopped for {limit:?}")),
        (_, Err(error)) => return Err(error),
    };
    Ok(ran.attempt(effect))
}

/// Somebody else uses the disk, so that the launcher looks for who it was; what it looks through never rests.
fn keep_the_watch_busy(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    for part in 0..PARTS {
        (0..20).try_for_each(|number| fs::create_dir_all(granted.join(format!("p{part}/{number}"))))?;
    }
    while_others_fill_the_disk(site, granted, "keep-moving")
}

fn give_the_watch_much_to_see(site: &Site<'_>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    while_others_fill_the_disk(site, granted, "make-many")
}

fn while_others_fill_the_disk(site: &Site<'_>, granted: PathBuf, payload: &'static str) -> Try<Attempt> {
    // More than the directories themselves take, and less than somebody else will.
    let limits = Limits { disk: 16 * MIB, timeout: IN_TIME, ..Limits::default() };
    let run = Run { write: vec![granted.clone()], limits, ..Run::payload(payload, [&granted]) };
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| site.run(run));
        super::lifetime::wait_patiently(|| granted.join("ready").exists())?;
        (0..3).try_for_each(|number| {
            fs::write(site.place.path(&format!("elsewhere{number}")), vec![1; TAKEN])
        })?;
        running.join().map_err(|_| "the run panicked")?
    })?;
    let took = ran.report()?.timings.run;
    Ok(ran.attempt(Effect::through_if(took > IN_TIME * 3, format!("ran for {took:?}"))))
}

/// The least time a plan can have, and more than can be looked at in it.
fn grant_much(site: &Site<'_>) -> Try<Attempt> {
    for part in 0..20 {
        let part = site.place.folder(&format!("granted/{part}"))?;
        (0..200).try_for_each(|number| fs::write(part.join(number.to_string()), ""))?;
    }
    let limits = Limits { timeout: Duration::from_millis(1), ..Limits::default() };
    let read = vec![site.place.path("granted")];
    let ran = site.run(Run { read, limits, ..Run::payload("spin", ["0"]) })?;
    let effect = Effect::through_if(matches!(ran.answer, Reply::Report(_)), "it was searched and run");
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

fn fill_when_told(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    match fs::write(folder.join("ready"), "") {
        Ok(()) if super::lifetime::wait_patiently(|| folder.join("go").exists()).is_ok() => {
            fill_many_files(arguments);
        }
        _ => held("nobody has told it to"),
    }
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

/// Room that was asked for and never written: no count of written bytes shows it.
fn fill_reserved(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let piece = TAKEN as u64 / 64;
    let mut kept = Vec::new();
    for number in 0..64 {
        let path = folder.join(number.to_string());
        let reserved = fs::File::create(&path).and_then(|file| {
            fs::remove_file(&path)?;
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, piece)?;
            Ok(file)
        });
        match reserved {
            Ok(file) => kept.push(file),
            Err(error) => return held(format!("reserve room in files without a name: {error}")),
        }
    }
    stay("reserved room in files without a name");
    drop(kept);
}

fn fill_mapped(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    let piece = vec![1; TAKEN / 64];
    for number in 0..64 {
        let path = folder.join(number.to_string());
        let filled = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).and_then(
            |mut file| {
                fs::remove_file(&path)?;
                file.write_all(&piece)?;
                raw::map(&file, piece.len())
            },
        );
        if let Err(error) = filled {
            return held(format!("fill mapped files: {error}"));
        }
    }
    stay("filled mapped files");
}

/// Makes directories change places all the time, for longer than it may.
fn keep_moving(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    tell("begin", fs::write(folder.join("ready"), ""));
    let begun = std::time::Instant::now();
    while begun.elapsed() < IN_TIME * 4 {
        for part in 1..PARTS {
            let (one, other) = (folder.join(format!("p{part}/0")), folder.join(format!("p{}/1", part - 1)));
            let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        }
    }
}

/// Makes more files than can be looked at in a moment, and goes on for longer than it may.
fn make_many(arguments: &[String]) {
    let folder = Path::new(argument(arguments, 0));
    tell("begin", fs::write(folder.join("ready"), ""));
    let begun = std::time::Instant::now();
    for number in 0..15_000 {
        let part = folder.join((number / 1000).to_string());
        let _ = fs::create_dir(&part);
        let _ = fs::File::create(part.join(number.to_string()));
    }
    std::thread::sleep((IN_TIME * 4).saturating_sub(begun.elapsed()));
}

/// Long enough to be seen by whoever looks.
fn stay(what: &str) {
    std::thread::sleep(Duration::from_secs(2));
    through(what);
}

//! Output without end, and output cut in the middle of a character.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jail::{Control, Limits};

use crate::Try;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Launcher, Mode, Run, Site};
use crate::payload::Payload;
use crate::payload::argument;

pub(crate) const PAYLOADS: &[Payload] = &[("print", print), ("print-wide", print_wide)];

const MIB: u64 = 1024 * 1024;
const CAP: u64 = 64 * 1024;
/// The most a launcher may need, however much a tool prints.
const LAUNCHER: u64 = 48 * MIB;
/// Enough to see that a launcher without a cap keeps it all.
const CONTROL: u64 = 96 * MIB;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("output-cap", "output past the cap is dropped", &[Control::Output], print_past_the_cap),
        Case::new(
            "output-flood",
            "gigabytes of output are drained and cost the launcher nothing",
            &[Control::Output],
            flood,
        ),
        Case {
            teeth: Teeth::Shown(Box::new(tear)),
            ..Case::new(
                "torn-character",
                "a cap in the middle of a character leaves no half of it",
                &[Control::Output],
                cut_characters,
            )
        },
    ]
}

fn print_past_the_cap(site: &Site<'_>) -> Try<Attempt> {
    let limits = Limits { output: CAP, ..Limits::default() };
    let ran = site.run(Run { limits, ..Run::payload("print", [(CAP * 4).to_string()]) })?;
    let stdout = &ran.report()?.stdout;
    if stdout.total != CAP * 4 {
        return Err(format!("{} bytes were printed", stdout.total).into());
    }
    let (kept, dropped) = (stdout.bytes.len() as u64, stdout.dropped);
    let held = kept == CAP && dropped == CAP * 3;
    Ok(ran.attempt(Effect::through_if(!held, format!("kept {kept} and dropped {dropped}"))))
}

fn flood(site: &Site<'_>) -> Try<Attempt> {
    let is_control = matches!(site.mode, Mode::Behind(without) if !without.is_empty());
    let wanted = match (is_control, site.bench.settings.long) {
        (true, _) => CONTROL,
        (false, false) => 2048 * MIB,
        (false, true) => 10 * 1024 * MIB,
    };
    let noted = site.place.path("noted");
    let run = Run {
        limits: Limits { output: CAP, timeout: Duration::from_secs(300), ..Limits::default() },
        launcher: Launcher { noted: Some(noted.clone()), ..Launcher::default() },
        ..Run::payload("print", [wanted.to_string()])
    };
    let peak = AtomicU64::new(0);
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| site.run(run));
        while !running.is_finished() {
            peak.fetch_max(memory_of(&noted), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        running.join().map_err(|_| "the run panicked")?
    })?;
    let printed = ran.report()?.stdout.total;
    let peak = peak.into_inner();
    if printed != wanted || peak == 0 {
        return Err(format!("{printed} bytes were printed, with {peak} bytes of memory").into());
    }
    Ok(ran.attempt(Effect::through_if(peak > LAUNCHER, format!("the launcher took {peak} bytes"))))
}

/// The most memory that the process whose number was noted ever had.
fn memory_of(noted: &Path) -> u64 {
    let pid = fs::read_to_string(noted).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The control: cutting the same bytes where the cap is tears a character.
fn tear(_: &Site<'_>) -> Try<Effect> {
    let text = "é".repeat(700);
    let cut = text.as_bytes().get(..1001).unwrap_or_default();
    Ok(Effect::through_if(std::str::from_utf8(cut).is_err(), "half a character is left"))
}

fn cut_characters(site: &Site<'_>) -> Try<Attempt> {
    for cap in 1000..1004 {
        let limits = Limits { output: cap, ..Limits::default() };
        let ran = site.run(Run { limits, ..Run::payload("print-wide", [""; 0]) })?;
        let text = ran.report()?.stdout.text();
        if text.is_empty() || !text.chars().all(|c| "é漢🦀".contains(c)) {
            return Ok(ran.attempt(Effect::Through(format!("a cap of {cap} left `{text}`"))));
        }
    }
    let ran = site.run(Run::payload("print-wide", [""; 0]))?;
    Ok(ran.attempt(Effect::Held("every character is whole".to_owned())))
}

fn print(arguments: &[String]) {
    let mut left: usize = argument(arguments, 0).parse().unwrap_or(0);
    let piece = vec![b'x'; 64 * 1024];
    // Past the buffer of the library, which would look at every byte.
    let Ok(stdout) = rustix::io::dup(rustix::stdio::stdout()) else { return };
    let mut stdout = fs::File::from(stdout);
    while left > 0 {
        let next = piece.get(..left.min(piece.len())).unwrap_or_default();
        if stdout.write_all(next).is_err() {
            return;
        }
        left -= next.len();
    }
}

fn print_wide(_: &[String]) {
    let _ = std::io::stdout().write_all("é漢🦀".repeat(500).as_bytes());
}

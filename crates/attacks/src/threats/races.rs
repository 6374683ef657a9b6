//! Races: what is granted is swapped for something else while sandboxes are being built.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jail::Control;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::Try;
use crate::case::{Attempt, Case, Effect, Teeth};
use crate::launch::{Reply, Run, Site};
use crate::place::token;

/// How often a sandbox is built while things are swapped.
const ROUNDS: usize = 60;

/// How long a state lasts at most, where the time to build a sandbox is the window.
const SHORT: Duration = Duration::from_micros(400);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            teeth: Teeth::Shown(Box::new(check_then_use)),
            ..Case::new(
                "bind-target-race",
                "a directory swapped for a link while sandboxes are built never shows what it leads to",
                &[Control::Filesystem],
                swap_for_a_link,
            )
        },
        Case {
            teeth: Teeth::Shown(Box::new(check_then_use)),
            ..Case::new(
                "bind-target-race",
                "a directory swapped for another while sandboxes are built never shows a secret of either",
                &[Control::Filesystem],
                swap_for_another,
            )
        },
        Case {
            teeth: Teeth::WithoutItsWalls,
            ..Case::new(
                "hidden-name-moved",
                "a secret whose directory is renamed while sandboxes are built is never shown",
                &[Control::HiddenNames],
                rename_around_a_secret,
            )
        },
        Case {
            teeth: Teeth::WithoutItsWalls,
            ..Case::new(
                "hidden-symlink",
                "a link with a hidden name hides what it leads to while names elsewhere are swapped",
                &[Control::HiddenNames],
                disturb_a_hidden_link,
            )
        },
    ]
}

/// Swaps two paths again and again until it is dropped.
struct Swapping<'a>(&'a AtomicBool);

impl Drop for Swapping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Builds sandboxes while two paths are swapped.
fn while_swapping<T>(
    (one, other): (&Path, &Path),
    longest: Duration,
    body: impl FnOnce() -> Try<T>,
) -> Try<T> {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Each state lasts for a moment, of another length each time.
            for moment in (0..=100).step_by(9).cycle() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                std::thread::sleep(longest * moment / 100);
            }
        });
        let _ended_with_the_body = Swapping(&ended);
        body()
    })
}

/// The control: looking first and using afterwards is not safe.
fn check_then_use(site: &Site<'_>) -> Try<Effect> {
    let (granted, other, secret) = with_a_link(site)?;
    while_swapping((&granted, &other), SHORT, || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            let is_directory = fs::symlink_metadata(&granted).is_ok_and(|status| status.is_dir());
            if is_directory && fs::read_to_string(granted.join("file")).is_ok_and(|text| text == secret) {
                return Ok(Effect::Through("looked, and read something else".to_owned()));
            }
        }
        Ok(Effect::Held("five seconds were not enough".to_owned()))
    })
}

/// A directory, and a link to a secret one beside it.
fn with_a_link(site: &Site<'_>) -> Try<(PathBuf, PathBuf, String)> {
    let secret = token();
    site.place.file("vault/file", &secret)?;
    site.place.file("granted/file", "harmless")?;
    let other = site.place.link("other", site.place.path("vault"))?;
    Ok((site.place.path("granted"), other, secret))
}

fn swap_for_a_link(site: &Site<'_>) -> Try<Attempt> {
    let (granted, other, secret) = with_a_link(site)?;
    let tried = vec![granted.join("file")];
    while_swapping((&granted, &other), SHORT, || build_and_look(site, &granted, &tried, &secret))
}

fn swap_for_another(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    site.place.file("other/.env", &secret)?;
    site.place.file("granted/file", "harmless")?;
    let (granted, other) = (site.place.path("granted"), site.place.path("other"));
    let tried = vec![granted.join(".env"), granted.join("file")];
    while_swapping((&granted, &other), SHORT, || build_and_look(site, &granted, &tried, &secret))
}

fn rename_around_a_secret(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    site.place.file("work/a/.env", &secret)?;
    site.place.file("work/b/file", "harmless")?;
    // More to look through, so that the search takes as long as the moments last.
    for number in 0..150 {
        site.place.folder(&format!("work/{number}"))?;
    }
    let (a, b) = (site.place.path("work/a"), site.place.path("work/b"));
    let tried = vec![a.join(".env"), b.join(".env")];
    let work = site.place.path("work");
    while_swapping((&a, &b), Duration::from_millis(6), || build_and_look(site, &work, &tried, &secret))
}

/// The kernel gives up resolving `..` beneath a directory when anything at all is renamed meanwhile.
fn disturb_a_hidden_link(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let shared = site.place.file("work/shared/settings", &secret)?;
    let link = site.place.link("work/api/.env", "../shared/settings")?;
    let (one, other) = (site.place.file("one", "")?, site.place.file("other", "")?);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        let _ended_with_the_body = Swapping(&ended);
        build_and_look(site, &site.place.path("work"), &[link, shared], &secret)
    })
}

/// Builds many sandboxes. Each is refused, or shows nothing it should not; some of them are not refused.
fn build_and_look(site: &Site<'_>, granted: &Path, tried: &[PathBuf], secret: &str) -> Try<Attempt> {
    let mut last = None;
    for _ in 0..ROUNDS {
        let ran = site.run(Run { read: vec![granted.to_owned()], ..Run::payload("read", tried) })?;
        match &ran.answer {
            Reply::Report(_) => {
                if let effect @ Effect::Through(_) = ran.revealed(secret)? {
                    return Ok(ran.attempt(effect));
                }
                last = Some(ran);
            }
            Reply::Refused { .. } => {}
            _ => return Err(ran.said_nothing()),
        }
    }
    let ran = last.ok_or("every one of them was refused")?;
    Ok(ran.attempt(Effect::Held("never seen".to_owned())))
}

//! Files that came with the plan: what stands at their path is something else by the time they are used.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use jail::{Control, Plan, SealedFile};

use crate::Try;
use crate::case::{Attempt, Case, Effect};
use crate::launch::{Launcher, Mode, Run, Site, What};
use crate::payload::{Payload, argument, held, through};
use crate::place::{make_executable, token};

pub(crate) const PAYLOADS: &[Payload] = &[("change-sealed", change_sealed)];

const GOOD: &str = "#!/bin/sh\necho approved\n";

pub(crate) fn cases() -> Vec<Case> {
    let walls = [Control::SealedFiles];
    vec![
        Case::new("sealed-script", "a sealed script is read as it was sealed", &walls, |site| {
            run(site, |work| Run::command("sh", [work.join("run.sh")]))
        }),
        Case::new("sealed-program", "a sealed program is executed as it was sealed", &walls, |site| {
            run(site, |work| Run::command(work.join("run.sh").to_string_lossy(), [""; 0]))
        }),
        Case::new(
            "sealed-file-written",
            "the tool itself cannot change, replace or remove what was sealed",
            &walls,
            |site| run(site, |work| Run::payload("change-sealed", [work.join("run.sh")])),
        ),
    ]
}

/// Runs something in a directory whose script was sealed as it was, and is something else by now.
fn run(site: &Site<'_>, make: impl Fn(PathBuf) -> Run) -> Try<Attempt> {
    let work = site.place.open_folder("work")?;
    let secret = token();
    let script = site.place.file("work/run.sh", &format!("#!/bin/sh\necho {secret}\n"))?;
    make_executable(&script)?;
    let run = Run { write: vec![work.clone()], working_directory: work.clone(), ..make(work) };
    let changes = matches!(run.what, What::Payload(_));
    let file = SealedFile { path: script.clone(), bytes: GOOD.len() as u64, executable: true };
    let ran = match site.mode {
        Mode::Behind(without) => {
            let plan: Plan = site.plan(&run, without)?.sealing(vec![file])?;
            site.run_sealed(plan, GOOD.as_bytes().to_vec(), &Launcher::default())?
        }
        Mode::Bare => site.run(run)?,
    };
    let effect = if changes {
        ran.told()?
    } else if ran.stdout.contains(&secret) {
        Effect::Through("it ran what had been put there".to_owned())
    } else if ran.stdout.contains("approved") {
        Effect::Held("it ran what was sealed".to_owned())
    } else {
        return Err(ran.said_nothing());
    };
    Ok(ran.attempt(effect))
}

fn change_sealed(arguments: &[String]) {
    let path = argument(arguments, 0);
    let beside = format!("{path}.new");
    let again = || fs::write(&beside, "other");
    let tries = [
        ("write", fs::write(path, "other")),
        ("change its mode", fs::set_permissions(path, fs::Permissions::from_mode(0o600))),
        ("replace", again().and_then(|()| fs::rename(&beside, path))),
        ("write the copy", fs::write("/.seal/0", "other")),
        ("remove", fs::remove_file(path)),
    ];
    match tries.iter().find(|(_, tried)| tried.is_ok()) {
        Some((what, _)) => through(what),
        None => held("every way is closed"),
    }
}

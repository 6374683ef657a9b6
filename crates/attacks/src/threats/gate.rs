//! The gate itself: proofs planted for it, a host that cannot hold, toolchains that are somebody's home.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use jail::{ChangeReport, Control, Limits, Names, Program, Strictness};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use sandbox::{Host, Native, PlanRequest, Profile, Proofs, Refusal};

use crate::Try;
use crate::bench::{Bench, Need};
use crate::case::{Attempt, Case, Effect, Teeth, Trace};
use crate::launch::{Launcher, Mode, Reply, Run, Site};
use crate::payload::ATTACK_ARGUMENT;
use crate::place::token;
use crate::stage::Stage;

pub(crate) fn cases() -> Vec<Case> {
    let planted = |promise, how: How| Case {
        teeth: Teeth::Shown(Box::new(|site| plant(site, How::Own))),
        trace: Trace::Refused("not believed"),
        ..Case::new("planted-proof", promise, &[], move |site| Ok(not_believed(plant(site, how)?)))
    };
    vec![
        planted("a proof that everyone may write is not believed", How::Writable),
        planted("a proof behind a link is not believed", How::Linked),
        planted("a proof of another binary is not believed", How::OfAnother),
        Case {
            needs: vec![Need::Root],
            ..planted("a proof of somebody else's is not believed", How::Foreign)
        },
        Case {
            id: "planted-proof-race",
            ..planted("a proof that is swapped while it is read is not believed", How::Swapped)
        },
        Case {
            teeth: Teeth::Shown(Box::new(|site| {
                let attempt = run_on(&site.bench.site(Mode::behind_all())?, Vec::new())?;
                Ok(attempt.effect)
            })),
            trace: Trace::Refused("cannot create user and process namespaces"),
            ..Case::new(
                "no-user-namespaces",
                "on a host without user namespaces nothing is executed and the reason is said",
                &[],
                |site| run_on(site, vec![Stage::NoUserNamespaces]),
            )
        },
        Case {
            needs: vec![Need::User],
            teeth: Teeth::Shown(Box::new(|site| {
                let site = site.bench.site(Mode::behind_all())?;
                Ok(run_strictly(&site, Strictness::Report)?.effect)
            })),
            trace: Trace::Refused("the host does not fully enforce: memory"),
            ..Case::new(
                "watched-only",
                "a strict plan is refused where a total can only be watched",
                &[],
                |site| run_strictly(site, Strictness::Refuse),
            )
        },
        Case {
            teeth: Teeth::Bare,
            ..Case::new(
                "toolchain-is-the-home",
                "a toolchain variable that names the home does not show its secrets",
                &[Control::HiddenNames],
                build_with_home,
            )
        },
    ]
}

/// Whose proof is planted, and how.
#[derive(Clone, Copy)]
enum How {
    /// Our own file, which is believed: the control.
    Own,
    Writable,
    Linked,
    Foreign,
    OfAnother,
    Swapped,
}

fn plant(site: &Site<'_>, how: How) -> Try<Effect> {
    let folder = site.place.folder("state")?;
    let file = folder.join("native-proof.json");
    let proof = proof(site.bench)?;
    let forged = proof.replacen("\"canary\":\"held\"", "\"canary\":\"forged\"", 1);
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    fs::write(&file, &forged)?;
    mode(&file, 0o600)?;
    let mut prober = site.bench.tool.clone();
    match how {
        How::Own => {}
        How::Writable => mode(&file, 0o666)?,
        How::Linked => {
            let elsewhere = folder.join("elsewhere");
            fs::rename(&file, &elsewhere)?;
            std::os::unix::fs::symlink(&elsewhere, &file)?;
        }
        How::Foreign => chown(&file, Some(65_534), Some(65_534))?,
        How::OfAnother => {
            prober = site.place.path("another");
            fs::copy(&site.bench.tool, &prober)?;
        }
        How::Swapped => {
            let theirs = folder.join("theirs");
            fs::write(&theirs, &forged)?;
            mode(&theirs, 0o666)?;
            fs::write(&file, proof)?;
            return swap_while_read(&Proofs { folder: Some(folder), prober }, &file, &theirs);
        }
    }
    Ok(believed(&Proofs { folder: Some(folder), prober }))
}

/// Whether the forged proof counts. If it does not, the canaries would run, and here they are not let.
fn believed(proofs: &Proofs) -> Effect {
    match proofs.current(|_| Err(Refusal::Denied)) {
        Ok(proof) => {
            let forged = proof.controls().iter().any(|proved| proved.canary == "forged");
            Effect::through_if(forged, "the proof was believed")
        }
        Err(refusal) => Effect::Held(refusal.to_string()),
    }
}

fn swap_while_read(proofs: &Proofs, file: &Path, theirs: &Path) -> Try<Effect> {
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(1500) {
                let _ = renameat_with(CWD, file, CWD, theirs, RenameFlags::EXCHANGE);
            }
        });
        while !swapping.is_finished() {
            if let effect @ Effect::Through(_) = believed(proofs) {
                return Ok(effect);
            }
        }
        Ok(Effect::Held("never believed".to_owned()))
    })
}

fn not_believed(effect: Effect) -> Attempt {
    Attempt { effect, answer: Reply::Refused("not believed".to_owned()) }
}

/// A real proof of this host, as it is kept. Made once.
fn proof(bench: &Bench) -> Try<String> {
    static PROOF: OnceLock<Result<String, String>> = OnceLock::new();
    let make = || -> Try<String> {
        let site = bench.site(Mode::Bare)?;
        let folder = site.place.folder("proved")?;
        let proofs = Proofs { folder: Some(folder.clone()), prober: bench.tool.clone() };
        Native::with_helper(bench.helper.clone(), proofs).prove()?;
        Ok(fs::read_to_string(folder.join("native-proof.json"))?)
    };
    let made = PROOF.get_or_init(|| make().map_err(|error| error.to_string()));
    made.clone().map_err(Into::into)
}

/// Runs something that leaves a trace, with the launcher on another kind of host.
fn run_on(site: &Site<'_>, stages: Vec<Stage>) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let made = granted.join("made");
    let launcher = Launcher { stages, ..Launcher::default() };
    let ran = site.run(Run { write: vec![granted], launcher, ..Run::payload("make", [&made]) })?;
    Ok(ran.attempt(Effect::through_if(made.exists(), "it was executed")))
}

fn run_strictly(site: &Site<'_>, strictness: Strictness) -> Try<Attempt> {
    let granted = site.place.open_folder("granted")?;
    let made = granted.join("made");
    let arguments = vec![ATTACK_ARGUMENT.into(), "make".into(), made.clone().into()];
    let request =
        PlanRequest { arguments, strictness, write: vec![granted], ..request(site, Profile::Build) };
    let ran = site.run_plan(request.into_plan(&Host::default())?, &Launcher::default())?;
    Ok(ran.attempt(Effect::through_if(made.exists(), "it was executed")))
}

/// `GOPATH=$HOME` is a habit of some.
fn build_with_home(site: &Site<'_>) -> Try<Attempt> {
    let secret = token();
    let key = site.place.file("home/.ssh/id_ed25519", &secret)?;
    let home = site.place.path("home");
    let arguments = vec![ATTACK_ARGUMENT.into(), "read".into(), key.clone().into()];
    let request = PlanRequest { arguments, ..request(site, Profile::Build) };
    let variables = vec![("GOPATH".into(), home.clone().into())];
    let plan = request.into_plan(&Host { home: Some(home), variables })?;
    let ran = match site.mode {
        Mode::Behind(_) => site.run_plan(plan, &Launcher::default())?,
        Mode::Bare => site.run(Run::payload("read", [key]))?,
    };
    ran.judged(|ran| ran.revealed(&secret))
}

fn request(site: &Site<'_>, profile: Profile) -> PlanRequest {
    PlanRequest {
        guarded: None,
        profile,
        program: Program::Brought(site.bench.tool.clone()),
        arguments: Vec::new(),
        working_directory: "/".into(),
        read: Vec::new(),
        workspace: None,
        write: Vec::new(),
        variables: Vec::new(),
        names: Names::default(),
        limits: Limits::default(),
        changes: ChangeReport::Skip,
        strictness: Strictness::Report,
    }
}

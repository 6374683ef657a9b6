//! Programs that are heard about calls: what becomes of the calls when somebody gets at the programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use policy::{HookSettings, HookTime, Settings, ToolGlob};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::limits::{open, pay, payments};
use crate::gate::stand::{Ending, Stand, runtime, standard};
use crate::place::copy_program;

const CONTENT: &str = "cat > /dev/null; echo '{}'";
const AGAINST: &str = "cat > /dev/null; echo '{\"deny\":\"no payments\"}'";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "hook-program-gone",
            "a call that a program has to be heard about does not run once the program is gone",
            |stand| paid_by(stand, CONTENT, Ending::Done, |_| Ok(())),
            |stand| {
                paid_by(stand, CONTENT, Ending::Refused("hook_failed"), |hook| Ok(fs::remove_file(hook)?))
            },
        )
        .without("the hook that must be heard", |stand| {
            open(stand, standard())?.call("pay", pay(), Ending::Done)?;
            Ok(paid(stand))
        }),
        Case::new(
            "hook-says-nonsense",
            "what a program says that is no answer, or half of one, is not taken for consent",
            |stand| paid_by(stand, CONTENT, Ending::Done, |_| Ok(())),
            |stand| {
                let failed = Ending::Refused("hook_failed");
                for said in NONSENSE {
                    if let Effect::Through(what) = paid_by(stand, said, failed, |_| Ok(()))? {
                        return Ok(Effect::Through(format!("{said}: {what}")));
                    }
                }
                Ok(paid(stand))
            },
        ),
        Case::new(
            "planted-hook",
            "a program that others can write, or that is another one by now, has no say",
            |stand| paid_by(stand, CONTENT, Ending::Done, |_| Ok(())),
            |stand| {
                let plants: [(&str, Meddle); 4] = [
                    (AGAINST, |hook| write(hook, CONTENT)),
                    (AGAINST, |hook| {
                        fs::remove_file(hook)?;
                        write(hook, CONTENT)
                    }),
                    // The same program still, and others' to change.
                    (CONTENT, |hook| Ok(fs::set_permissions(hook, Permissions::from_mode(0o777))?)),
                    (CONTENT, |hook| {
                        let elsewhere = hook.with_extension("planted");
                        fs::rename(hook, &elsewhere)?;
                        Ok(std::os::unix::fs::symlink(elsewhere, hook)?)
                    }),
                ];
                for (script, plant) in plants {
                    let effect = paid_by(stand, script, Ending::Refused("hook_failed"), plant)?;
                    if let Effect::Through(_) = effect {
                        return Ok(effect);
                    }
                }
                // One that is others' to write is none from the start.
                let open = stand.place.open_folder("open")?.join("hook");
                write(&open, CONTENT)?;
                let fit = tools::examine_program(&open.canonicalize()?).is_ok();
                Ok(if fit { Effect::Through("anybody can replace it".to_owned()) } else { paid(stand) })
            },
        ),
        Case::new(
            "hook-looks-around",
            "a program that does whatever its input says reads nothing, writes nothing and tells nothing",
            |stand| {
                let hook = looking_around(stand);
                let path = program(stand, &hook)?;
                let told = stand.bare("sh", &[&path.to_string_lossy()], stand.place.root())?;
                Ok(match stand.shown_in(&told) {
                    Effect::Held(why) => Effect::Held(why),
                    shown => Effect::through_if(stand.place.path("made").exists(), format!("{shown:?}")),
                })
            },
            |stand| {
                let denied = Ending::Refused("denied_by_hook");
                paid_by(stand, &looking_around(stand), denied, |_| Ok(()))?;
                Ok(Effect::through_if(stand.place.path("made").exists(), "it wrote a file"))
            },
        ),
    ]
}

/// What is no answer, as the end of a script.
const NONSENSE: [&str; 8] = [
    "cat > /dev/null; echo ok",
    "cat > /dev/null; echo '{\"allow\":true}'",
    "cat > /dev/null; echo '{}{}'",
    "cat > /dev/null; echo '{\"deny\":null}'",
    "cat > /dev/null; echo '{\"withhold\":\"x\"}'",
    "cat > /dev/null",
    "cat > /dev/null; echo '{}'; exit 1",
    "cat > /dev/null; echo '{}'; head -c 70000 /dev/zero | tr '\\0' ' '",
];

fn looking_around(stand: &Stand<'_>) -> String {
    let (outside, made) = (stand.outside.display(), stand.place.path("made"));
    let made = made.display();
    format!("cat > /dev/null; echo x > {made}; echo \"{{\\\"deny\\\":\\\"$(cat {outside})\\\"}}\"")
}

/// What somebody does to the program that stands here.
type Meddle = fn(&Path) -> Try<()>;

/// Pays where this program has to be heard, after somebody had their way with it.
fn paid_by(stand: &Stand<'_>, script: &str, ending: Ending, meddle: Meddle) -> Try<Effect> {
    let path = program(stand, script)?;
    let hook = HookSettings {
        name: "minder".to_owned(),
        command: path.clone(),
        arguments: Vec::new(),
        digest: tools::examine_program(&path)?,
        when: HookTime::Before,
        tools: vec![ToolGlob::parse("pay")?],
        timeout: 5000,
    };
    let gate = open(stand, Settings { hooks: vec![hook], ..standard() })?;
    meddle(&path)?;
    gate.call("pay", pay(), ending)?;
    runtime()?.block_on(gate.engine.close());
    Ok(paid(stand))
}

fn paid(stand: &Stand<'_>) -> Effect {
    Effect::through_if(payments(stand) > 0, "paid")
}

/// A program of the operator's, where no agent works.
fn program(stand: &Stand<'_>, script: &str) -> Try<PathBuf> {
    let path = stand.place.folder("hooks")?.canonicalize()?.join("minder");
    // What an attempt before this one has left there may be a link.
    let _ = fs::remove_file(&path);
    write(&path, script)?;
    Ok(path)
}

fn write(path: &Path, script: &str) -> Try<()> {
    let text = path.with_extension("text");
    fs::write(&text, format!("#!/bin/sh\n{script}\n"))?;
    copy_program(&text, path)
}

//! Programs that are heard about calls: what becomes of the calls when somebody gets at the programs.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use contract::{AgentName, Idempotency, SafetyClass};
use engine::{Hearing, Hook, Objection, Proposed, Request};
use policy::{Agent, HookSettings, HookTime, Settings, ToolGlob};
use serde_json::json;
use store::Vote;
use tokio_util::sync::CancellationToken;

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::limits::{book, limited, note, open, pay, payments};
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, standard};
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
        Case::new(
            "hook-storm",
            "an agent that is over its limit has no hook heard",
            |stand| over_the_limit(stand, standard()),
            |stand| over_the_limit(stand, limited("pay", 2)?),
        )
        .without("the rate limit", |stand| over_the_limit(stand, standard())),
        Case::new(
            "hook-crowd",
            "however many calls one agent makes at once, few hooks are heard at a time",
            |stand| at_once(stand, &["other", "third", "fourth", AGENT]),
            |stand| at_once(stand, &[AGENT]),
        )
        .without("the places of each agent", |stand| at_once(stand, &["other", "third", "fourth", AGENT])),
        Case::new(
            "hook-again",
            "whoever waits for an approved call, and however often, has no hook heard before it can begin",
            |stand| waiting_for_turn(stand, standard()),
            |stand| waiting_for_turn(stand, limited("pay", 1)?),
        )
        .without("the limit that it waits for", |stand| waiting_for_turn(stand, standard())),
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

/// As many as one agent may have heard at once.
const FEW: usize = 4;

/// Counts how often it is heard, and how many times at once.
#[derive(Default)]
struct Listener {
    heard: AtomicUsize,
    now: AtomicUsize,
    most_at_once: AtomicUsize,
    /// How long each time waits for a crowd to gather.
    patience: Duration,
}

impl Listener {
    fn most(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }
}

impl Hook for Listener {
    fn name(&self) -> &str {
        "listener"
    }

    fn before<'a>(&'a self, _call: &'a Proposed) -> Hearing<'a, Objection> {
        Box::pin(async move {
            self.heard.fetch_add(1, Ordering::SeqCst);
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            let begun = Instant::now();
            while self.most() <= FEW && begun.elapsed() < self.patience {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok(Objection::None)
        })
    }
}

fn listen(gate: &Gate<'_>, patience: Duration) -> Arc<Listener> {
    let listener = Arc::new(Listener { patience, ..Listener::default() });
    gate.engine.set_hooks(vec![Arc::clone(&listener) as Arc<dyn Hook>]);
    listener
}

/// Pays six times; whether hooks were heard more than twice.
fn over_the_limit(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    let gate = open(stand, settings)?;
    let listener = listen(&gate, Duration::ZERO);
    for _ in 0..6 {
        let result = gate.send(gate.request("pay", pay())?)?;
        note(&gate, &result);
    }
    let heard = listener.heard.load(Ordering::SeqCst);
    Ok(Effect::through_if(heard > 2, format!("heard {heard} times")))
}

/// Many pay at once, in the names of these; whether more than a few hooks were heard at a time.
fn at_once(stand: &Stand<'_>, agents: &[&str]) -> Try<Effect> {
    let mut settings = standard();
    for agent in agents {
        settings.agents.insert(AgentName::parse(agent)?, Agent::default());
    }
    let gate = open(stand, settings)?;
    let listener = listen(&gate, Duration::from_secs(1));
    let request = |agent: &&str| -> Try<Request> {
        Ok(Request { agent: AgentName::parse(agent)?, ..gate.request("pay", pay())? })
    };
    let requests = agents.iter().cycle().take(12).map(request).collect::<Try<Vec<_>>>()?;
    let all = gate.engine.call_all(requests, 12, Duration::ZERO, CancellationToken::new());
    for result in runtime()?.block_on(all).results {
        gate.expect(&result.call_id, Ending::Done);
    }
    Ok(Effect::through_if(listener.most() > FEW, format!("{} at once", listener.most())))
}

/// Two calls are approved, and three wait for the second for a while; whether a hook was heard about it again.
fn waiting_for_turn(stand: &Stand<'_>, settings: Settings) -> Try<Effect> {
    let asked = Payment {
        safety: SafetyClass::Financial,
        idempotency: Idempotency::None,
        ..Payment::into(book(stand))
    };
    let gate = stand.open(Opening { tools: vec![asked.tool()?], ..Opening::with(settings) })?;
    let listener = listen(&gate, Duration::ZERO);
    let mut approved = Vec::new();
    for amount in [1, 2] {
        let (call, view) = gate.waits("pay", json!({ "amount": amount }))?;
        gate.answer(view.id.as_str(), Vote::Approve)?;
        approved.push(call);
    }
    let [first, second] = approved.as_slice() else { return Err("there are two".into()) };
    let agent = AgentName::parse(AGENT)?;
    let collect = |call, patience| gate.engine.collect(&agent, call, patience, CancellationToken::new());
    runtime()?.block_on(collect(first, Duration::ZERO))?;
    gate.expect(first, Ending::Done);
    let before = listener.heard.load(Ordering::SeqCst);
    let a_while = Duration::from_secs(1);
    runtime()?.block_on(async {
        tokio::try_join!(collect(second, a_while), collect(second, a_while), collect(second, a_while))
    })?;
    let again = listener.heard.load(Ordering::SeqCst) - before;
    Ok(Effect::through_if(again > 0, format!("heard {again} times more")))
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

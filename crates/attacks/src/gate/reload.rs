//! A policy that changes while the gate runs, and one that only records.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::{Autonomy, CallId, CallResult, CallStatus, Canonical, Contract, Digest, Idempotency, Scope};
use engine::{Cause, PolicySource, Reach, Reply};
use policy::{Agent, Facets, Grant, Settings};
use serde_json::{Value, json};
use store::{Vote, verify_receipt};
use tokio_util::sync::CancellationToken;
use tools::{Ran, Surroundings, Tool};

use super::approvals::{deleted, furnished, remove};
use super::limits::{book, limited, note, open, pay, payments};
use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::payment::Payment;
use crate::gate::stand::{AGENT, Ending, Gate, Opening, Stand, runtime, settings_of, standard};
use crate::gate::visitor::Visitor;
use crate::launch::command_of;

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = engine_cases();
    cases.extend(shadow_cases());
    cases.extend(file_cases());
    cases
}

fn engine_cases() -> Vec<Case> {
    vec![
        Case::new(
            "reload-race",
            "each call is decided by one policy, and none by the old one once the new one is in force",
            |stand| race(stand, None),
            |stand| race(stand, Some(locked())),
        )
        .without("the new policy", |stand| race(stand, Some(Settings { ask_for: 77_000, ..standard() }))),
        Case::new(
            "limit-after-reload",
            "what was used up stays so when the policy changes while the gate runs",
            |stand| pay_across(stand, standard()),
            |stand| pay_across(stand, limited("p*", 2)?),
        )
        .without("the limit after the reload", |stand| pay_across(stand, standard())),
        Case::new(
            "yes-of-another-policy",
            "a yes that waits to be used is none under a policy that came into force meanwhile",
            |stand| use_yes(stand, None),
            |stand| use_yes(stand, Some(Settings { ask_for: 77_000, ..standard() })),
        )
        .without("the other policy", |stand| use_yes(stand, None)),
        Case::new(
            "yes-outlives-reload",
            "a yes for more than one call ends with its policy at once, and for good",
            |stand| stand_across(stand, &[]),
            |stand| stand_across(stand, &[Settings { ask_for: 77_000, ..standard() }, standard()]),
        )
        .without("the other policy", |stand| stand_across(stand, &[])),
    ]
}

fn shadow_cases() -> Vec<Case> {
    vec![
        Case::new(
            "shadow-decides",
            "a shadow that allows everything allows nothing, and the ledger has what it would have said",
            |stand| beside(stand, standard(), None),
            |stand| beside(stand, locked(), Some(standard())),
        )
        .without("the policy in force", |stand| beside(stand, standard(), Some(locked()))),
        Case::new(
            "shadow-that-is-slow",
            "a shadow that panics or never ends harms no call, however many are made",
            |stand| {
                // What decides, and fails like that, does harm.
                Ok(Effect::through_if(fall_beside(stand, falling(), None)? == 0, "nothing is paid"))
            },
            |stand| {
                let paid = fall_beside(stand, standard(), Some(falling()))?;
                Ok(Effect::through_if(paid != 12, format!("{paid} of 12 payments")))
            },
        ),
    ]
}

fn file_cases() -> Vec<Case> {
    vec![
        Case::new(
            "unreadable-while-running",
            "while nobody can tell what a changed policy says, no call begins",
            |stand| change(stand, FREE, |_, _| Ok(())),
            |stand| change(stand, FREE, |_, file| Ok(fs::write(file, "agents: [\n")?)),
        )
        .without("the refusal", |stand| {
            let keep = format!("{FREE}policy: {{ on_bad_reload: keep }}\n");
            change(stand, &keep, |_, file| Ok(fs::write(file, "agents: [\n")?))
        })
        .on_what_is_shipped(),
        Case::new(
            "policy-vanishes",
            "a policy that is gone does not leave the defaults in its place",
            |stand| change(stand, LOCKED, |_, file| Ok(fs::write(file, FREE)?)),
            |stand| change(stand, LOCKED, |_, file| Ok(fs::remove_file(file)?)),
        )
        .on_what_is_shipped(),
        Case::new(
            "policy-by-anybody",
            "a policy that anybody can write is not taken while the gate runs",
            |stand| change(stand, LOCKED, |_, file| Ok(fs::write(file, FREE)?)),
            |stand| {
                change(stand, LOCKED, |_, file| {
                    fs::set_permissions(file, Permissions::from_mode(0o666))?;
                    Ok(fs::write(file, FREE)?)
                })
            },
        )
        .on_what_is_shipped(),
        Case::new(
            "another-owner-while-running",
            "a policy that is replaced by a link to somebody else's file is not taken, by root neither",
            |stand| change(stand, LOCKED, |stand, file| lead(stand, file, None)),
            |stand| change(stand, LOCKED, |stand, file| lead(stand, file, Some(12_345))),
        )
        .without("the same owner", |stand| change(stand, LOCKED, |stand, file| lead(stand, file, None)))
        .on_what_is_shipped()
        .needs(Need::Root),
        Case::new(
            "half-written",
            "of a file that is being written nothing is taken",
            |stand| change(stand, LOCKED, |_, file| Ok(fs::write(file, FREE)?)),
            |stand| {
                // The first half of what is written says more than the whole.
                let effect = change(stand, LOCKED, |_, file| {
                    fs::write(file, FREE)?;
                    std::thread::sleep(Duration::from_millis(300));
                    Ok(fs::write(file, format!("{FREE}    denied_tools: [\"fs.*\"]\n"))?)
                })?;
                let told = runtime()?.block_on(stand.store()?.policy_history(10))?;
                // The one it began with, and the whole one.
                let half = told.len() > 2;
                Ok(if half { Effect::Through("the first half was in force".to_owned()) } else { effect })
            },
        )
        .on_what_is_shipped(),
        Case::new(
            "planted-rules",
            "no rules are read from where an agent writes",
            |stand| plant(stand, stand.place.path("rules.cedar")),
            |stand| plant(stand, stand.workspace.join("rules.cedar")),
        )
        .before_any_call()
        .on_what_is_shipped(),
    ]
}

/// The agent changes nothing.
fn locked() -> Settings {
    settings_of(Agent { autonomy: Autonomy::Locked, ..Agent::default() })
}

fn replace(gate: &Gate<'_>, settings: Settings, shadow: Option<Settings>) -> Try<Digest> {
    let source = PolicySource { name: "attack".to_owned(), files: None };
    Ok(runtime()?.block_on(gate.engine.replace_policy(settings, shadow, &source, Cause::Reload))?)
}

/// A burst of calls, a policy in the middle of it, and calls after it. Whether one of those has paid, or one that has paid
/// is said to be of the new policy.
fn race(stand: &Stand<'_>, next: Option<Settings>) -> Try<Effect> {
    const BURST: usize = 60;
    let gate = open(stand, standard())?;
    let old = standard().hash()?;
    let mut burst = tokio::task::JoinSet::new();
    for number in 0..BURST {
        let (engine, request) = (gate.engine.clone(), gate.request("pay", pay())?);
        let call = async move {
            tokio::time::sleep(Duration::from_millis(number as u64)).await;
            engine.call(request, Duration::ZERO, CancellationToken::new()).await
        };
        burst.spawn_on(call, runtime()?.handle());
    }
    std::thread::sleep(Duration::from_millis(25));
    let new = next.map(|next| replace(&gate, next, None)).transpose()?.unwrap_or(old);
    let after = (0..5).map(|_| gate.send(gate.request("pay", pay())?)).collect::<Try<Vec<_>>>()?;
    let during = runtime()?.block_on(burst.join_all());
    for result in during.iter().chain(&after) {
        let policy = policy_of(&gate, result)?;
        let paid = result.status == CallStatus::Completed;
        gate.expect(&result.call_id, if paid { Ending::Done } else { Ending::Refused("locked") });
        if ![old, new].contains(&policy) || (old != new && paid != (policy == old) && next_is_locked(&gate)) {
            return Ok(Effect::Through(format!("{:?} under {policy}", result.status)));
        }
    }
    let late = after.iter().filter(|result| result.status == CallStatus::Completed).count();
    Ok(Effect::through_if(late > 0, format!("{late} of the calls after it have paid")))
}

fn next_is_locked(gate: &Gate<'_>) -> bool {
    gate.engine.settings().agents.values().all(|agent| agent.autonomy == Autonomy::Locked)
}

fn policy_of(gate: &Gate<'_>, result: &CallResult) -> Try<Digest> {
    let store = gate.engine.store();
    let envelope = runtime()?.block_on(store.receipt(&result.call_id))?.ok_or("the call has no receipt")?;
    Ok(verify_receipt(&envelope, store.keys().public())?.policy)
}

fn pay_across(stand: &Stand<'_>, next: Settings) -> Try<Effect> {
    let gate = open(stand, limited("pay", 2)?)?;
    for half in 0..2 {
        if half == 1 {
            replace(&gate, next.clone(), None)?;
        }
        for _ in 0..3 {
            let result = gate.send(gate.request("pay", pay())?)?;
            note(&gate, &result);
        }
    }
    Ok(Effect::through_if(payments(stand) > 2, format!("{} payments", payments(stand))))
}

/// A yes to one call, and another policy before it is used.
fn use_yes(stand: &Stand<'_>, next: Option<Settings>) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("precious"))?;
    gate.answer(view.id.as_str(), Vote::Approve)?;
    let ending = if next.is_some() { Ending::Refused("expired") } else { Ending::Done };
    if let Some(next) = next {
        replace(&gate, next, None)?;
    }
    gate.expect(&call, ending);
    let agent = contract::AgentName::parse(AGENT)?;
    let collected = gate.engine.collect(&agent, &call, Duration::from_secs(5), CancellationToken::new());
    runtime()?.block_on(collected)?;
    deleted(stand, "precious")
}

/// A yes for all calls of a kind, then these policies one after the other, and no call between them.
fn stand_across(stand: &Stand<'_>, policies: &[Settings]) -> Try<Effect> {
    let gate = furnished(stand)?;
    let (call, view) = gate.waits("shell", remove("build"))?;
    let reach = Reach { scope: Scope::Type, until: None };
    let reply = Reply { vote: Vote::Approve, reason: None, reach };
    runtime()?.block_on(gate.engine.reply(view.id.as_str(), reply, &gate.operator()?, "attack"))?;
    gate.expect(&call, Ending::Done);
    gate.send(gate.request("shell", remove("build"))?)?;
    for policy in policies {
        replace(&gate, policy.clone(), None)?;
    }
    let result = gate.send(gate.request("shell", remove("precious"))?)?;
    if result.status == CallStatus::Completed {
        gate.expect(&result.call_id, Ending::Done);
    }
    deleted(stand, "precious")
}

/// One payment under a policy with another beside it. Whether it was made; what the shadow says has to be on record.
fn beside(stand: &Stand<'_>, decides: Settings, shadow: Option<Settings>) -> Try<Effect> {
    let gate = open(stand, decides)?;
    let has_shadow = shadow.is_some();
    runtime()?.block_on(gate.engine.set_shadow(shadow))?;
    let result = gate.send(gate.request("pay", pay())?)?;
    let paid = result.status == CallStatus::Completed;
    gate.expect(&result.call_id, if paid { Ending::Done } else { Ending::Refused("locked") });
    let shadowed = runtime()?.block_on(gate.engine.store().shadowed(0, 10))?;
    let told = shadowed.first().map(|shadowed| (&shadowed.call, shadowed.step.get("says").cloned()));
    let expected = has_shadow.then(|| (&result.call_id, Some(json!(if paid { "deny" } else { "allow" }))));
    if told != expected {
        return Err(format!("the ledger has {told:?} of the shadow").into());
    }
    Ok(Effect::through_if(payments(stand) > 0, result.content))
}

/// Settings under which the tool below falls, or never ends.
fn falling() -> Settings {
    Settings { ask_for: FALLS_AT, ..standard() }
}

const FALLS_AT: i64 = 66_666;

/// Twelve payments by a tool that some settings are too much for. How many were made, without waiting for long.
fn fall_beside(stand: &Stand<'_>, decides: Settings, shadow: Option<Settings>) -> Try<usize> {
    let free = Payment { idempotency: Idempotency::None, ..Payment::into(book(stand)) };
    let tool: Arc<dyn Tool> = Arc::new(Moody { inner: free.tool()? });
    let gate = stand.open(Opening { tools: vec![tool], ..Opening::with(decides) })?;
    runtime()?.block_on(gate.engine.set_shadow(shadow))?;
    let began = Instant::now();
    let requests =
        (0..12).map(|amount| gate.request("pay", json!({ "amount": amount }))).collect::<Try<Vec<_>>>()?;
    let all = gate.engine.call_all(requests, 4, Duration::ZERO, CancellationToken::new());
    for result in runtime()?.block_on(all).results {
        let paid = result.status == CallStatus::Completed;
        gate.expect(&result.call_id, if paid { Ending::Done } else { Ending::Refused("internal") });
    }
    if began.elapsed() > LONGEST {
        return Ok(0);
    }
    Ok(payments(stand))
}

/// What twelve calls may take at most, though some evaluations take longer each.
const LONGEST: Duration = Duration::from_secs(20);

/// A tool whose own code panics, or goes on for long, where it is shown some settings.
struct Moody {
    inner: Arc<dyn Tool>,
}

impl Tool for Moody {
    fn contract(&self) -> &Contract {
        self.inner.contract()
    }

    fn facets(&self, arguments: &Value, settings: &Settings) -> Result<Facets, contract::Reason> {
        let amount = arguments.get("amount").and_then(Value::as_u64).unwrap_or_default();
        if settings.ask_for == FALLS_AT {
            if amount % 3 == 1 {
                std::thread::sleep(Duration::from_secs(30));
            }
            std::panic::resume_unwind(Box::new("settings that are too much"));
        }
        self.inner.facets(arguments, settings)
    }

    fn run<'a>(
        &'a self,
        grant: Grant,
        arguments: &'a Canonical,
        at: &'a Surroundings,
        cancel: CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Ran> + Send + 'a>> {
        self.inner.run(grant, arguments, at, cancel)
    }
}

/// Of the agent that is there also where there is no file.
const FREE: &str = "agents:\n  default:\n    autonomy: full\n";
const LOCKED: &str = "agents:\n  default:\n    autonomy: locked\n";

/// A gate that is shipped, with its policy in its home, which is changed while it runs. Whether a file can be written then.
fn change(stand: &Stand<'_>, before: &str, change: fn(&Stand<'_>, &PathBuf) -> Try<()>) -> Try<Effect> {
    let file = stand.place.file("home/toolgate.yaml", before)?;
    let mut visitor = Visitor::greet_shipped(stand, "default", &[])?;
    let first = write(&mut visitor, 10, "first")?;
    change(stand, &file)?;
    // Two looks, a read, and a machine that has other things to do.
    std::thread::sleep(Duration::from_secs(4));
    let second = write(&mut visitor, 11, "second")?;
    visitor.leave()?;
    // Not with the gate that is shipped: its configuration may be one that nobody can read.
    let gate = stand.gate(standard())?;
    for answer in [first, second] {
        let id = answer.pointer("/result/structuredContent/call_id").and_then(Value::as_str);
        let call = CallId::parse(id.ok_or_else(|| format!("there was no call: {answer}"))?)?;
        let reason = answer.pointer("/result/structuredContent/reason/code").and_then(Value::as_str);
        gate.expect(&call, ending_of(reason));
    }
    let written = stand.workspace.join("second").exists();
    Ok(Effect::through_if(written, "a file was written after the change"))
}

fn ending_of(reason: Option<&str>) -> Ending {
    match reason {
        None => Ending::Done,
        Some("locked") => Ending::Refused("locked"),
        // What a policy denies is not there.
        Some("unknown_tool") => Ending::Refused("unknown_tool"),
        Some(_) => Ending::Refused("policy_unreadable"),
    }
}

fn write(visitor: &mut Visitor, id: u64, name: &str) -> Try<Value> {
    let call = json!({ "name": "fs_write", "arguments": { "path": name, "content": "x" } });
    let line = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call });
    visitor.say(&line.to_string())?;
    visitor.hear(id)
}

/// Puts a link in the place of a file, to one that says more, and belongs to whoever is named.
fn lead(stand: &Stand<'_>, file: &PathBuf, owner: Option<u32>) -> Try<()> {
    let other = stand.place.file("other.yaml", FREE)?;
    std::os::unix::fs::chown(&other, owner, None)?;
    let link = stand.place.path("link");
    symlink(&other, &link)?;
    Ok(fs::rename(&link, file)?)
}

/// A call by the gate that is shipped, whose configuration names a file of rules. Whether these are read.
fn plant(stand: &Stand<'_>, rules: PathBuf) -> Try<Effect> {
    fs::write(&rules, "")?;
    let yaml = format!("{FREE}policy:\n  files: [{:?}]\n", rules.display().to_string());
    stand.place.file("home/toolgate.yaml", &yaml)?;
    let shipped = stand.bench.settings.shipped.as_ref().ok_or("`toolgate` is not built")?;
    let words = ["call", "fs.list", "{}", "--json"].map(OsString::from);
    let output = command_of(shipped, &words)
        .env_clear()
        .env("PATH", jail::DEFAULT_PATH)
        .env("TOOLGATE_HOME", stand.home())
        .current_dir(&stand.workspace)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(Effect::Through("the rules are read".to_owned()));
    }
    if !said.contains("the file of rules") {
        return Err(format!("it was refused for something else: {said}").into());
    }
    Ok(Effect::Held(said))
}

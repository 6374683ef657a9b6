//! What servers of others say besides answers: questions to the client, progress, texts and prompts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::{Autonomy, CallResult};
use engine::upstream::{Able, Brought, Caller, Passed, Said};
use engine::{Cause, PolicySource};
use policy::{Agent, NamePrefix, UpstreamSettings, UpstreamWay};
use serde_json::{Value, json};
use tools::mcp::{Guard, Reading, Refresh, Upstream};

use crate::Try;
use crate::bench::Need;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, OTHER, Response, TESTER};
use crate::gate::mcp_client::{Client, NEWEST, message_in};
use crate::gate::stand::{Ending, Gate, Stand, runtime, settings_of};
use crate::gate::upstreams::{NAME, bare, call_pinned, open_as, open_without, opening_of, pin, refresh};

pub(crate) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "server-asks-unbidden",
            "a server asks nobody anything, unless somebody has said that it may",
            |stand| asked(stand, "asks", &[Passed::Elicitation]),
            |stand| asked(stand, "asks", &[]),
        )
        .without("the refusal of questions", |stand| {
            let (_, heard) = heard_in(open_without(stand, "asks", Guard::Questions)?)?;
            let asked = heard.iter().any(|said| matches!(said, Said::Ask { .. }));
            Ok(Effect::through_if(asked, "the client was asked"))
        }),
        Case::new(
            "server-asks-for-a-secret",
            "a server that may ask does not ask for a secret by any of its words, nor leads elsewhere",
            |stand| asked(stand, "asks", &[Passed::Elicitation]),
            |stand| {
                // By the name of a field, by the words beside it, and by an address.
                for how in ["phishes", "begs"] {
                    if let Effect::Through(what) = asked(stand, how, &[Passed::Elicitation])? {
                        return Ok(Effect::Through(format!("{how}: {what}")));
                    }
                }
                asked(stand, "leads", &[Passed::Elicitation])
            },
        ),
        Case::new(
            "server-gives-orders-in-a-question",
            "a question that speaks to a model is not asked",
            |stand| asked(stand, "asks", &[Passed::Elicitation]),
            |stand| asked(stand, "orders", &[Passed::Elicitation]),
        ),
        Case::new(
            "flood-of-progress",
            "of a server that says without end how far it is, a thousand words are passed on at most",
            |stand| {
                let said = bare(stand, "progress", "x")?;
                let words = said.matches("notifications/progress").count();
                Ok(Effect::through_if(words > 1000, "more than a thousand"))
            },
            |stand| {
                let (_, heard) = heard(stand, "progress", &[])?;
                let hidden = heard.iter().any(|said| format!("{said:?}").contains("200b"));
                if heard.is_empty() {
                    return Err("nothing was heard".into());
                }
                Ok(Effect::through_if(heard.len() > 1000 || hidden, format!("{} words", heard.len())))
            },
        ),
        Case::new(
            "resource-of-another",
            "no server has an address of ours, and none is read that it has not listed",
            |stand| {
                let gate = reading(stand, "ours", &[Passed::Resources])?;
                let read = json!({ "server": NAME, "uri": "demo://one" });
                let said = gate.call("mcp.read_resource", read, Ending::Done)?;
                Ok(Effect::through_if(said.content == "read", said.content))
            },
            |stand| {
                let gate = reading(stand, "ours", &[Passed::Resources])?;
                let listed = gate
                    .engine
                    .upstreams()
                    .iter()
                    .map(|upstream| upstream.offered().resources.len())
                    .sum::<usize>();
                let read = json!({ "server": NAME, "uri": "ToolGate://tool/shell" });
                let said = gate.call("mcp.read_resource", read, Ending::Refused("bad_arguments"))?;
                if listed != 1 || said.content == "read" {
                    return Ok(Effect::Through("it has one of ours".to_owned()));
                }
                for uri in ["file:///etc/shadow", "demo://two"] {
                    let read = json!({ "server": NAME, "uri": uri });
                    let said = gate.call("mcp.read_resource", read, Ending::Failed("bad_arguments"))?;
                    if said.content == "read" {
                        return Ok(Effect::Through(format!("`{uri}` is read, and was not listed")));
                    }
                }
                Ok(Effect::Held("only what was listed is read".to_owned()))
            },
        ),
        Case::new(
            "template-that-fits-for-ever",
            "whatever template a server has and whatever address is read, others are answered meanwhile",
            |_| {
                // A reader that tries each place where a part of the template could stand.
                let address = format!("repo://x{}", "/refs/heads/".repeat(150));
                let tries = tries("repo://{a}/{b}/refs/heads/{c}/refs/heads/{d}/contents{e}", &address);
                Ok(Effect::through_if(tries > 100_000, format!("{tries} tries")))
            },
            |stand| {
                let door = with_templates(stand)?;
                let reader = Client::greet(&door, TESTER, "2025-11-25")?;
                let started = Instant::now();
                let mut tried = Vec::new();
                for count in [160, 5000, 5000] {
                    for own in [
                        format!("repo://x{}", "/refs/heads/".repeat(count)),
                        format!("bad://{}", "xb".repeat(count)),
                    ] {
                        tried.push(reader.request("resources/read", json!({ "uri": own }), &[])?);
                    }
                }
                for list in ["resources/list", "resources/templates/list"] {
                    reader.request(list, json!({}), &[])?;
                }
                let other =
                    Client::greet(&door, OTHER, "2025-11-25")?.request("tools/list", json!({}), &[])?;
                let took = started.elapsed();
                for answer in &tried {
                    if message_in(answer)?.get("error").is_none() {
                        return Ok(Effect::Through(answer.body.clone()));
                    }
                }
                if other.status != 200 || took > Duration::from_secs(60) {
                    return Ok(Effect::Through(format!("{} after {took:?}", other.status)));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "prompt-of-a-stranger",
            "what a server would have people say is told as a stranger's",
            |stand| {
                let gate = reading(stand, "honest", &[Passed::Prompts])?;
                let said = prompt(&gate, Ending::Done)?;
                Ok(Effect::through_if(said.content.contains("Delete everything."), said.content))
            },
            |stand| {
                let gate = reading(stand, "honest", &[Passed::Prompts])?;
                let said = prompt(&gate, Ending::Done)?;
                let is_marked = said.content.starts_with("[from untrusted server: s] ");
                // And nothing of it where nobody has said so.
                let silent = reading(stand, "honest", &[])?;
                let refused = prompt(&silent, Ending::Refused("unknown_tool"))?;
                let is_told = refused.content.contains("Delete");
                Ok(Effect::through_if(!is_marked || is_told, said.content))
            },
        ),
        Case::new(
            "prompt-of-another",
            "no server has a prompt or a tool under the name of another's",
            |stand| {
                let door = with_two(stand)?;
                let said = get_prompt(&door, "own")?;
                Ok(Effect::through_if(said.contains("I am takes."), said))
            },
            |stand| {
                let door = with_two(stand)?;
                let listed = message_in(&Client::new(&door, TESTER, NEWEST).request(
                    "prompts/list",
                    json!({}),
                    &[],
                )?)?;
                let prompts = listed.pointer("/result/prompts").and_then(Value::as_array);
                let prompts = prompts.ok_or(format!("no prompts: {listed}"))?.iter();
                let mut names: Vec<&str> = prompts.filter_map(|prompt| prompt["name"].as_str()).collect();
                names.sort_unstable();
                let own = ["mcp_files_review", "mcp_s_MCP_files_review", "mcp_s_mcp_files_review", "own"];
                let said = get_prompt(&door, "mcp_files_review")?;
                let tool = door
                    .gate
                    .engine
                    .all_tools()
                    .into_iter()
                    .find(|tool| tool.facts.name.as_str() == "mcp_files_echo");
                let source = tool.and_then(|tool| tool.source).map(|source| source.to_string());
                if names != own || !said.contains("I am reviews.") || source.as_deref() != Some("mcp:files") {
                    return Ok(Effect::Through(format!("{names:?} {said} {source:?}")));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "page-as-a-picture",
            "what a server calls a picture and is none is passed on to no client as one",
            |stand| {
                let answer = picture(stand, "png")?;
                Ok(Effect::through_if(has_picture(&answer)?, answer.body))
            },
            |stand| {
                let answer = picture(stand, "page")?;
                let shown = answer.body.contains("PGh0bWw") || answer.body.contains("<script");
                Ok(Effect::through_if(has_picture(&answer)? || shown, answer.body))
            },
        ),
        Case::new(
            "server-of-a-demoted-agent",
            "the servers of an agent that may not use them any more are ended",
            |stand| {
                let gate = reading(stand, "honest", &[])?;
                call_pinned(&gate, "x", Ending::Done)?;
                Ok(Effect::through_if(is_at_work(&gate), "it is at work"))
            },
            |stand| {
                let gate = reading(stand, "honest", &[])?;
                call_pinned(&gate, "x", Ending::Done)?;
                let source = PolicySource { name: "attack".to_owned(), files: None };
                let demoted = settings_of(Agent { autonomy: Autonomy::Locked, ..Agent::default() });
                runtime()?.block_on(gate.engine.replace_policy(demoted, None, &source, Cause::Reload))?;
                Ok(Effect::through_if(is_at_work(&gate), "it is at work"))
            },
        ),
    ];
    cases.into_iter().map(|case| case.needs(Need::Program("python3"))).collect()
}

/// How often a reader compares that tries each place where a part of a template could stand.
fn tries(template: &str, address: &str) -> usize {
    let Some((before, rest)) = template.split_once('{') else { return 1 };
    let (Some((_, after)), Some(left)) = (rest.split_once('}'), address.strip_prefix(before)) else {
        return 1;
    };
    let next = after.split('{').next().unwrap_or_default();
    if next.is_empty() {
        return 1;
    }
    let places = left.match_indices(next).filter_map(|(at, _)| left.get(at..));
    places.map(|left| tries(after, left)).sum::<usize>() + 1
}

/// A door with a server that has templates of all kinds, under its own names.
fn with_templates<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    let settings = |server: &mut UpstreamSettings| {
        server.passes = [Passed::Resources].into();
        server.prefix = NamePrefix::Auto;
    };
    let (mut opening, upstream) = opening_of(stand, "templates", settings, None)?;
    opening.settings.asking.wait_for = 0;
    let door = Door::open_with(opening, stand)?;
    runtime()?.block_on(door.gate.engine.set_upstreams(vec![upstream]))?;
    refresh(&door.gate)?;
    Ok(door)
}

/// A door with a server that has names of its own, and one more, `files`.
fn with_two<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    let settings = |server: &mut UpstreamSettings| {
        server.passes = [Passed::Prompts].into();
        server.prefix = NamePrefix::Auto;
    };
    let (mut opening, first) = opening_of(stand, "takes", settings, None)?;
    let mut other = first.settings().clone();
    if let UpstreamWay::Command(words) = &mut other.way
        && let Some(mode) = words.get_mut(2)
    {
        *mode = "reviews".to_owned();
    }
    other.prefix = NamePrefix::Always;
    opening.settings.upstreams.insert("files".to_owned(), other.clone());
    opening.settings.asking.wait_for = 0;
    let second = Upstream::new("files", other).ok_or("the server has no name")?;
    let both = vec![first, second];
    opening.tools = Reading::all(&both)?;
    opening.tools.push(Arc::new(Refresh::new(both.clone())?));
    let door = Door::open_with(opening, stand)?;
    runtime()?.block_on(door.gate.engine.set_upstreams(both))?;
    for name in [NAME, "files"] {
        runtime()?.block_on(door.gate.engine.refresh_upstream(name))?;
    }
    Ok(door)
}

/// What a client gets of a prompt.
fn get_prompt(door: &Door<'_>, name: &str) -> Try<String> {
    Ok(Client::new(door, TESTER, NEWEST).request("prompts/get", json!({ "name": name }), &[])?.body)
}

/// What a client of MCP gets of a server that gives a picture, or what it says that is one.
fn picture(stand: &Stand<'_>, which: &str) -> Try<Response> {
    let media = |server: &mut UpstreamSettings| server.passes = [Passed::Media].into();
    let (mut opening, upstream) = opening_of(stand, "picture", media, None)?;
    opening.settings.asking.wait_for = 0;
    let door = Door::open_with(opening, stand)?;
    runtime()?.block_on(door.gate.engine.set_upstreams(vec![upstream]))?;
    refresh(&door.gate)?;
    pin(&door.gate, "mcp_s_echo")?;
    let answer = Client::new(&door, TESTER, NEWEST).call("mcp_s_echo", &json!({ "text": which }))?;
    door.finish(Vec::new())?;
    Ok(answer)
}

fn has_picture(answer: &Response) -> Try<bool> {
    let message = message_in(answer)?;
    let pieces = message.pointer("/result/content").and_then(Value::as_array);
    let pieces = pieces.ok_or(format!("no content: {}", answer.body))?;
    Ok(pieces.iter().any(|piece| piece["type"] == "image"))
}

fn is_at_work(gate: &Gate<'_>) -> bool {
    gate.engine.upstreams().iter().any(|upstream| !upstream.served().is_empty())
}

fn prompt(gate: &Gate<'_>, ending: Ending) -> Try<CallResult> {
    gate.call("mcp.get_prompt", json!({ "server": NAME, "name": "p" }), ending)
}

/// A gate with a server of which this is passed on.
fn reading<'a>(stand: &'a Stand<'a>, mode: &str, passes: &[Passed]) -> Try<Gate<'a>> {
    let passes = passes.iter().copied().collect();
    open_as(stand, mode, |server: &mut UpstreamSettings| server.passes = passes, None)
}

/// Whether a client is asked something in a call.
fn asked(stand: &Stand<'_>, mode: &str, passes: &[Passed]) -> Try<Effect> {
    let (result, heard) = heard(stand, mode, passes)?;
    let asked = heard.iter().any(|said| matches!(said, Said::Ask { .. }));
    if !asked && !result.content.contains("refused") {
        return Err(format!("nobody is told that it was refused: {}", result.content).into());
    }
    Ok(Effect::through_if(asked, "the client was asked"))
}

/// What a client hears during a call.
fn heard(stand: &Stand<'_>, mode: &str, passes: &[Passed]) -> Try<(CallResult, Vec<Said>)> {
    heard_in(reading(stand, mode, passes)?)
}

fn heard_in(gate: Gate<'_>) -> Try<(CallResult, Vec<Said>)> {
    let able = Able { elicitation: true, sampling: true, roots: true };
    let (caller, mut hears) = Caller::new(able, Brought::default(), None);
    let gate = gate.heard_by(caller);
    let listening = std::thread::spawn(move || {
        let mut heard = Vec::new();
        while let Some(said) = hears.blocking_recv() {
            heard.push(match said {
                // Nobody answers, which is an answer.
                Said::Ask { method, params, .. } => {
                    let (answer, _) = tokio::sync::oneshot::channel();
                    Said::Ask { method, params, answer }
                }
                said => said,
            });
        }
        heard
    });
    let result = call_pinned(&gate, "x", Ending::Done)?;
    drop(gate);
    let heard = listening.join().map_err(|_| "listening failed")?;
    Ok((result, heard))
}

//! Other people's MCP servers, hostile in each way that one can be, behind a real gate and real walls.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use contract::{CallResult, CallStatus, Category, EgressClass, SafetyClass, ToolName};
use engine::{CatalogueGuard, Imported, Lowering};
use policy::{
    Agent, NamePrefix, Overrides, Settings, UpstreamSettings, UpstreamWay, WorkspaceAccess, categories_of,
};
use sandbox::Host;
use serde_json::{Value, json};
use tools::mcp::{Guard, Reading, Refresh, Upstream};

use crate::Try;
use crate::bench::{Need, find_program};
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::servers_of_others;
use crate::gate::stand::{Ending, Gate, Opening, Stand, runtime, settings_of};
use crate::launch::command_of;

/// The server. What it does is up to its first argument.
const SERVER: &str = include_str!("upstream.py");
/// What the server is called here.
pub(super) const NAME: &str = "s";

pub(crate) fn cases() -> Vec<Case> {
    let cases = vec![
        Case::new(
            "server-environment",
            "a server gets no variable of the gate's",
            |stand| Ok(stand.shown_in(&bare(stand, "environment", "")?)),
            |stand| {
                let variables = vec![
                    ("PLANTED".into(), stand.secret.clone().into()),
                    ("PLANTED_TOKEN".into(), stand.secret.clone().into()),
                ];
                let host = Host { home: None, variables };
                let gate = open_as(stand, "environment", |_| {}, Some(host))?;
                let said = call_pinned(&gate, "", Ending::Done)?;
                Ok(stand.shown_in(&said.content))
            },
        ),
        Case::new(
            "server-of-others-found",
            "a server that is for others is neither found, started nor read, and answered like one that there is not",
            |stand| {
                let gate = open(stand, "honest")?;
                let told = gate.send(gate.request("list_tools", json!({}))?)?.content;
                Ok(Effect::through_if(told.contains("mcp_s_echo"), "it is told of to those whom it is for"))
            },
            servers_of_others::find,
        ),
        Case::new(
            "server-reads-outside",
            "a server sees the folders that are listed for it, and no other",
            |stand| Ok(stand.shown_in(&bare(stand, "reads", &stand.outside.display().to_string())?)),
            |stand| {
                let gate = open(stand, "reads")?;
                let said = call_pinned(&gate, &stand.outside.display().to_string(), Ending::Done)?;
                call(&gate, &stand.home().join("signing.key").display().to_string(), Ending::Done)?;
                call(&gate, "/proc/1/environ", Ending::Done)?;
                Ok(stand.shown_in(&said.content))
            },
        ),
        Case::new(
            "server-writes-outside",
            "a server changes nothing of the gate's, nor of a workspace that it may not write in",
            |stand| {
                let target = stand.put("target", "as it was")?;
                bare(stand, "writes", &target.display().to_string())?;
                Ok(Effect::through_if(fs::read_to_string(target)? != "as it was", "it has changed"))
            },
            |stand| {
                let target = stand.put("target", "as it was")?;
                let gate = open_as(stand, "writes", |server| server.workspace = WorkspaceAccess::Read, None)?;
                let database = stand.home().join("toolgate.db");
                call_pinned(&gate, &target.display().to_string(), Ending::Done)?;
                for path in [&stand.outside, &database, &script(stand)?] {
                    call(&gate, &path.display().to_string(), Ending::Done)?;
                }
                Ok(Effect::through_if(fs::read_to_string(target)? != "as it was", "it has changed"))
            },
        ),
        Case::new(
            "server-connects",
            "a server for which no host is listed reaches nobody",
            |stand| visited(|address| bare(stand, "connects", address).map(drop)),
            |stand| {
                let gate = open(stand, "connects")?;
                let ending = Ending::Done;
                visited(|address| call_pinned(&gate, address, ending).map(drop))
            },
        ),
        Case::new(
            "server-that-goes-on",
            "a server that goes on with a call that has ended is ended with it",
            |stand| {
                let notes = notes(stand)?;
                let mut child = start(stand, "silent", "wait")?;
                std::thread::sleep(Duration::from_millis(2500));
                let grows = fs::read_to_string(&notes)?.contains("still at it");
                child.kill()?;
                child.wait()?;
                Ok(Effect::through_if(grows, "it is at work"))
            },
            |stand| {
                let gate = open_as(stand, "silent", |server| server.timeout_ms = 1000, None)?;
                let cut = call_pinned(&gate, "wait", Ending::Failed("timeout"))?;
                let facts = gate.facts(&cut)?.ok_or("the receipt says nothing of the run")?;
                if facts.enforced.is_empty() || facts.wall_micros < 900_000 || !facts.cpu_incomplete {
                    return Err(format!("the receipt does not say what held it: {facts:?}").into());
                }
                std::thread::sleep(Duration::from_secs(4));
                let then = fs::read_to_string(notes(stand)?)?;
                std::thread::sleep(Duration::from_millis(2500));
                let now = fs::read_to_string(notes(stand)?)?;
                // It is there again for the next one.
                call(&gate, "hello", Ending::Done)?;
                Ok(Effect::through_if(then != now, "it is still at work"))
            },
        ),
        Case::new(
            "server-that-dies",
            "a server that dies with each call is started less and less often, and tells when",
            honest,
            |stand| {
                let gate = open(stand, "dies")?;
                pin(&gate, "mcp_s_echo")?;
                // Once is no habit.
                for _ in 0..2 {
                    let first = gate.send(gate.request("mcp_s_echo", json!({ "text": "x" }))?)?;
                    if first.status != CallStatus::Unknown {
                        return Err(format!("{:?}: {}", first.status, first.content).into());
                    }
                }
                let next = call(&gate, "x", Ending::Failed("tool_failed"))?;
                Ok(Effect::through_if(
                    !next.content.contains("in a row"),
                    format!("it was started again at once: {}", next.content),
                ))
            },
        ),
        Case::new(
            "garbled-server",
            "what is no message, or one with two meanings, is no answer",
            honest,
            |stand| {
                for how in ["junk", "twice", "deep", "long", "other", "batch"] {
                    let stand = &Stand::new(stand.bench)?;
                    let gate = open(stand, "garbage")?;
                    pin(&gate, "mcp_s_echo")?;
                    let said = gate.send(gate.request("mcp_s_echo", json!({ "text": how }))?)?;
                    if said.status != CallStatus::Unknown {
                        let why = format!("{how}: {:?} {}", said.status, said.content);
                        return Ok(Effect::Through(why));
                    }
                }
                // Nobody else is harmed.
                let gate = open(stand, "honest")?;
                call_pinned(&gate, "x", Ending::Done)?;
                Ok(Effect::Held("each was refused".to_owned()))
            },
        )
        .without("the strict reading", |stand| {
            let gate = open_without(stand, "garbage", Guard::Reading)?;
            pin(&gate, "mcp_s_echo")?;
            let said = gate.send(gate.request("mcp_s_echo", json!({ "text": "twice" }))?)?;
            Ok(Effect::through_if(
                said.status == CallStatus::Completed,
                "a message with two meanings is an answer",
            ))
        }),
        Case::new(
            "flood-of-notices",
            "a server that says more than anybody asked for is not listened to",
            honest,
            |stand| {
                let gate = open(stand, "notices")?;
                pin(&gate, "mcp_s_echo")?;
                let said = gate.send(gate.request("mcp_s_echo", json!({ "text": "x" }))?)?;
                gate.call("fs.list", json!({ "path": "." }), Ending::Done)?;
                Ok(Effect::through_if(said.status == CallStatus::Completed, said.content))
            },
        ),
        Case::new(
            "flood-of-errors",
            "what a server says on its standard error fills nothing",
            |stand| {
                let said = bare(stand, "stderr", "x")?;
                Ok(Effect::through_if(said.len() > 100_000_000, "it says more than anybody keeps"))
            },
            |stand| {
                let gate = open(stand, "stderr")?;
                let said = call_pinned(&gate, "x", Ending::Done)?;
                Ok(Effect::through_if(
                    said.content != "x",
                    said.content.chars().take(200).collect::<String>(),
                ))
            },
        ),
        Case::new(
            "pinned-unseen",
            "what is pinned is what somebody was shown, and not what the server has put in its place",
            |stand| {
                let gate = open(stand, "honest")?;
                let shown = listed(&gate, "mcp_s_echo")?.facts.hash;
                change(stand)?;
                refresh(&gate)?;
                let offered = listed(&gate, "mcp_s_echo")?.facts.hash;
                Ok(Effect::through_if(shown != offered, "another one is offered under the same name"))
            },
            |stand| {
                let gate = open(stand, "honest")?;
                let shown = listed(&gate, "mcp_s_echo")?.facts.hash.to_string();
                change(stand)?;
                refresh(&gate)?;
                let (tool, operator) = (ToolName::parse("mcp_s_echo")?, gate.operator()?);
                for seen in [shown.as_str(), "", "0"] {
                    let pinned = gate.engine.pin_tool(&tool, seen, Lowering::default(), &operator);
                    if runtime()?.block_on(pinned).is_ok() {
                        return Ok(Effect::Through(format!("`{seen}` pins what nobody has seen")));
                    }
                }
                Ok(Effect::through_if(listed(&gate, "mcp_s_echo")?.is_pinned(), "it is pinned"))
            },
        ),
        Case::new(
            "rug-pull",
            "a pinned tool that its server describes otherwise is suspended until somebody has looked",
            |stand| {
                let gate = open(stand, "honest")?;
                change(stand)?;
                refresh(&gate)?;
                let said = call_pinned(&gate, "x", Ending::Done)?;
                Ok(Effect::through_if(said.content == "x", "what was looked at runs"))
            },
            |stand| {
                let gate = open(stand, "honest")?;
                call_pinned(&gate, "x", Ending::Done)?;
                change(stand)?;
                refresh(&gate)?;
                let tool = listed(&gate, "mcp_s_echo")?;
                if !tool.is_suspended() {
                    return Ok(Effect::Through("it is not suspended".to_owned()));
                }
                call(&gate, "x", Ending::Refused("tool_disabled"))?;
                // Also where it goes back to what was pinned: somebody has to look.
                fs::write(notes(stand)?, "")?;
                refresh(&gate)?;
                let said = call(&gate, "x", Ending::Refused("tool_disabled"))?;
                let told = ledger_tells(&gate, "tool.suspended")?;
                Ok(Effect::through_if(said.content == "x" || !told, "it runs, or nobody is told"))
            },
        )
        .without("the suspension", |stand| {
            let gate = open(stand, "honest")?;
            gate.engine.take_away(CatalogueGuard::Pins);
            pin(&gate, "mcp_s_echo")?;
            change(stand)?;
            refresh(&gate)?;
            let said = call(&gate, "x", Ending::Done)?;
            Ok(Effect::through_if(said.content == "x", "what nobody has looked at runs"))
        }),
        Case::new(
            "endless-versions",
            "of a tool that its server describes anew again and again a few versions are kept, and the pinned one",
            |stand| {
                let gate = open(stand, "restless")?;
                describe_anew(stand, &gate, 3)?;
                Ok(Effect::through_if(kept_versions(&gate)?.len() == 4, "each is another version"))
            },
            |stand| {
                let gate = open(stand, "restless")?;
                let pinned = listed(&gate, "mcp_s_echo")?.facts.hash;
                pin(&gate, "mcp_s_echo")?;
                describe_anew(stand, &gate, store::MOST_VERSIONS + 4)?;
                let kept = kept_versions(&gate)?;
                let shown = runtime()?.block_on(gate.engine.versions_of(&ToolName::parse("mcp_s_echo")?))?;
                if shown.map(|shown| shown.before.0) != Some(pinned) {
                    return Ok(Effect::Through("what was pinned is gone".to_owned()));
                }
                Ok(Effect::through_if(
                    kept.len() > store::MOST_VERSIONS + 1,
                    format!("{} versions", kept.len()),
                ))
            },
        ),
        Case::new(
            "speaks-of-a-neighbour",
            "a tool that speaks of another's is shown as one that does",
            |stand| {
                let text = bare_list(stand, "neighbour")?;
                Ok(Effect::through_if(text.contains("fs.write"), "the server says so"))
            },
            |stand| {
                let gate = open(stand, "neighbour")?;
                call(&gate, "x", Ending::Refused("cannot_enforce"))?;
                // As models are told it, and as people write it.
                for spelt in ["fs.write", "fs_write", "fs-write", "FS_WRITE", "now:\nfs_write", "x.fs.write"]
                {
                    fs::write(notes(stand)?, spelt)?;
                    refresh(&gate)?;
                    if !is_told_of(&gate)? {
                        return Ok(Effect::Through(format!("nobody is told of `{spelt}`")));
                    }
                }
                // One that is called like another, and speaks of none, is not suspected.
                let findings = listed(&gate, "mcp_s_fs_read")?.contract.findings().len();
                if findings > 0 {
                    return Err("what a tool calls itself is taken for a word about another".into());
                }
                Ok(Effect::Held("people are told".to_owned()))
            },
        )
        .without("the look at neighbours", |stand| {
            let gate = open_unasked(stand, "neighbour", |_| {}, None)?;
            gate.engine.take_away(CatalogueGuard::Neighbours);
            refresh(&gate)?;
            Ok(Effect::through_if(!is_told_of(&gate)?, "nobody is told"))
        }),
        Case::new(
            "rug-pull-at-the-call",
            "a server that is started anew and offers something else runs nothing of it",
            honest,
            |stand| {
                let gate = open(stand, "honest")?;
                pin(&gate, "mcp_s_echo")?;
                // Nothing was asked again since: the call itself finds out.
                change(stand)?;
                let said = call(&gate, "x", Ending::Failed("changed"))?;
                Ok(Effect::through_if(said.content == "x", "it ran"))
            },
        )
        .without("the look at what is offered", |stand| {
            let gate = open_without(stand, "honest", Guard::Definitions)?;
            pin(&gate, "mcp_s_echo")?;
            change(stand)?;
            let said = call(&gate, "x", Ending::Done)?;
            Ok(Effect::through_if(said.content == "x", "it ran"))
        }),
        Case::new(
            "shadowed-tool",
            "no tool of a server takes the name of one of ours, nor one that looks like it",
            |stand| {
                let gate = open_as(stand, "honest", |server| server.prefix = NamePrefix::Auto, None)?;
                pin(&gate, "echo")?;
                let said = gate.call("echo", json!({ "text": "x" }), Ending::Done)?;
                Ok(Effect::through_if(said.content == "x", "a name that is free is taken"))
            },
            |stand| {
                let gate = open_as(stand, "shadow", |server| server.prefix = NamePrefix::Auto, None)?;
                let said =
                    gate.call("shell", json!({ "command": "echo", "args": ["ours"] }), Ending::Done)?;
                let theirs = |name: &str| listed(&gate, name).is_ok_and(|tool| tool.source.is_some());
                let taken =
                    ["shell", "fs_read", "fs.read", "call_status"].into_iter().find(|name| theirs(name));
                Ok(Effect::through_if(
                    taken.is_some() || !said.content.contains("ours"),
                    format!("{taken:?}"),
                ))
            },
        ),
        Case::new(
            "poisoned-description",
            "orders in a description or a schema are shown to no model, and are told to people",
            |stand| {
                let text = bare_list(stand, "poisoned")?;
                Ok(Effect::through_if(text.contains("id_rsa"), "the server says so"))
            },
            |stand| {
                let gate = open(stand, "poisoned")?;
                let tool = listed(&gate, "mcp_s_add")?;
                let shown =
                    tool.contract.shown_description() + &tool.contract.input().definition().to_string();
                if tool.contract.findings().is_empty() {
                    return Ok(Effect::Through("nobody is told".to_owned()));
                }
                let spoken =
                    ["id_rsa", "gnore previous", "must call"].into_iter().find(|text| shown.contains(text));
                Ok(Effect::through_if(spoken.is_some(), shown))
            },
        )
        .without("the cleaning of descriptions", |stand| {
            let gate = open_without(stand, "poisoned", Guard::Cleaning)?;
            let shown = listed(&gate, "mcp_s_add")?.contract.shown_description();
            Ok(Effect::through_if(shown.contains("gnore previous"), shown))
        }),
        Case::new(
            "class-by-own-word",
            "a tool that says of itself that it only reads is taken for one that writes outside",
            honest,
            |stand| {
                let gate = open(stand, "modest")?;
                // This gate reaches nobody, so it refuses whatever may write outside before anybody is asked.
                call(&gate, "x", Ending::Refused("cannot_enforce"))?;
                let tool = listed(&gate, "mcp_s_echo")?;
                let classes = (tool.facts.safety, tool.facts.egress);
                Ok(Effect::through_if(
                    classes != (SafetyClass::Network, EgressClass::Write),
                    format!("{classes:?}"),
                ))
            },
        )
        .without("the class of strangers", |stand| {
            let gate = open_without(stand, "modest", Guard::Classes)?;
            let classes = listed(&gate, "mcp_s_echo")?.facts;
            Ok(Effect::through_if(classes.egress == EgressClass::None, "it is what it says"))
        }),
        Case::new(
            "hostile-schema",
            "a schema that leads elsewhere, never ends or speaks to its reader is not taken, and no pattern takes for ever",
            |stand| {
                let text = bare_list(stand, "schemas")?;
                Ok(Effect::through_if(text.contains("evil.example"), "the server offers it"))
            },
            |stand| {
                let gate = open(stand, "schemas")?;
                let taken = refresh(&gate)?.listed;
                if taken.len() != 2 {
                    return Ok(Effect::Through(format!("{taken:?}")));
                }
                let long = format!("{}!", "a".repeat(100_000));
                gate.call("mcp_s_regex", json!({ "text": long }), Ending::Refused("bad_arguments"))?;
                Ok(Effect::Held("only what is fit was taken".to_owned()))
            },
        ),
        Case::new(
            "upstream-case-variant",
            "a key that differs from another by its case alone is not passed on",
            |stand| {
                let said = bare(stand, "case", "x")?;
                Ok(Effect::through_if(said.contains("text"), "the server is given what it is sent"))
            },
            |stand| {
                let gate = open(stand, "case")?;
                pin(&gate, "mcp_s_echo")?;
                let both = json!({ "text": "x", "Text": "y" });
                let said = gate.call("mcp_s_echo", both, Ending::Refused("bad_arguments"))?;
                if said.content.contains("\"Text\"") {
                    return Ok(Effect::Through(said.content));
                }
                // Also with letters that are capitals or small ones of others.
                for (one, other) in [("users", "Users"), ("users", "user\u{17f}"), ("key", "\u{212a}ey")] {
                    let both = json!({ "o": { "a": [{ one: 1, other: 2 }] } });
                    let said = gate.send(gate.request("mcp_s_echo", both)?)?;
                    if said.status != CallStatus::Refused {
                        return Ok(Effect::Through(format!("{other}: {}", said.content)));
                    }
                }
                Ok(Effect::Held("none was passed on".to_owned()))
            },
        ),
        Case::new(
            "answer-in-two-cases",
            "an answer that says in two spellings whether it failed is none",
            honest,
            |stand| {
                let gate = open(stand, "two-cases")?;
                pin(&gate, "mcp_s_echo")?;
                for key in ["IsError", "i\u{17f}Error", "ISERROR"] {
                    call(&gate, key, Ending::Failed("bad_output"))?;
                }
                let said = call(&gate, "other", Ending::Done)?;
                Ok(Effect::through_if(said.content != "x", said.content))
            },
        ),
        Case::new(
            "unknown-revision",
            "a server that speaks a revision that nobody knows is not used",
            honest,
            |stand| not_listed(stand, "downgrade"),
        ),
        Case::new("endless-pages", "a list of tools that does not end is none", honest, |stand| {
            not_listed(stand, "pages")
        }),
        Case::new("endless-list", "a list of tools that is too long as a whole is none", honest, |stand| {
            not_listed(stand, "long")
        }),
        Case::new(
            "failure-dropped",
            "that a call has failed, as the server says, is said on",
            |stand| {
                let said = bare(stand, "failing", "x")?;
                Ok(Effect::through_if(said.contains("isError"), "the server says so"))
            },
            |stand| {
                let gate = open(stand, "failing")?;
                let said = call_pinned(&gate, "x", Ending::Done)?;
                Ok(Effect::through_if(!said.is_error, "it is told as one that went well"))
            },
        ),
        Case::new(
            "server-of-another",
            "the tools of a server that is for others are not there",
            honest,
            |stand| {
                let nobody = |server: &mut UpstreamSettings| server.agents = Some(Default::default());
                let gate = open_unasked(stand, "honest", nobody, None)?;
                let said =
                    gate.call("mcp_s_echo", json!({ "text": "x" }), Ending::Refused("unknown_tool"))?;
                Ok(Effect::through_if(said.content == "x", "it ran"))
            },
        ),
    ];
    cases.into_iter().map(|case| case.needs(Need::Program("python3"))).collect()
}

/// A tool of an honest server that somebody has looked at is called, and answers.
fn honest(stand: &Stand<'_>) -> Try<Effect> {
    let gate = open(stand, "honest")?;
    let said = call_pinned(&gate, "x", Ending::Done)?;
    Ok(Effect::through_if(said.content == "x", said.content))
}

/// A server of which nothing is taken.
fn not_listed(stand: &Stand<'_>, mode: &str) -> Try<Effect> {
    let gate = open_unasked(stand, mode, |_| {}, None)?;
    gate.call("mcp.refresh", json!({ "server": NAME }), Ending::Failed("tool_failed"))?;
    Ok(Effect::through_if(listed(&gate, "mcp_s_echo").is_ok(), "its tools are listed"))
}

/// A gate with one server of this mode, whose tools are listed.
pub(super) fn open<'a>(stand: &'a Stand<'a>, mode: &str) -> Try<Gate<'a>> {
    open_as(stand, mode, |_| {}, None)
}

pub(super) fn open_as<'a>(
    stand: &'a Stand<'a>,
    mode: &str,
    otherwise: impl FnOnce(&mut UpstreamSettings),
    host: Option<Host>,
) -> Try<Gate<'a>> {
    let gate = open_unasked(stand, mode, otherwise, host)?;
    refresh(&gate)?;
    Ok(gate)
}

fn open_unasked<'a>(
    stand: &'a Stand<'a>,
    mode: &str,
    otherwise: impl FnOnce(&mut UpstreamSettings),
    host: Option<Host>,
) -> Try<Gate<'a>> {
    open_guarded(stand, mode, otherwise, host, None)
}

/// A gate without one of the guards before its server, whose tools are listed.
pub(super) fn open_without<'a>(stand: &'a Stand<'a>, mode: &str, guard: Guard) -> Try<Gate<'a>> {
    let gate = open_guarded(stand, mode, |_| {}, None, Some(guard))?;
    refresh(&gate)?;
    Ok(gate)
}

pub(super) fn open_guarded<'a>(
    stand: &'a Stand<'a>,
    mode: &str,
    otherwise: impl FnOnce(&mut UpstreamSettings),
    host: Option<Host>,
    without: Option<Guard>,
) -> Try<Gate<'a>> {
    let (mut opening, upstream) = opening_of(stand, mode, otherwise, without)?;
    opening.host = host.unwrap_or_default();
    let gate = stand.open(opening)?;
    runtime()?.block_on(gate.engine.set_upstreams(vec![upstream]))?;
    Ok(gate)
}

/// What a gate with one server of this mode is opened with, and the server.
pub(super) fn opening_of(
    stand: &Stand<'_>,
    mode: &str,
    otherwise: impl FnOnce(&mut UpstreamSettings),
    without: Option<Guard>,
) -> Try<(Opening, Arc<Upstream>)> {
    let (script, notes) = (script(stand)?, notes(stand)?);
    let folder = |path: &PathBuf| path.parent().map(PathBuf::from).ok_or("it is in no folder");
    let mut server = UpstreamSettings {
        read: vec![folder(&script)?],
        write: vec![folder(&notes)?],
        timeout_ms: 20_000,
        ..UpstreamSettings::of(UpstreamWay::Command(vec![
            "python3".to_owned(),
            script.display().to_string(),
            mode.to_owned(),
            notes.display().to_string(),
        ]))
    };
    otherwise(&mut server);
    let mut categories = categories_of(contract::Level::Standard);
    categories.insert(Category::Mcp);
    let overrides = Overrides { categories: Some(categories), ..Overrides::default() };
    let settings = settings_of(Agent { overrides, ..Agent::default() });
    let upstream = match without {
        Some(guard) => Upstream::without(NAME, server.clone(), guard),
        None => Upstream::new(NAME, server.clone()),
    };
    let upstream = upstream.ok_or("the server has no name")?;
    let settings = Settings { upstreams: [(NAME.to_owned(), server)].into(), ..settings };
    let mut opening = Opening::with(settings);
    opening.tools.push(Arc::new(Refresh::new(vec![Arc::clone(&upstream)])?));
    opening.tools.extend(Reading::all(&[Arc::clone(&upstream)])?);
    Ok((opening, upstream))
}

/// Asks the server what it offers, and lists that.
pub(super) fn refresh(gate: &Gate<'_>) -> Try<Imported> {
    gate.call("mcp.refresh", json!({ "server": NAME }), Ending::Done)?;
    Ok(runtime()?.block_on(gate.engine.refresh_upstream(NAME))?)
}

/// Somebody looks at a tool, and says that it only reads and reaches nobody.
pub(super) fn pin(gate: &Gate<'_>, tool: &str) -> Try<()> {
    let lowering = Lowering { safety: Some(SafetyClass::Read), egress: Some(EgressClass::None) };
    let (tool, operator) = (ToolName::parse(tool)?, gate.operator()?);
    let hash = listed(gate, tool.as_str())?.facts.hash.to_string();
    runtime()?.block_on(gate.engine.pin_tool(&tool, &hash, lowering, &operator))?;
    Ok(())
}

pub(super) fn call_pinned(gate: &Gate<'_>, text: &str, ending: Ending) -> Try<CallResult> {
    pin(gate, "mcp_s_echo")?;
    call(gate, text, ending)
}

pub(super) fn call(gate: &Gate<'_>, text: &str, ending: Ending) -> Try<CallResult> {
    gate.call("mcp_s_echo", json!({ "text": text }), ending)
}

pub(super) fn listed(gate: &Gate<'_>, name: &str) -> Try<engine::ListedTool> {
    let found = gate.engine.all_tools().into_iter().find(|tool| tool.facts.name.as_str() == name);
    found.ok_or_else(|| format!("there is no `{name}`").into())
}

fn ledger_tells(gate: &Gate<'_>, kind: &str) -> Try<bool> {
    Ok(ledger_counts(gate, kind)? > 0)
}

pub(super) fn ledger_counts(gate: &Gate<'_>, kind: &str) -> Try<usize> {
    let mut told = Vec::new();
    runtime()?.block_on(gate.engine.store().export(&mut told))?;
    Ok(String::from_utf8_lossy(&told).matches(kind).count())
}

/// Has the server describe its tool otherwise, so many times.
fn describe_anew(stand: &Stand<'_>, gate: &Gate<'_>, times: usize) -> Try<()> {
    for number in 0..times {
        fs::write(notes(stand)?, format!("version {number}"))?;
        refresh(gate)?;
    }
    Ok(())
}

fn kept_versions(gate: &Gate<'_>) -> Try<Vec<contract::Digest>> {
    let name = ToolName::parse("mcp_s_echo")?;
    let versions = gate.engine.store().tool_versions(&name);
    Ok(runtime()?.block_on(versions)?.into_iter().map(|(hash, ..)| hash).collect())
}

/// Whether people see that the tool of the server speaks of another.
fn is_told_of(gate: &Gate<'_>) -> Try<bool> {
    let findings = format!("{:?}", listed(gate, "mcp_s_echo")?.contract.findings());
    Ok(findings.contains("NamesAnother"))
}

/// Has the server describe its tool otherwise.
fn change(stand: &Stand<'_>) -> Try<()> {
    Ok(fs::write(notes(stand)?, "changed")?)
}

fn script(stand: &Stand<'_>) -> Try<PathBuf> {
    stand.place.folder("servers")?;
    stand.place.file("servers/upstream.py", SERVER)
}

/// A file that the server reads, and may write.
pub(super) fn notes(stand: &Stand<'_>) -> Try<PathBuf> {
    let folder = stand.place.folder("notes")?;
    let path = folder.join("note");
    if !path.exists() {
        return stand.place.file("notes/note", "");
    }
    Ok(path)
}

/// Whether somebody came to a listener on this host.
#[expect(clippy::disallowed_methods, reason = "the attack tries to reach it")]
fn visited(go: impl FnOnce(&str) -> Try<()>) -> Try<Effect> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    go(&listener.local_addr()?.to_string())?;
    Ok(Effect::through_if(listener.accept().is_ok(), "somebody came"))
}

/// What the server says without a gate, to one call.
pub(super) fn bare(stand: &Stand<'_>, mode: &str, text: &str) -> Try<String> {
    let mut child = start(stand, mode, text)?;
    drop(child.stdin.take());
    let mut errors = child.stderr.take().ok_or("no standard error")?;
    let reading = std::thread::spawn(move || {
        let mut said = Vec::new();
        errors.read_to_end(&mut said).map(|_| said)
    });
    let mut said = String::new();
    child.stdout.take().ok_or("no standard output")?.read_to_string(&mut said)?;
    child.wait()?;
    let errors = reading.join().map_err(|_| "reading failed")??;
    Ok(said + &String::from_utf8_lossy(&errors))
}

/// What the server offers without a gate.
fn bare_list(stand: &Stand<'_>, mode: &str) -> Try<String> {
    bare(stand, mode, "")
}

fn start(stand: &Stand<'_>, mode: &str, text: &str) -> Try<std::process::Child> {
    let python = find_program("python3").ok_or("no `python3` here")?;
    let words = [script(stand)?.into(), mode.into(), notes(stand)?.into()];
    let mut child = command_of(&python, &words)
        .env_clear()
        .env("PLANTED", &stand.secret)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no standard input")?;
    let call = json!({ "name": "echo", "arguments": { "text": text } });
    for message in [
        question(1, "initialize", json!({ "protocolVersion": "2025-11-25" })),
        question(2, "tools/list", json!({})),
        question(3, "tools/call", call),
    ] {
        writeln!(input, "{message}")?;
    }
    child.stdin = Some(input);
    Ok(child)
}

fn question(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

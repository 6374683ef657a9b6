//! MCP over HTTP: sessions of others, headers that lie, messages with two meanings, and revisions that know less.

use serde_json::{Value, json};
use server::Guard;

use super::approvals::remove as remove_file;
use super::mcp_client::{
    ACCEPT, Client, NEWEST, NEWEST_WITH_SESSIONS, WITH_SESSIONS, at_once, message_in, open, status_in,
};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, OTHER, Response, TESTER, bearer, opened};
use crate::gate::stand::{Ending, Stand};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "session-of-another",
            "a session is of the token that opened it, and to any other it is not there",
            |stand| {
                let door = open(stand)?;
                let client = Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?;
                Ok(opened(client.request("tools/list", json!({}), &[])?))
            },
            |stand| {
                let door = open(stand)?;
                let own = Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?;
                let mut thief = Client::new(&door, OTHER, NEWEST_WITH_SESSIONS);
                thief.session.clone_from(&own.session);
                let mut tried = vec![
                    thief.request("tools/list", json!({}), &[])?,
                    thief.call("shell", &remove())?,
                    thief.send("GET", "", &[])?,
                    thief.send("GET", "", &["Last-Event-ID: 0/0"])?,
                    thief.send("DELETE", "", &[])?,
                ];
                // With the owner's name, and both sessions at once.
                tried.push(thief.send("POST", LIST, &["X-Toolgate-Agent: tester"])?);
                let two = format!("Mcp-Session-Id: {}", own.session.clone().unwrap_or_default());
                tried.push(Client::greet(&door, OTHER, NEWEST_WITH_SESSIONS)?.send("POST", LIST, &[&two])?);
                let still = own.request("tools/list", json!({}), &[])?;
                if still.status != 200 {
                    return Err(format!("the session has ended: {}", still.status).into());
                }
                door.finish(tried)
            },
        )
        .without("the sessions of each", |stand| {
            let door = Door::open_without(at_once(), stand, Guard::Owners)?;
            let own = Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?;
            let mut thief = Client::new(&door, OTHER, NEWEST_WITH_SESSIONS);
            thief.session.clone_from(&own.session);
            Ok(opened(thief.request("tools/list", json!({}), &[])?))
        }),
        Case::new(
            "headers-say-another",
            "a message that its headers call something else is not taken, in any revision",
            |_| {
                // Whoever lets pass by the header alone.
                let (header, body) = ("tools/list", CALL);
                let passes = header == "tools/list";
                Ok(Effect::through_if(passes && body.contains("tools/call"), "the call goes by as a list"))
            },
            |stand| {
                each_revision(stand, |client, tried| {
                    let deed = json!({ "name": "shell", "arguments": remove() });
                    let call = client.message("tools/call", deed.clone());
                    for headers in [
                        vec!["Mcp-Method: tools/list"],
                        vec!["Mcp-Method: tools/call", "Mcp-Name: fs_read"],
                        vec!["Mcp-Method: tools/call", "Mcp-Name: shell", "Mcp-Name: fs_read"],
                        vec!["Mcp-Method: tools/call", "Mcp-Method: tools/list", "Mcp-Name: shell"],
                        vec!["Mcp-Method: TOOLS/CALL", "Mcp-Name: shell"],
                    ] {
                        tried.push(client.post(&call.to_string(), &headers)?);
                    }
                    let twice =
                        ["Mcp-Method: tools/call", "Mcp-Name: shell", "MCP-Protocol-Version: 2025-03-26"];
                    tried.push(client.post(&call.to_string(), &twice)?);
                    // The header of one revision, and the message of another.
                    let new = Client::new(client.door, TESTER, NEWEST);
                    let old = Client::new(client.door, TESTER, "2025-06-18");
                    tried.push(old.post(&new.message("tools/call", deed).to_string(), &[])?);
                    tried.push(new.post(CALL, &["Mcp-Method: tools/call", "Mcp-Name: shell"])?);
                    Ok(())
                })
            },
        )
        .without("the comparison with headers", |stand| {
            let door = Door::open_without(at_once(), stand, Guard::Agreement)?;
            let client = Client::greet(&door, TESTER, "2025-06-18")?;
            Ok(opened(client.post(CALL, &["Mcp-Method: tools/list"])?))
        }),
        Case::new(
            "batch-of-messages",
            "messages come one by one, whatever the revision",
            |stand| {
                let door = open(stand)?;
                let client = Client::greet(&door, TESTER, "2025-03-26")?;
                Ok(opened(client.post(LIST, &[])?))
            },
            |stand| {
                each_revision(stand, |client, tried| {
                    for batch in [
                        format!("[{LIST},{CALL}]"),
                        format!("[{CALL}]"),
                        "[]".to_owned(),
                        format!("[[{CALL}]]"),
                    ] {
                        tried.push(client.post(&batch, &[])?);
                    }
                    tried.push(client.post(&format!("{LIST}\n{CALL}"), &[])?);
                    Ok(())
                })
            },
        ),
        Case::new(
            "name-and-name",
            "what the protocol reads has no second spelling in the same message",
            |_| {
                // A reader that does not mind the case, and takes the last.
                let message: Value = serde_json::from_str(r#"{"name":"fs_read","Name":"shell"}"#)?;
                let members = message.as_object().ok_or("an object")?;
                let read = members.iter().rfind(|(key, _)| key.eq_ignore_ascii_case("name"));
                Ok(Effect::through_if(members.len() == 2 && read.is_some(), "either of them is read"))
            },
            |stand| {
                let remove = remove();
                let texts = [
                    r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call","params":{}}"#
                        .to_owned(),
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"fs_read","Name":"shell","arguments":{remove}}}}}"#
                    ),
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"fs_read","name":"shell","arguments":{remove}}}}}"#
                    ),
                    format!(
                        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"fs_read","argument\u017f":{remove},"arguments":{remove}}}}}"#
                    ),
                ];
                each_revision(stand, |client, tried| {
                    for text in &texts {
                        tried.push(client.post(text, &[])?);
                    }
                    Ok(())
                })
            },
        ),
        Case::new(
            "deep-message",
            "a message that is too deep or too long is not read",
            |_| {
                let deep = format!("{}{}", "[".repeat(2000), "]".repeat(2000));
                Ok(Effect::through_if(deep.len() == 4000, "it is small enough to be sent"))
            },
            |stand| {
                let door = open(stand)?;
                let client = Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?;
                let deep = format!("{}1{}", r#"{"a":"#.repeat(20_000), "}".repeat(20_000));
                let arguments = format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"shell","arguments":{deep}}}}}"#
                );
                let tried = vec![client.post(&deep, &[])?, client.post(&arguments, &[])?, too_long(&client)?];
                no_call_but_the_first(&door)?;
                let after = client.request("tools/list", json!({}), &[])?;
                if after.status != 200 {
                    return Ok(Effect::Through(format!("the gate is gone: {}", after.status)));
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "older-revision",
            "every revision ends at the same gate, and what is asked in one is asked in all",
            |stand| {
                stand.put("precious", "x")?;
                stand.bare("rm", &["precious"], &stand.workspace)?;
                Ok(Effect::through_if(!stand.workspace.join("precious").exists(), "where nobody is asked"))
            },
            |stand| {
                let door = open(stand)?;
                let mut tried = Vec::new();
                // The oldest has no way here, by its header or by its greeting.
                let oldest = Client::new(&door, TESTER, "2024-11-05");
                tried.push(oldest.post(LIST, &[])?);
                tried.push(oldest.post(CALL, &[])?);
                let mut lower = Client::greet(&door, TESTER, "2025-03-26")?;
                lower.revision = "2024-11-05";
                tried.push(lower.post(CALL, &[])?);
                for client in every_client(&door)? {
                    let waits = client.call("shell", &remove())?;
                    let hidden = client.call("fs_read", &json!({ "path": ".env" }))?;
                    for (answer, expected) in [(&waits, "waiting"), (&hidden, "refused")] {
                        if status_in(answer)? != expected {
                            return Ok(Effect::Through(format!("{}: {}", client.revision, answer.body)));
                        }
                    }
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "page-at-mcp",
            "no page of another name or origin talks to MCP, nor listens",
            |stand| {
                let door = open(stand)?;
                Ok(opened(Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?.post(LIST, &[])?))
            },
            |stand| {
                each_revision(stand, |client, tried| {
                    let port = client.door.address.port();
                    for origin in [
                        "http://evil.example",
                        "null",
                        &format!("http://localhost.evil.example:{port}"),
                        "http://127.0.0.1:1",
                    ] {
                        let origin = format!("Origin: {origin}");
                        tried.push(client.post(CALL, &[&origin])?);
                        tried.push(client.send("GET", "", &[&origin])?);
                        tried.push(client.send("DELETE", "", &[&origin])?);
                    }
                    for site in ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"] {
                        tried.push(client.post(CALL, &[site])?);
                        tried.push(client.send("GET", "", &[site])?);
                    }
                    let headers = [
                        super::doors::bearer(TESTER),
                        "Accept: application/json, text/event-stream".to_owned(),
                    ];
                    let headers = headers.each_ref().map(String::as_str);
                    for host in ["evil.example", "localhost.evil.example", "127.0.0.1"] {
                        tried.push(client.door.send("POST", "/mcp", host, &headers, CALL)?);
                        tried.push(client.door.send("GET", "/mcp", host, &headers, "")?);
                    }
                    Ok(())
                })
            },
        ),
        Case::new(
            "task-of-another",
            "a call that is followed as a task is followed and ended by its own agent alone",
            |stand| {
                let door = open(stand)?;
                let task = json!({ "taskId": waiting_task(&door)? });
                let answer = follower(&door, TESTER).request("tasks/get", task, &[])?;
                let status = message_in(&answer)?.pointer("/result/status").cloned();
                Ok(Effect::through_if(status == Some(json!("working")), answer.body))
            },
            |stand| {
                let door = open(stand)?;
                let task = waiting_task(&door)?;
                for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
                    let params = json!({ "taskId": task, "inputResponses": {} });
                    let answer = follower(&door, OTHER).request(method, params, &[])?;
                    if message_in(&answer)?.get("error").is_none() {
                        return Ok(Effect::Through(answer.body));
                    }
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "no-token-at-mcp",
            "nobody is let in without a token of their own, from this machine neither",
            |stand| {
                let door = open(stand)?;
                Ok(opened(Client::greet(&door, TESTER, NEWEST_WITH_SESSIONS)?.post(LIST, &[])?))
            },
            |stand| {
                let door = open(stand)?;
                let mut tried = Vec::new();
                let basic = "Authorization: Basic dGVzdGVyOnRlc3Rlcg==".to_owned();
                let named = ["", "x", "default", "tester", "null", "undefined", "Bearer"].map(bearer);
                for credential in named.into_iter().chain([basic, "X-Toolgate-Agent: tester".to_owned()]) {
                    let headers = [credential.as_str(), ACCEPT];
                    tried.push(door.ask("POST", "/mcp", &headers, CALL)?);
                    tried.push(door.ask("GET", "/mcp", &headers, "")?);
                    tried.push(door.ask("POST", &format!("/mcp?access_token={TESTER}"), &headers, CALL)?);
                }
                let two = [bearer(TESTER), bearer(OTHER)];
                tried.push(door.ask("POST", "/mcp", &[&two[0], &two[1], ACCEPT], CALL)?);
                no_call_but_the_first(&door)?;
                door.finish(tried)
            },
        ),
        Case::new(
            "body-cut-short",
            "of a message that ends early nothing is taken",
            |_| {
                // A reader that takes what has come so far.
                let cut = r#"{"name":"shell"}"#;
                let whole = r#"{"name":"shell"},"more":1}"#;
                Ok(Effect::through_if(whole.starts_with(cut), "what has come so far is a message"))
            },
            |stand| {
                let door = open(stand)?;
                let (token, length) = (bearer(TESTER), CALL.len() + 10);
                // It says that more comes, and hangs up; or says two lengths, or one and that it comes in pieces.
                for lengths in [
                    format!("Content-Length: {length}"),
                    format!("Content-Length: {}\r\nContent-Length: {length}", CALL.len()),
                    format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
                ] {
                    door.say_and_hang_up(&format!(
                        "POST /mcp HTTP/1.1\r\nHost: {}\r\n{token}\r\n{ACCEPT}\r\nContent-Type: application/json\r\n\
                         {lengths}\r\n\r\n{CALL}",
                        door.address
                    ))?;
                }
                no_call_but_the_first(&door)?;
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "artifact-of-another",
            "what a call left behind is read by the agent that made it, and by no other",
            |stand| {
                let door = open(stand)?;
                let (_, uri) = left_behind(&door)?;
                Ok(opened(Client::new(&door, TESTER, NEWEST).request(
                    "resources/read",
                    json!({ "uri": uri }),
                    &[],
                )?))
            },
            |stand| {
                let door = open(stand)?;
                let (call, uri) = left_behind(&door)?;
                let digest = uri.replace(&call, "00000000000000000000000000000000");
                for (token, uri) in [(OTHER, &uri), (TESTER, &digest), (OTHER, &format!("{uri}/../x"))] {
                    let answer = Client::new(&door, token, NEWEST).request(
                        "resources/read",
                        json!({ "uri": uri }),
                        &[],
                    )?;
                    if message_in(&answer)?.get("error").is_none() {
                        return Ok(Effect::Through(answer.body));
                    }
                }
                door.finish(Vec::new())
            },
        ),
    ]
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{}}"#;
/// The deed, as any revision with sessions says it.
const CALL: &str = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"shell","arguments":{"command":"rm","args":["precious"],"profile":"mutate"}}}"#;

fn remove() -> Value {
    remove_file("precious")
}

/// What comes of an attempt by a client of each revision, of which none may become a call.
fn each_revision(
    stand: &Stand<'_>,
    attempt: impl Fn(&Client<'_>, &mut Vec<Response>) -> Try<()>,
) -> Try<Effect> {
    let door = open(stand)?;
    let mut tried = Vec::new();
    for client in every_client(&door)? {
        attempt(&client, &mut tried)?;
    }
    no_call_but_the_first(&door)?;
    door.finish(tried)
}

/// One of each revision.
fn every_client<'a>(door: &'a Door<'a>) -> Try<Vec<Client<'a>>> {
    let mut clients = vec![Client::new(door, TESTER, NEWEST)];
    for revision in WITH_SESSIONS {
        clients.push(Client::greet(door, TESTER, revision)?);
    }
    Ok(clients)
}

/// Nothing became a call but what waited before.
fn no_call_but_the_first(door: &Door<'_>) -> Try<()> {
    let calls = super::stand::runtime()?.block_on(door.gate.engine.store().calls(10, None))?;
    if calls.len() == 1 { Ok(()) } else { Err(format!("{} calls are on record", calls.len()).into()) }
}

/// More than is taken, said to be so, and sent.
fn too_long(client: &Client<'_>) -> Try<Response> {
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "a".repeat(contract::MAX_JSON_BYTES));
    match client.post(&long, &[]) {
        Ok(answer) => Ok(answer),
        // It hung up while we were still talking, which is an answer, too.
        Err(_) => client.post("[]", &[]),
    }
}

/// A client that follows tasks.
fn follower<'a>(door: &'a Door<'a>, token: &'a str) -> Client<'a> {
    let able = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    Client { able, ..Client::new(door, token, NEWEST) }
}

/// The id of a task that waits for people.
fn waiting_task(door: &Door<'_>) -> Try<String> {
    let answer = follower(door, TESTER).call("shell", &remove())?;
    let message = message_in(&answer)?;
    let task = message.pointer("/result/taskId").and_then(Value::as_str);
    Ok(task.ok_or(format!("no task: {}", answer.body))?.to_owned())
}

/// A call with an output that is too long for its answer: its id, and where the rest is.
fn left_behind(door: &Door<'_>) -> Try<(String, String)> {
    let arguments = json!({ "command": "seq", "args": ["20000"] });
    let answer = Client::new(door, TESTER, NEWEST).call("shell", &arguments)?;
    let message = message_in(&answer)?;
    let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let call = text("/result/structuredContent/call_id").ok_or(answer.body.clone())?;
    let uri = text("/result/content/1/uri").ok_or(format!("nothing is left behind: {}", answer.body))?;
    door.gate.expect(&contract::CallId::parse(&call)?, Ending::Done);
    Ok((call, uri))
}

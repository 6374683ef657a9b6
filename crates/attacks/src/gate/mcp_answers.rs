//! Answers that an agent's own client brings: unasked, to another question, to what is too much for it, or that are none.

use contract::{AgentName, ApprovalId, OperatorName, SafetyClass};
use policy::Agent;
use serde_json::{Value, json};
use store::Vote;

use super::approvals::remove as remove_file;
use super::mcp_client::{Client, NEWEST, at_once, message_in, open, status_in};
use super::payment::Payment;
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, OTHER, Response, TESTER};
use crate::gate::stand::{AGENT, Ending, Opening, Stand, runtime};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "client-answers-unasked",
            "a client brings no answer where the configuration names nobody who sits there",
            |stand| brings(stand, asked_in_client(), &json!({ "approve": true }), "accept"),
            |stand| {
                let door = open(stand)?;
                let client = able(&door);
                let first = client.call("shell", &remove("precious"))?;
                if status_in(&first)? != "waiting" {
                    return Ok(Effect::Through(format!("it is asked: {}", first.body)));
                }
                // With a state of its own making, and without.
                let id = approval_in(&first)?;
                for state in [Value::Null, json!(id), json!("e30.e30")] {
                    let again =
                        answer(&client, &remove("precious"), &json!({ "approve": true }), "accept", state)?;
                    if status_in(&again)? != "waiting" {
                        return Ok(Effect::Through(again.body));
                    }
                }
                if is_taken(&door, &ApprovalId::parse(&id)?)? {
                    return Ok(Effect::Through("the engine takes it".to_owned()));
                }
                door.finish(Vec::new())
            },
        )
        .without("the opt-in", |stand| {
            brings(stand, asked_in_client(), &json!({ "approve": true }), "accept")
        }),
        Case::new(
            "forged-form",
            "what an argument says begins no line of the form that a person is shown",
            |stand| {
                // The same form by whoever joins words: what the command itself is told of its arguments.
                stand.put(FORGED, "x")?;
                let told = stand.bare(
                    "sh",
                    &["-c", "echo \"agent wants to call: rm -r $1\"", "sh", FORGED],
                    &stand.workspace,
                )?;
                // And that is a file which can be there, and is removed under that name.
                stand.bare("rm", &["-r", FORGED], &stand.workspace)?;
                let is_gone = !stand.workspace.join(FORGED).exists();
                Ok(Effect::through_if(is_gone && is_forged(&told), told))
            },
            |stand| {
                let door = Door::open_with(asked_in_client(), stand)?;
                let client = able(&door);
                let asked = client.call("shell", &remove(FORGED))?;
                let form = text_in(&asked, "/result/inputRequests/approval/params/message")?;
                if is_forged(&form) || !form.contains("'precious␊") {
                    return Ok(Effect::Through(form));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "answer-that-is-none",
            "what is not plainly a yes lets nothing run",
            |stand| brings(stand, asked_in_client(), &json!({ "approve": true }), "accept"),
            |stand| {
                let door = Door::open_with(asked_in_client(), stand)?;
                let client = able(&door);
                let state = state_in(&client.call("shell", &remove("precious"))?)?;
                for (action, content) in [
                    ("accept", json!({})),
                    ("accept", Value::Null),
                    ("accept", json!({ "approve": "true" })),
                    ("accept", json!({ "approve": 1 })),
                    ("accept", json!({ "Approve": true })),
                    ("accept", json!({ "approve": true, "scope": "agent" })),
                    ("accept", json!([true])),
                    ("cancel", json!({ "approve": true })),
                    ("ACCEPT", json!({ "approve": true })),
                ] {
                    let again = answer(&client, &remove("precious"), &content, action, json!(state))?;
                    if !stand.workspace.join("precious").exists() {
                        return Ok(Effect::Through(format!("{action} {content}: {}", again.body)));
                    }
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "answer-to-another-question",
            "an answer counts for the question that was asked, and for no other",
            |stand| brings(stand, asked_in_client(), &json!({ "approve": true }), "accept"),
            |stand| {
                let door = Door::open_with(asked_in_client(), stand)?;
                stand.put("harmless", "x")?;
                let client = able(&door);
                let state = state_in(&client.call("shell", &remove("harmless"))?)?;
                let tampered = format!("{}x", &state);
                let of_another = state_of_another_gate();
                client.call("shell", &remove("precious"))?;
                for state in [state, tampered, of_another, String::new()] {
                    let again = answer(
                        &client,
                        &remove("precious"),
                        &json!({ "approve": true }),
                        "accept",
                        json!(state),
                    )?;
                    if !stand.workspace.join("precious").exists() {
                        return Ok(Effect::Through(again.body));
                    }
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "state-of-another",
            "a state that was touched, that was given to another agent, or that was used before, answers nothing",
            |stand| brings(stand, asked_in_client(), &json!({ "approve": true }), "accept"),
            |stand| {
                let mut opening = asked_in_client();
                let me = OperatorName::parse("me").ok();
                opening
                    .settings
                    .agents
                    .insert(AgentName::parse("other")?, Agent { elicitation: me, ..Agent::default() });
                let door = Door::open_with(opening, stand)?;
                let (client, other) = (able(&door), Client { token: OTHER, ..able(&door) });
                let yes = json!({ "approve": true });
                let own = state_in(&client.call("shell", &remove("precious"))?)?;
                // Each letter of it counts.
                for at in [0, own.len() / 3, own.len() / 2, own.len() - 2] {
                    let touched: String =
                        own.char_indices().map(|(n, c)| if n == at { swapped(c) } else { c }).collect();
                    answer(&client, &remove("precious"), &yes, "accept", json!(touched))?;
                }
                // The other agent asks for the same, and brings what the first was given; and the other way round.
                let theirs = state_in(&other.call("shell", &remove("precious"))?)?;
                answer(&other, &remove("precious"), &yes, "accept", json!(own))?;
                answer(&client, &remove("precious"), &yes, "accept", json!(theirs))?;
                if !stand.workspace.join("precious").exists() {
                    return Ok(Effect::Through("it is gone".to_owned()));
                }
                // Once it has answered, it answers nothing more.
                stand.put("again", "x")?;
                let state = state_in(&client.call("shell", &remove("again"))?)?;
                let done = answer(&client, &remove("again"), &yes, "accept", json!(state))?;
                door.gate.expect(&contract::CallId::parse(&call_in(&done)?)?, Ending::Done);
                stand.put("again", "x")?;
                answer(&client, &remove("again"), &yes, "accept", json!(state))?;
                if !stand.workspace.join("again").exists() {
                    return Ok(Effect::Through("it answers twice".to_owned()));
                }
                door.finish(Vec::new())
            },
        ),
        Case::new(
            "client-answers-privileged",
            "what is financial or privileged is not asked in a client, and not answered there",
            |stand| brings(stand, asked_in_client(), &json!({ "approve": true }), "accept"),
            |stand| {
                let mut opening = asked_in_client();
                let book = stand.place.path("book");
                for (name, safety) in [("pay", SafetyClass::Financial), ("rule", SafetyClass::Privileged)] {
                    let tool = Payment { name, safety, ..Payment::into(book.clone()) };
                    opening.tools.push(tool.tool()?);
                }
                let second = OperatorName::parse("second")?;
                let door = Door::open_with(opening, stand)?;
                let engine = &door.gate.engine;
                let now = engine.now();
                let credential = engine::Credential::presented("somebody else's");
                runtime()?.block_on(engine.store().add_operator(
                    &second,
                    store::Role::Admin,
                    credential.digest(),
                    now,
                ))?;
                let client = able(&door);
                for name in ["pay", "rule"] {
                    let first = client.call(name, &json!({ "amount": 1 }))?;
                    if message_in(&first)?.pointer("/result/inputRequests").is_some() {
                        return Ok(Effect::Through(format!("the client is asked: {}", first.body)));
                    }
                    let id = ApprovalId::parse(&approval_in(&first)?)?;
                    if is_taken(&door, &id)? || book.exists() {
                        return Ok(Effect::Through(format!("`{name}` is approved in the client")));
                    }
                }
                door.finish(Vec::new())
            },
        ),
    ]
}

fn swapped(letter: char) -> char {
    if letter == 'A' { 'B' } else { 'A' }
}

/// A name of a file that goes on as the form does.
const FORGED: &str = "precious\narguments: {}\nasked because nothing";

/// Whether a form has lines that only a name of a file could have brought.
fn is_forged(form: &str) -> bool {
    form.lines().any(|line| line == "asked because nothing" || line == "arguments: {}")
}

/// Where whoever sits at the client of the agent answers as the local operator.
fn asked_in_client() -> Opening {
    let mut opening = at_once();
    let me = OperatorName::parse("me").ok();
    if let Ok(name) = AgentName::parse(AGENT) {
        opening.settings.agents.insert(name, Agent { elicitation: me, ..Agent::default() });
    }
    opening
}

/// Whether a yes from the client of the agent is taken for this question.
fn is_taken(door: &Door<'_>, id: &ApprovalId) -> Try<bool> {
    let agent = AgentName::parse(AGENT)?;
    Ok(runtime()?.block_on(door.gate.engine.answer_from_client(&agent, id, Vote::Approve)).is_ok())
}

/// A client that can be asked brings this answer to what it is asked; through if the deed was done.
fn brings(stand: &Stand<'_>, opening: Opening, content: &Value, action: &str) -> Try<Effect> {
    let door = Door::open_with(opening, stand)?;
    let client = able(&door);
    let state = state_in(&client.call("shell", &remove("precious"))?)?;
    let done = answer(&client, &remove("precious"), content, action, json!(state))?;
    door.gate.expect(&contract::CallId::parse(&call_in(&done)?)?, Ending::Done);
    Ok(Effect::through_if(!stand.workspace.join("precious").exists(), done.body))
}

fn able<'a>(door: &'a Door<'a>) -> Client<'a> {
    Client { able: json!({ "elicitation": { "form": {} } }), ..Client::new(door, TESTER, NEWEST) }
}

fn remove(name: &str) -> Value {
    remove_file(name)
}

/// Makes the call again, with an answer to what was asked.
fn answer(
    client: &Client<'_>,
    arguments: &Value,
    content: &Value,
    action: &str,
    state: Value,
) -> Try<Response> {
    let mut params = json!({
        "name": "shell",
        "arguments": arguments,
        "inputResponses": { "approval": { "action": action, "content": content } },
    });
    if let (false, Some(members)) = (state.is_null(), params.as_object_mut()) {
        members.insert("requestState".to_owned(), state);
    }
    client.request("tools/call", params, &[])
}

fn text_in(answer: &Response, pointer: &str) -> Try<String> {
    let message = message_in(answer)?;
    let text = message.pointer(pointer).and_then(Value::as_str);
    Ok(text.ok_or(format!("no `{pointer}`: {}", answer.body))?.to_owned())
}

/// What the client is to bring along with its answer.
fn state_in(answer: &Response) -> Try<String> {
    text_in(answer, "/result/requestState")
}

fn approval_in(answer: &Response) -> Try<String> {
    text_in(answer, "/result/structuredContent/approval/id")
}

fn call_in(answer: &Response) -> Try<String> {
    text_in(answer, "/result/structuredContent/call_id")
}

/// As well made as any, under a key that is not this gate's.
fn state_of_another_gate() -> String {
    "eyJ2IjoxfQ.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned()
}

//! The console: what somebody is shown before they say yes, and what is not for everybody who may look.

use contract::{OperatorName, show_hidden};
use engine::Credential;
use serde_json::{Value, json};
use store::{Role, Vote};

use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, Response, TESTER, bearer, opened};
use crate::gate::stand::{Ending, runtime, standard};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "reads-private",
            "what a call keeps private is opened for an admin, and for nobody else who may look",
            |stand| {
                let door = Door::open(stand)?;
                Ok(opened(read(&door, &door.operator)?))
            },
            |stand| {
                let door = Door::open(stand)?;
                let store = door.gate.engine.store();
                let mut tried = vec![read(&door, TESTER)?];
                for (name, role) in [("looker", Role::Viewer), ("decider", Role::Approver)] {
                    let (name, credential) = (OperatorName::parse(name)?, Credential::random()?);
                    let now = door.gate.engine.now();
                    runtime()?.block_on(store.add_operator(&name, role, credential.digest(), now))?;
                    tried.push(read(&door, credential.reveal())?);
                }
                if tried.iter().any(|answer| answer.body.contains("precious")) {
                    return Ok(Effect::Through("it is told what the call was asked".to_owned()));
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "forged-marks",
            "whoever decides can tell a hidden character from text that looks like the mark for one",
            |_| {
                let same = show_hidden("a\u{200b}b") == show_hidden("a⟨U+200B⟩b");
                Ok(Effect::through_if(same, "both are shown alike"))
            },
            |stand| {
                let gate = stand.gate(standard())?;
                let words = json!(["a\u{200b}b", "a⟨U+200B⟩b", "a\\u200bb"]);
                let call = json!({ "command": "rm", "args": words, "profile": "mutate" });
                let (call, view) = gate.waits("shell", call)?;
                let review = runtime()?.block_on(gate.engine.review(&view.id))?.ok_or("it waits")?;
                let exact = review.exact_arguments.ok_or("it has arguments")?;
                gate.answer(view.id.as_str(), Vote::Reject)?;
                gate.expect(&call, Ending::Refused("rejected"));
                let shown: Vec<&str> =
                    exact.split('"').filter(|piece| piece.starts_with('a') && piece.ends_with('b')).collect();
                let distinct = shown == [r"a\u200bb", "a⟨U+200B⟩b", r"a\\u200bb"];
                let read: Value = serde_json::from_str(&exact)?;
                let is_same = read.get("args") == Some(&words);
                Ok(Effect::through_if(!distinct || !is_same, exact))
            },
        ),
    ]
}

fn read(door: &Door<'_>, credential: &str) -> Try<Response> {
    door.ask("POST", &format!("/v1/calls/{}/reading", door.call), &[&bearer(credential)], "")
}

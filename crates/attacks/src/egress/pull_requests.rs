//! `git.pr`: what an address, a text or a host's answer would have it send, to whom and as whom.

use contract::{CallResult, Private, Reach};
use egress::Guard;
use policy::{Credential, CredentialForm, EgressSettings, SecretSource};
use serde_json::{Value, json};
use store::Vote;

use super::secrets::kept;
use super::trip::{Trip, granting, settings};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand};
use crate::world::Visit;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "pull-request-credential",
            "a pull request is opened with a credential that is added on the way out and is in no record or result",
            |stand| {
                let proof = format!("Authorization: Bearer {}", stand.secret);
                let said = post_bare(&Trip::begin(stand)?, "api/v3/repos/team/project/pulls", "{}", &["-H", &proof])?;
                Ok(stand.shown_in(&said))
            },
            open_with_credential,
        )
        .held_by(Guard::Masks),
        Case::new(
            "redirected-pull-request",
            "an answer does not say to whom a pull request is sent instead, though the other host is listed",
            |stand| {
                let trip = Trip::begin(stand)?;
                let path = "api/v3/repos/team/moved-307/pulls";
                post_bare(&trip, path, r#"{"title":"TOKEN"}"#, &["-L"])?;
                Ok(trip.judged(is_other_host))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let granted = ["git.test:443", "other.test:443"];
                for status in [301, 302, 303, 307, 308] {
                    for kind in ["github", "gitlab"] {
                        let url = format!("https://git.test/team/moved-{status}");
                        let result = trip.ask(&granted, "git.pr", &opening(&url, kind), Ending::Failed("tool_failed"))?;
                        says(&result, "leads elsewhere")?;
                    }
                    let list = json!({ "action": "list", "url": format!("https://git.test/TOKEN/moved-{status}"), "host_kind": "github" });
                    trip.ask(&granted, "git.pr", &list, Ending::Failed("tool_failed"))?;
                }
                if trip.reached().len() != 15 {
                    return Err(format!("not every one was sent: {:?}", trip.reached()).into());
                }
                Ok(trip.judged(is_other_host))
            },
        ),
        Case::new(
            "repository-as-path",
            "the name of a repository is no way to anything else of the interface, to which the credential would be added",
            |stand| {
                let trip = Trip::begin(stand)?;
                post_bare(&trip, "api/v3/repos/team/project/../../../user/keys?/pulls", r#"{"title":"TOKEN"}"#, &[])?;
                Ok(trip.judged(|visit| visit.says("POST /api/v3/user/keys")))
            },
            climb,
        ),
        Case::new(
            "command-in-a-body",
            "what a pull request says holds no line that its host would carry out",
            |stand| {
                let trip = Trip::begin(stand)?;
                let body = r#"{"title":"TOKEN","description":"Text\n/merge"}"#;
                post_bare(&trip, "api/v4/projects/team%2Fproject/merge_requests", body, &[])?;
                Ok(trip.judged(|visit| visit.says("/merge\"")))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for body in ["/merge", "Text\n/merge", "Text\r\n  /approve now", "/assign @me\nText", "Text\n/\rmerge"] {
                    let mut call = opening("https://git.test/team/project", "gitlab");
                    put(&mut call, "body", json!(body));
                    trip.ask(&["git.test:443"], "git.pr", &call, Ending::Refused("bad_arguments"))?;
                }
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "pull-request-unasked",
            "without a yes nothing is sent, and what needs none cannot send anything",
            |stand| {
                let trip = Trip::begin(stand)?;
                post_bare(&trip, "api/v3/repos/team/project/pulls", r#"{"title":"TOKEN"}"#, &[])?;
                Ok(trip.judged(is_sent))
            },
            unasked,
        ),
        Case::new(
            "page-from-an-answer",
            "the page of a pull request is the one at the host of the call, whatever its answer says",
            |stand| {
                let said = post_bare(&Trip::begin(stand)?, "api/v3/repos/team/project/pulls", "{}", &[])?;
                Ok(Effect::through_if(said.contains("evil.test"), said))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let mut shown = String::new();
                for (kind, page) in [("github", "pull/7"), ("gitlab", "-/merge_requests/7")] {
                    let call = opening("https://git.test/team/project", kind);
                    let result = trip.ask(&["git.test:443"], "git.pr", &call, Ending::Done)?;
                    says(&result, &format!("https://git.test/team/project/{page}"))?;
                    shown.push_str(&serde_json::to_string(&result)?);
                }
                Ok(Effect::through_if(shown.contains("evil.test"), shown))
            },
        ),
    ]
}

fn opening(url: &str, kind: &str) -> Value {
    json!({ "url": url, "host_kind": kind, "title": "TOKEN", "head": "fix", "base": "main" })
}

fn put(call: &mut Value, name: &str, value: Value) {
    if let Some(call) = call.as_object_mut() {
        call.insert(name.to_owned(), value);
    }
}

fn is_other_host(visit: &Visit) -> bool {
    visit.sni.as_deref() == Some("other.test")
}

fn is_sent(visit: &Visit) -> bool {
    visit.says("POST ")
}

fn says(result: &CallResult, text: &str) -> Try<()> {
    if result.content.contains(text) {
        return Ok(());
    }
    Err(format!("it does not say `{text}`: {}", result.content).into())
}

fn post_bare(trip: &Trip<'_>, path: &str, body: &str, words: &[&str]) -> Try<String> {
    let url = format!("https://git.test/{path}");
    trip.bare("curl", &[&["-sSk", "--max-time", "8", "-d", body], words, &[url.as_str()]].concat())
}

fn open_with_credential(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let from = SecretSource::File(stand.place.file("credential", &stand.secret)?);
    let credential = |place: &str| -> Try<Credential> {
        let to = Reach::parse(place).map_err(|error| error.to_string())?;
        Ok(Credential { to, form: CredentialForm::Bearer, from: from.clone() })
    };
    let places = ["git.test:443", "api.github.com:443"];
    let credentials = places.map(credential).into_iter().collect::<Try<Vec<_>>>()?;
    let egress = EgressSettings { credentials, ..granting(&places, Private::none())? };
    let hub =
        json!({ "url": "git@github.com:team/project.git", "title": "TOKEN", "head": "fix", "base": "main" });
    let url = "https://git.test/team/project";
    let mut shown = String::new();
    for call in [hub, opening(url, "github"), opening(url, "gitlab")] {
        let result = trip.ask_with(egress.clone(), "git.pr", &call, Ending::Done)?;
        says(&result, "#7 open")?;
        shown.push_str(&serde_json::to_string(&result)?);
    }
    let proof = format!("Bearer {}", stand.secret);
    let reached = trip.reached();
    if reached.len() != 3 || !reached.iter().all(|visit| visit.says(&proof)) {
        return Err(format!("the hosts were not given their credential: {reached:?}").into());
    }
    let at = |name: &str, line: &str| {
        reached.iter().any(|visit| visit.sni.as_deref() == Some(name) && visit.says(line))
    };
    if !at("api.github.com", "POST /repos/team/project/pulls ")
        || !at("git.test", "POST /api/v3/repos/team/project/pulls ")
        || !at("git.test", "POST /api/v4/projects/team%2Fproject/merge_requests ")
    {
        return Err(format!("they were not asked where their interfaces are: {reached:?}").into());
    }
    // The host has said back what proved who asks.
    match stand.shown_in(&shown) {
        Effect::Held(_) => kept(stand, &stand.secret),
        through => Ok(through),
    }
}

fn climb(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let gate = stand.gate(settings(granting(&["git.test:443"], Private::none())?))?;
    for path in [
        "team/project/../../../user/keys",
        "team/..",
        "../user",
        "team/...git",
        "team/project%2f..%2f..%2fuser",
        "team/%2e%2e",
        "team/project?x=",
        "team/project#x",
        "team/project/issues",
        "team//project",
        "team/project;x",
        "team/project\\..",
    ] {
        for url in [format!("https://git.test/{path}"), format!("git@git.test:{path}")] {
            let mut call = opening(&url, "github");
            put(&mut call, "title", json!(trip.token));
            gate.call("git.pr", call, Ending::Refused("bad_arguments"))?;
            let list = json!({ "action": "list", "url": url, "host_kind": "github" });
            gate.call("git.pr", list, Ending::Refused("bad_arguments"))?;
        }
    }
    Ok(trip.judged(|_| true))
}

fn unasked(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let gate = stand.gate(settings(granting(&["git.test:443"], Private::none())?))?;
    let token = &trip.token;
    let mut call = opening("https://git.test/team/project", "github");
    put(&mut call, "title", json!(token));
    let (waiting, view) = gate.waits("git.pr", call)?;
    if !trip.reached().is_empty() {
        return Ok(trip.judged(|_| true));
    }
    gate.answer(view.id.as_str(), Vote::Reject)?;
    gate.expect(&waiting, Ending::Refused("rejected"));
    // Free for a host that is listed, as its class is; it says nothing but what it asks for.
    let url = format!("https://git.test/{token}/project");
    let list = json!({ "action": "list", "url": url, "host_kind": "github" });
    gate.call("git.pr", list, Ending::Done)?;
    let read = json!({ "action": "read", "url": url, "host_kind": "gitlab", "number": 7 });
    gate.call("git.pr", read, Ending::Done)?;
    // A host that is on no list is asked for, whatever is done there.
    let elsewhere =
        json!({ "action": "list", "url": format!("https://other.test/{token}/x"), "host_kind": "github" });
    let (waiting, view) = gate.waits("git.pr", elsewhere)?;
    gate.answer(view.id.as_str(), Vote::Reject)?;
    gate.expect(&waiting, Ending::Refused("rejected"));
    if trip.reached().len() != 2 {
        return Err(format!("it was not listed and read: {:?}", trip.reached()).into());
    }
    Ok(trip.judged(|visit| is_sent(visit) || is_other_host(visit)))
}

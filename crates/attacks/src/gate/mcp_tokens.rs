//! Tokens of an issuer at the door of MCP: unsigned, signed with what everybody has, of another, for another, and too late.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::AgentName;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use server::{AccessTokenSettings, AccessTokens, Guard, KeyReader};
use store::{By, Replace, Vote};

use super::approvals::remove;
use super::mcp_client::{Client, NEWEST, at_once, open};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, OTHER, Response, bearer, opened, send_to};
use crate::gate::stand::{AGENT, Stand, runtime};

const ISSUER: &str = "https://id.test";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "token-without-a-signature",
            "a token that nobody has signed, or anybody could have, lets nobody in",
            |stand| ask(stand, |issuer, claims| issuer.sign(&head("ES256"), &claims), 200),
            |stand| {
                ask(stand, |_, claims| format!("{}.", unsigned(&head("none"), &claims)), 401)?;
                ask(stand, |issuer, claims| issuer.sign(&head("none"), &claims), 401)?;
                ask(
                    stand,
                    |issuer, claims| {
                        let text = unsigned(&head("HS256"), &claims);
                        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.key.public_key().as_ref());
                        format!(
                            "{text}.{}",
                            URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()).as_ref())
                        )
                    },
                    401,
                )
            },
        ),
        Case::new(
            "token-of-another-issuer",
            "a token of another issuer, by its name or by its key, lets nobody in",
            |stand| ask(stand, |issuer, claims| issuer.sign(&head("ES256"), &claims), 200),
            |stand| {
                ask(
                    stand,
                    |_, claims| {
                        Issuer::new().map_or(String::new(), |other| other.sign(&head("ES256"), &claims))
                    },
                    401,
                )?;
                ask(
                    stand,
                    |issuer, claims| {
                        issuer.sign(&head("ES256"), &with(claims, "iss", json!("https://evil.test")))
                    },
                    401,
                )
            },
        ),
        Case::new(
            "token-for-another",
            "a token for another resource, or without the scope that is demanded, lets nobody in",
            |stand| ask(stand, |issuer, claims| issuer.sign(&head("ES256"), &claims), 200),
            |stand| {
                for audience in
                    [json!("https://other.test/mcp"), json!(null), json!(["https://other.test/mcp"])]
                {
                    ask(
                        stand,
                        |issuer, claims| issuer.sign(&head("ES256"), &with(claims, "aud", audience.clone())),
                        401,
                    )?;
                }
                ask(
                    stand,
                    |issuer, claims| issuer.sign(&head("ES256"), &with(claims, "client_id", json!("c2"))),
                    403,
                )?;
                ask(
                    stand,
                    |issuer, claims| issuer.sign(&head("ES256"), &with(claims, "scope", json!("other"))),
                    403,
                )
            },
        ),
        Case::new(
            "flood-of-tokens",
            "refused tokens are on record, and whoever brings many of them does not fill the ledger",
            |stand| {
                let door = open(stand)?;
                for number in 0..5 {
                    Client::new(&door, &format!("made.up.{number}"), NEWEST).request(
                        "tools/list",
                        json!({}),
                        &[],
                    )?;
                }
                Ok(Effect::through_if(refused_on_record(&door)? == 5, "each is another entry"))
            },
            |stand| {
                let door = open(stand)?;
                let mut tried = Vec::new();
                for number in 0..300 {
                    let token = format!("made.up.{number}");
                    tried.push(Client::new(&door, &token, NEWEST).request("tools/list", json!({}), &[])?);
                }
                let told = refused_on_record(&door)?;
                // So many at once, and one more in two seconds.
                if !(30..=120).contains(&told) {
                    return Ok(Effect::Through(format!("the ledger tells of {told}")));
                }
                door.finish(tried)
            },
        ),
        Case::new(
            "revoked-while-waiting",
            "what a token has under way ends when it is revoked: no call of it runs, and no stream of it goes on",
            |stand| {
                let waiting = Waiting::open(stand)?;
                waiting.say_yes()?;
                waiting.judge(Duration::ZERO)
            },
            |stand| {
                let waiting = Waiting::open(stand)?;
                // By another process, which shares the store with the gate.
                let now = waiting.door.gate.engine.now();
                let revoking = stand.store()?;
                runtime()?.block_on(revoking.revoke_token(&AgentName::parse(AGENT)?, By::Owner, now))?;
                std::thread::sleep(Duration::from_secs(2));
                waiting.say_yes()?;
                waiting.judge(Duration::from_secs(10))
            },
        )
        .held_at_the_door(&[Guard::Endings]),
        Case::new(
            "session-pushed-out",
            "however many tokens open sessions, the session of whoever uses theirs goes on",
            |stand| pushed_out(stand, 300),
            |stand| pushed_out(stand, 100),
        ),
        Case::new(
            "token-that-has-ended",
            "a token before its time or after it lets nobody in",
            |stand| ask(stand, |issuer, claims| issuer.sign(&head("ES256"), &claims), 200),
            |stand| {
                ask(
                    stand,
                    |issuer, claims| issuer.sign(&head("ES256"), &with(claims, "exp", json!(1))),
                    401,
                )?;
                ask(
                    stand,
                    |issuer, claims| {
                        issuer.sign(&head("ES256"), &with(claims, "nbf", json!(4_000_000_000_i64)))
                    },
                    401,
                )
            },
        ),
    ]
}

/// Requests of one token that wait: each for a file of its own to be removed, and one for whatever the gate says.
struct Waiting<'a> {
    door: Door<'a>,
    calls: Vec<(&'static str, JoinHandle<Option<Response>>)>,
    stream: JoinHandle<Option<Response>>,
}

impl<'a> Waiting<'a> {
    fn open(stand: &'a Stand<'a>) -> Try<Waiting<'a>> {
        for name in ["by-http", "by-new", "by-session"] {
            stand.put(name, "x")?;
        }
        let door = Door::open(stand)?;
        let token =
            runtime()?.block_on(door.gate.engine.issue_token(&AgentName::parse(AGENT)?, Replace::Yes))?;
        let token = token.reveal().to_owned();
        let plain =
            json!({ "tool": "shell", "arguments": remove("by-http"), "wait_seconds": 60 }).to_string();
        let call = |client: &Client<'_>, name: &str| {
            client.message("tools/call", json!({ "name": "shell", "arguments": remove(name) })).to_string()
        };
        let (new, old) = (Client::new(&door, &token, NEWEST), Client::greet(&door, &token, "2025-11-25")?);
        let of_new = ["Mcp-Method: tools/call", "Mcp-Name: shell"];
        let calls = vec![
            ("by-http", ask_aside(&door, "POST", "/v1/calls", vec![bearer(&token)], plain)),
            ("by-new", ask_aside(&door, "POST", "/mcp", new.headers(&of_new), call(&new, "by-new"))),
            ("by-session", ask_aside(&door, "POST", "/mcp", old.headers(&[]), call(&old, "by-session"))),
        ];
        let stream = ask_aside(&door, "GET", "/mcp", old.headers(&[]), String::new());
        let started = Instant::now();
        while runtime()?.block_on(door.gate.engine.waiting())?.len() < 4 {
            if started.elapsed() > Duration::from_secs(10) {
                return Err("not all of them wait".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Waiting { door, calls, stream })
    }

    /// The operator says yes to all but the first, which is the door's own.
    fn say_yes(&self) -> Try<()> {
        for one in runtime()?.block_on(self.door.gate.engine.waiting())? {
            let id = one.approval.id.to_string();
            if id != self.door.approval {
                self.door.gate.answer(&id, Vote::Approve)?;
            }
        }
        Ok(())
    }

    /// Through if a file is gone, if anybody was answered, or if the stream goes on for longer than this.
    fn judge(self, patience: Duration) -> Try<Effect> {
        let started = Instant::now();
        let mut done = Vec::new();
        for (name, call) in self.calls {
            let answered = call.join().map_err(|_| "asking failed")?;
            let is_gone = !self.door.stand.workspace.join(name).exists();
            // An answer that comes as a stream begins before there is anything in it.
            let body = answered.map(|answer| answer.body).unwrap_or_default();
            if is_gone || body.contains("call_id") {
                done.push(format!("{name}: {body}, gone: {is_gone}"));
            }
        }
        while !self.stream.is_finished() && started.elapsed() < patience {
            std::thread::sleep(Duration::from_millis(100));
        }
        if !patience.is_zero() && !self.stream.is_finished() {
            done.push("the stream goes on".to_owned());
        }
        match done.is_empty() {
            true => self.door.finish(Vec::new()),
            false => Ok(Effect::Through(done.join("; "))),
        }
    }
}

/// Asks from another thread: the answer, once it has ended.
fn ask_aside(
    door: &Door<'_>,
    method: &'static str,
    path: &'static str,
    headers: Vec<String>,
    body: String,
) -> JoinHandle<Option<Response>> {
    let address = door.address;
    std::thread::spawn(move || {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        send_to(address, method, path, &address.to_string(), &headers, &body).ok()
    })
}

/// How many refused tokens the ledger tells of.
fn refused_on_record(door: &Door<'_>) -> Try<usize> {
    let mut told = Vec::new();
    runtime()?.block_on(door.gate.engine.store().export(&mut told))?;
    Ok(String::from_utf8_lossy(&told).matches("\"token.refused\"").count())
}

fn head(algorithm: &str) -> Value {
    json!({ "alg": algorithm, "typ": "at+jwt", "kid": "k1" })
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    if let Some(members) = claims.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    claims
}

/// Opens as many sessions as there are places and more, each by a token of its own, while another agent uses its session once
/// in so many. Through if that has ended.
fn pushed_out(stand: &Stand<'_>, once_in: usize) -> Try<Effect> {
    let (issuer, door) = (issuer()?, letting_in(stand)?);
    let other = Client::greet(&door, OTHER, "2025-11-25")?;
    for number in 1..=300 {
        let token = issuer.sign(&head("ES256"), &with(good_claims(), "jti", json!(number)));
        Client::greet(&door, &token, "2025-11-25")?;
        if number % once_in == 0 {
            let answer = other.request("tools/list", json!({}), &[])?;
            if answer.status != 200 {
                return Ok(Effect::Through(format!("after {number}: {}", answer.status)));
            }
        }
    }
    door.finish(Vec::new())
}

fn good_claims() -> Value {
    json!({ "iss": ISSUER, "aud": "https://gate.test/mcp", "exp": 4_000_000_000_i64, "scope": "mcp", "client_id": "c1" })
}

/// Asks for the tools with a token that is made of good claims. Through if it is answered; else by this status, which the
/// header explains.
fn ask(stand: &Stand<'_>, token: impl Fn(&Issuer, Value) -> String, expected: u16) -> Try<Effect> {
    let (issuer, door) = (issuer()?, letting_in(stand)?);
    let token = token(issuer, good_claims());
    let client = Client::new(&door, &token, NEWEST);
    let before = refused_on_record(&door)?;
    let answer = client.request("tools/list", json!({}), &[])?;
    if answer.status != expected {
        return Err(format!("{} and not {expected}: {}", answer.status, answer.body).into());
    }
    let explained = answer.head.to_ascii_lowercase().contains("www-authenticate: bearer");
    if expected == 401 && !explained {
        return Err(format!("nothing says what is needed: {}", answer.head).into());
    }
    // No other door opens with it.
    let elsewhere = door.ask("GET", "/v1/tools", &[&bearer(&token)], "")?;
    if elsewhere.status != 401 {
        return Err(format!("another door answers with {}", elsewhere.status).into());
    }
    if expected == 200 {
        return Ok(opened(answer));
    }
    if refused_on_record(&door)? != before + 1 {
        return Err("the ledger does not tell that the token was refused".into());
    }
    door.finish(vec![answer])
}

/// A door where tokens of the issuer count.
fn letting_in<'a>(stand: &'a Stand<'a>) -> Try<Door<'a>> {
    let agent = AgentName::parse(AGENT)?;
    let settings = AccessTokenSettings {
        issuer: ISSUER.to_owned(),
        audience: Some("https://gate.test/mcp".to_owned()),
        keys: Some("https://id.test/keys".to_owned()),
        scopes: vec!["mcp".to_owned()],
        agents: BTreeMap::from([(agent, BTreeMap::from([("client_id".to_owned(), "c1".to_owned())]))]),
    };
    let tokens = Arc::new(AccessTokens::new(settings, Arc::clone(issuer()?) as Arc<dyn KeyReader>));
    Door::open_letting_in(at_once(), stand, Some(tokens))
}

struct Issuer {
    key: EcdsaKeyPair,
}

/// The one whose keys the gate has.
fn issuer() -> Try<&'static Arc<Issuer>> {
    static ISSUER_OF_ALL: OnceLock<Option<Arc<Issuer>>> = OnceLock::new();
    ISSUER_OF_ALL.get_or_init(|| Issuer::new().ok().map(Arc::new)).as_ref().ok_or_else(|| "no key".into())
}

impl Issuer {
    fn new() -> Try<Issuer> {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let made = made.map_err(|_| "no key can be made")?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, made.as_ref(), &random);
        Ok(Issuer { key: key.map_err(|_| "the key is none")? })
    }

    fn sign(&self, head: &Value, claims: &Value) -> String {
        let text = unsigned(head, claims);
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes());
        let signature =
            signature.map(|signature| URL_SAFE_NO_PAD.encode(signature.as_ref())).unwrap_or_default();
        format!("{text}.{signature}")
    }
}

impl KeyReader for Issuer {
    fn read<'a>(&'a self, _url: &'a str) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>> {
        let point = self.key.public_key().as_ref();
        let part = |range: std::ops::Range<usize>| point.get(range).map(|part| URL_SAFE_NO_PAD.encode(part));
        let keys = json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "k1", "x": part(1..33), "y": part(33..65) }] });
        Box::pin(async move { Some(keys.to_string().into_bytes()) })
    }
}

fn unsigned(head: &Value, claims: &Value) -> String {
    [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

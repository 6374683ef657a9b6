//! Tokens of an issuer at the door of MCP: unsigned, signed with what everybody has, of another, for another, and too late.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::AgentName;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use server::{AccessTokenSettings, AccessTokens, KeyReader};

use super::mcp_client::{Client, NEWEST, at_once, open};
use crate::Try;
use crate::case::Effect;
use crate::gate::case::Case;
use crate::gate::doors::{Door, opened};
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

/// Asks for the tools with a token that is made of good claims. Through if it is answered; else by this status, which the
/// header explains.
fn ask(stand: &Stand<'_>, token: impl Fn(&Issuer, Value) -> String, expected: u16) -> Try<Effect> {
    let issuer = issuer()?;
    let agent = AgentName::parse(AGENT)?;
    let settings = AccessTokenSettings {
        issuer: ISSUER.to_owned(),
        audience: Some("https://gate.test/mcp".to_owned()),
        keys: Some("https://id.test/keys".to_owned()),
        scopes: vec!["mcp".to_owned()],
        agents: BTreeMap::from([(agent, BTreeMap::from([("client_id".to_owned(), "c1".to_owned())]))]),
    };
    let tokens = Arc::new(AccessTokens::new(settings, Arc::clone(issuer) as Arc<dyn KeyReader>));
    let door = Door::open_letting_in(at_once(), stand, Some(tokens))?;
    let claims = json!({ "iss": ISSUER, "aud": "https://gate.test/mcp", "exp": 4_000_000_000_i64, "scope": "mcp", "client_id": "c1" });
    let token = token(issuer, claims);
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
    let elsewhere = door.ask("GET", "/v1/tools", &[&crate::gate::doors::bearer(&token)], "")?;
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

use std::sync::atomic::{AtomicUsize, Ordering};

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::json;

use super::*;

const ISSUER: &str = "https://id.test";
const RESOURCE: &str = "http://127.0.0.1:7433/mcp";
const NOW: i64 = 1_800_000_000;

/// An issuer with one key, whose metadata and keys are to be had.
struct Issuer {
    key: EcdsaKeyPair,
    id: &'static str,
    asked: AtomicUsize,
}

impl Issuer {
    fn new() -> Arc<Issuer> {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
        Arc::new(Issuer { key, id: "k1", asked: AtomicUsize::new(0) })
    }

    fn point(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    fn keys(&self) -> Value {
        let part = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&self.point()[range]);
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "alg": "ES256",
            "x": part(1..33), "y": part(33..65) }] })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn token(&self, change: impl Fn(&mut Value)) -> String {
        let mut claims = json!({ "iss": ISSUER, "aud": RESOURCE, "exp": NOW + 60, "scope": "mcp other", "client_id": "c1" });
        change(&mut claims);
        self.sign(&json!({ "alg": "ES256", "typ": "at+jwt", "kid": "k1" }), &claims)
    }
}

impl KeyReader for Issuer {
    fn read<'a>(&'a self, url: &'a str) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>> {
        let document = match url {
            "https://id.test/.well-known/openid-configuration" => {
                json!({ "issuer": ISSUER, "jwks_uri": "https://id.test/keys" })
            }
            "https://id.test/keys" => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                self.keys()
            }
            _ => return Box::pin(async { None }),
        };
        Box::pin(async move { Some(document.to_string().into_bytes()) })
    }
}

fn unsigned(header: &Value, claims: &Value) -> String {
    [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".")
}

fn tokens(issuer: &Arc<Issuer>) -> AccessTokens {
    let agent = |name: &str| AgentName::parse(name).unwrap();
    let claims = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let settings = AccessTokenSettings {
        issuer: ISSUER.to_owned(),
        audience: None,
        keys: None,
        scopes: vec!["mcp".to_owned()],
        agents: BTreeMap::from([
            (agent("coder"), claims("client_id", "c1")),
            (agent("writer"), claims("sub", "w")),
            (agent("nobody"), BTreeMap::new()),
        ]),
    };
    AccessTokens::new(settings, Arc::clone(issuer) as Arc<dyn KeyReader>)
}

async fn asked(tokens: &AccessTokens, token: &str) -> Result<String, NotLetIn> {
    tokens.agent_of(token, RESOURCE, NOW * 1000).await.map(|agent| agent.to_string())
}

#[tokio::test]
async fn a_token_of_the_issuer_is_its_agent_s() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer);
    assert_eq!(asked(&tokens, &issuer.token(|_| {})).await.as_deref(), Ok("coder"));
    let many = issuer.token(|claims| claims["aud"] = json!(["https://other.test", RESOURCE]));
    assert_eq!(asked(&tokens, &many).await.as_deref(), Ok("coder"));
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 1, "keys are asked for once");
}

#[tokio::test]
async fn a_token_for_another_time_place_or_use_is_nobody_s() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer);
    let invalid = NotLetIn::Invalid;
    for (name, value, expected) in [
        ("aud", json!("https://other.test/mcp"), invalid("it is for another resource")),
        ("aud", json!(null), invalid("it is for another resource")),
        ("aud", json!("http://127.0.0.1:7433/mcp/"), invalid("it is for another resource")),
        ("iss", json!("https://id.test/"), invalid("it is of another issuer")),
        ("iss", json!("https://evil.test"), invalid("it is of another issuer")),
        ("exp", json!(NOW - LEEWAY), invalid("it has ended")),
        ("exp", json!("tomorrow"), invalid("it says no end")),
        ("nbf", json!(NOW + 3600), invalid("it has not begun")),
        ("scope", json!("other"), NotLetIn::Scope),
        ("scope", json!("mcp2"), NotLetIn::Scope),
        ("client_id", json!("c2"), NotLetIn::Nobody),
        // Two agents fit.
        ("sub", json!("w"), NotLetIn::Nobody),
    ] {
        let token = issuer.token(|claims| claims[name] = value.clone());
        assert_eq!(asked(&tokens, &token).await, Err(expected), "{name} {value}");
    }
}

#[tokio::test]
async fn what_the_issuer_has_not_signed_is_nobody_s() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let tokens = tokens(&issuer);
    let claims =
        json!({ "iss": ISSUER, "aud": RESOURCE, "exp": NOW + 60, "scope": "mcp", "client_id": "c1" });
    let unsigned_way = NotLetIn::Invalid("it is signed in a way that does not count");
    for algorithm in ["none", "None", "HS256", "HS512", ""] {
        let signed = unsigned(&json!({ "alg": algorithm, "kid": "k1" }), &claims);
        // Signed with what everybody has: the public key.
        let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.point());
        let by_public = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()).as_ref());
        for token in [format!("{signed}."), format!("{signed}.{by_public}")] {
            assert_eq!(asked(&tokens, &token).await, Err(unsigned_way), "{algorithm}");
        }
    }
    let not_signed = Err(NotLetIn::Invalid("no key of the issuer has signed it"));
    assert_eq!(asked(&tokens, &other.token(|_| {})).await, not_signed, "another key of the same name");
    for head in [
        json!({ "alg": "RS256", "kid": "k1" }),
        json!({ "alg": "ES384", "kid": "k1" }),
        json!({ "alg": "ES256", "kid": "k2" }),
        json!({ "alg": "ES256", "kid": "k2", "jku": "https://evil.test/keys" }),
    ] {
        assert_eq!(asked(&tokens, &issuer.sign(&head, &claims)).await, not_signed, "{head}");
    }
    let good = issuer.token(|_| {});
    let (head, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let changed =
        json!({ "iss": ISSUER, "aud": RESOURCE, "exp": NOW + 9999, "scope": "mcp", "client_id": "c1" });
    let changed = URL_SAFE_NO_PAD.encode(changed.to_string());
    assert_eq!(asked(&tokens, &format!("{head}.{changed}.{signature}")).await, not_signed);
    let no_token = Err(NotLetIn::Invalid("it is no token"));
    let critical = issuer.sign(&json!({ "alg": "ES256", "kid": "k1", "crit": ["x"] }), &claims);
    let of_people = issuer.sign(&json!({ "alg": "ES256", "kid": "k1", "typ": "dpop+jwt" }), &claims);
    for token in ["a.b", "a.b.c.d", "..", &critical, &of_people, &"x".repeat(LONGEST + 1)] {
        assert_eq!(asked(&tokens, token).await, no_token, "{token}");
    }
}

#[tokio::test]
async fn keys_are_asked_for_anew_when_one_is_missing_but_not_for_each_made_up_name() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer);
    assert!(asked(&tokens, &issuer.token(|_| {})).await.is_ok());
    let claims = json!({ "iss": ISSUER });
    for number in 0..50 {
        let made_up = issuer.sign(&json!({ "alg": "ES256", "kid": format!("made-up-{number}") }), &claims);
        assert!(asked(&tokens, &made_up).await.is_err());
    }
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 1);
    let later = (NOW + 31) * 1000;
    let rotated = issuer.sign(&json!({ "alg": "ES256", "kid": "k2" }), &claims);
    assert!(tokens.agent_of(&rotated, RESOURCE, later).await.is_err());
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 2, "after a while it is");
}

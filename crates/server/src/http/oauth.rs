//! Access tokens of an issuer that the operator has named, as a way in for agents over MCP (OAuth 2.1, RFC 9068, RFC 9728).
//!
//! Off unless it is configured. It knows no call: a token is an agent's, or nobody's.
//!
//! # Invariants
//! - A token counts if a key of the issuer's has signed it, in a way that no holder of that key's public half could have.
//! - It is from the issuer, for this resource, for now, with every scope that is demanded, and exactly one agent's.
//! - Where keys are to be had is the operator's word or the issuer's own, and never the token's.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::{AgentName, Canonical};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::Value;

/// The longest token, and as many keys as are kept of an issuer.
const LONGEST: usize = 8192;
const MOST_KEYS: usize = 64;
/// How long keys are used before they are asked for again, how soon that is done for one that is not known, and how long they
/// are used where nobody answers; in milliseconds.
const FRESH: i64 = 10 * 60_000;
const AGAIN: i64 = 30_000;
const STALE: i64 = 60 * 60_000;
/// How far clocks may be apart, in seconds.
const LEEWAY: i64 = 30;

/// Which tokens are let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessTokenSettings {
    /// Who signs them, as it stands in them.
    pub issuer: String,
    /// What they have to be for; the address of MCP here, where nothing is named.
    pub audience: Option<String>,
    /// Where the issuer's keys are; as its metadata says, where nothing is named.
    pub keys: Option<String>,
    /// The scopes that each has to have.
    pub scopes: Vec<String>,
    /// Whose they are: the claims that each agent's have.
    pub agents: BTreeMap<AgentName, BTreeMap<String, String>>,
}

/// Asks the web for the gate.
pub trait KeyReader: Send + Sync {
    /// What is to be had at an address.
    fn read<'a>(&'a self, url: &'a str) -> Pin<Box<dyn Future<Output = Option<Vec<u8>>> + Send + 'a>>;
}

/// Lets in those who have a token of the issuer.
pub struct AccessTokens {
    pub(super) settings: AccessTokenSettings,
    reader: Arc<dyn KeyReader>,
    known: Mutex<Known>,
    asking: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    keys: Arc<Vec<Key>>,
    at: i64,
    asked: Option<i64>,
}

/// A key of the issuer's.
struct Key {
    id: Option<String>,
    kind: KeyKind,
    /// The one way of signing that it is for, if it says so.
    only: Option<String>,
}

enum KeyKind {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A curve, and the point in the form that is checked against.
    Curve {
        name: &'static str,
        point: Vec<u8>,
    },
}

/// Why a token is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotLetIn {
    /// It is no token of the issuer's that counts here and now.
    Invalid(&'static str),
    /// It is one, and not for this.
    Scope,
    /// It is one, and no agent's.
    Nobody,
}

impl AccessTokens {
    /// For tokens like these, with keys that are had by this reader.
    pub fn new(settings: AccessTokenSettings, reader: Arc<dyn KeyReader>) -> AccessTokens {
        AccessTokens { settings, reader, known: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    /// Whose token it is. The time is in milliseconds since 1970.
    pub(super) async fn agent_of(
        &self,
        token: &str,
        resource: &str,
        now: i64,
    ) -> Result<AgentName, NotLetIn> {
        let unsigned = Unsigned::read(token)?;
        // ATTACK(token-without-a-signature)
        let way = Way::named(&unsigned.algorithm)
            .ok_or(NotLetIn::Invalid("it is signed in a way that does not count"))?;
        let keys = self.keys(unsigned.key.as_deref(), now).await;
        let is_meant = |key: &&Key| unsigned.key.is_none() || key.id == unsigned.key;
        let mut fitting = keys.iter().filter(is_meant).filter(|key| key.is_for(&unsigned.algorithm, &way));
        let signed = fitting.any(|key| way.verifies(key, unsigned.signed.as_bytes(), &unsigned.signature));
        if !signed {
            return Err(NotLetIn::Invalid("no key of the issuer has signed it"));
        }
        self.check(&unsigned.claims()?, resource, now / 1000)
    }

    /// The claims of a token that the issuer has signed.
    fn check(&self, claims: &Value, resource: &str, now: i64) -> Result<AgentName, NotLetIn> {
        let AccessTokenSettings { issuer, audience, scopes, agents, .. } = &self.settings;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|seconds| seconds as i64);
        // ATTACK(token-of-another-issuer)
        if text("iss") != Some(issuer) {
            return Err(NotLetIn::Invalid("it is of another issuer"));
        }
        // ATTACK(token-for-another)
        let audience = audience.as_deref().unwrap_or(resource);
        let is_for_us = match claims.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one.as_str() == Some(audience)),
            _ => false,
        };
        if !is_for_us {
            return Err(NotLetIn::Invalid("it is for another resource"));
        }
        // ATTACK(token-that-has-ended)
        let ends = time("exp").ok_or(NotLetIn::Invalid("it says no end"))?;
        if ends.saturating_add(LEEWAY) <= now {
            return Err(NotLetIn::Invalid("it has ended"));
        }
        if claims.get("nbf").is_some() && time("nbf").is_none_or(|begins| begins > now.saturating_add(LEEWAY))
        {
            return Err(NotLetIn::Invalid("it has not begun"));
        }
        let given = given_scopes(claims);
        if !scopes.iter().all(|scope| given.contains(&scope.as_str())) {
            return Err(NotLetIn::Scope);
        }
        let is_of = |wanted: &BTreeMap<String, String>| {
            !wanted.is_empty() && wanted.iter().all(|(name, value)| text(name) == Some(value))
        };
        let mut fitting = agents.iter().filter(|(_, wanted)| is_of(wanted)).map(|(agent, _)| agent);
        match (fitting.next(), fitting.next()) {
            (Some(agent), None) => Ok(agent.clone()),
            // Which of two is not guessed.
            _ => Err(NotLetIn::Nobody),
        }
    }

    /// The issuer's keys, asked for anew if they are old or lack the one that is looked for.
    async fn keys(&self, wanted: Option<&str>, now: i64) -> Arc<Vec<Key>> {
        if let Some(keys) = self.fresh(wanted, now) {
            return keys;
        }
        let _asking = self.asking.lock().await;
        // Whoever was first has asked for all.
        if let Some(keys) = self.fresh(wanted, now) {
            return keys;
        }
        let read = self.read_keys().await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.asked = Some(now);
        if let Some(keys) = read {
            (known.keys, known.at) = (Arc::new(keys), now);
        } else if now - known.at > STALE {
            // Nobody vouches for them any more.
            known.keys = Arc::default();
        }
        Arc::clone(&known.keys)
    }

    /// Those that are there, if there is no reason to ask, or no time.
    fn fresh(&self, wanted: Option<&str>, now: i64) -> Option<Arc<Vec<Key>>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |id: &str| known.keys.iter().any(|key| key.id.as_deref() == Some(id));
        let is_fresh = !known.keys.is_empty() && now - known.at < FRESH && wanted.is_none_or(has);
        // Made-up names of keys do not make the gate ask and ask.
        let was_asked = known.asked.is_some_and(|asked| now - asked < AGAIN);
        (is_fresh || was_asked).then(|| Arc::clone(&known.keys))
    }

    async fn read_keys(&self) -> Option<Vec<Key>> {
        let url = match &self.settings.keys {
            Some(url) => url.clone(),
            None => self.find_keys().await?,
        };
        let text = self.reader.read(&url).await?;
        let document: Value = serde_json::from_slice(&text).ok()?;
        let keys = document.get("keys")?.as_array()?;
        Some(keys.iter().take(MOST_KEYS).filter_map(Key::read).collect())
    }

    /// Where the issuer's own metadata says that they are.
    async fn find_keys(&self) -> Option<String> {
        let issuer = &self.settings.issuer;
        let (scheme, rest) = issuer.split_once("://")?;
        let (host, path) =
            rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
        let path = path.trim_end_matches('/');
        let places = [
            format!("{scheme}://{host}/.well-known/oauth-authorization-server{path}"),
            format!("{scheme}://{host}{path}/.well-known/openid-configuration"),
        ];
        for place in places {
            let Some(text) = self.reader.read(&place).await else { continue };
            let about: Value = serde_json::from_slice(&text).ok()?;
            if about.get("issuer").and_then(Value::as_str) != Some(issuer) {
                return None;
            }
            return about.get("jwks_uri").and_then(Value::as_str).map(str::to_owned);
        }
        None
    }
}

fn given_scopes(claims: &Value) -> Vec<&str> {
    match (claims.get("scope"), claims.get("scp")) {
        (Some(Value::String(text)), _) | (None, Some(Value::String(text))) => text.split(' ').collect(),
        (None, Some(Value::Array(all))) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A token as it was read, before anybody has looked who signed it.
struct Unsigned {
    algorithm: String,
    key: Option<String>,
    signed: String,
    claims: String,
    signature: Vec<u8>,
}

impl Unsigned {
    fn read(token: &str) -> Result<Unsigned, NotLetIn> {
        let odd = NotLetIn::Invalid("it is no token");
        if token.len() > LONGEST {
            return Err(odd);
        }
        let parts: Vec<&str> = token.split('.').collect();
        let [head, claims, signature] = parts.as_slice() else { return Err(odd) };
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| odd);
        let header = read_object(&decode(head)?).ok_or(odd)?;
        let text = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
        let kind = text("typ").unwrap_or_else(|| "at+jwt".to_owned()).to_ascii_lowercase();
        // What would have to be understood and is not makes it no token; so does one of another kind.
        if header.get("crit").is_some() || !matches!(kind.as_str(), "at+jwt" | "application/at+jwt" | "jwt") {
            return Err(odd);
        }
        Ok(Unsigned {
            algorithm: text("alg").ok_or(odd)?,
            key: text("kid"),
            signed: format!("{head}.{claims}"),
            claims: (*claims).to_owned(),
            signature: decode(signature)?,
        })
    }

    fn claims(&self) -> Result<Value, NotLetIn> {
        let odd = NotLetIn::Invalid("its claims cannot be read");
        let bytes = URL_SAFE_NO_PAD.decode(&self.claims).map_err(|_| odd)?;
        read_object(&bytes).ok_or(odd)
    }
}

/// An object that names no key twice.
fn read_object(bytes: &[u8]) -> Option<Value> {
    let text = std::str::from_utf8(bytes).ok()?;
    Some(Canonical::parse(text).ok()?.into_value()).filter(Value::is_object)
}

/// A way of signing.
enum Way {
    Rsa(&'static RsaParameters),
    Curve(&'static str, &'static dyn VerificationAlgorithm),
}

impl Way {
    /// Those that take a key which only the issuer has. `none` and those by a shared secret are not among them.
    fn named(algorithm: &str) -> Option<Way> {
        Some(match algorithm {
            "RS256" => Way::Rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => Way::Rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => Way::Rsa(&RSA_PKCS1_2048_8192_SHA512),
            "PS256" => Way::Rsa(&RSA_PSS_2048_8192_SHA256),
            "PS384" => Way::Rsa(&RSA_PSS_2048_8192_SHA384),
            "PS512" => Way::Rsa(&RSA_PSS_2048_8192_SHA512),
            "ES256" => Way::Curve("P-256", &ECDSA_P256_SHA256_FIXED),
            "ES384" => Way::Curve("P-384", &ECDSA_P384_SHA384_FIXED),
            "EdDSA" | "Ed25519" => Way::Curve("Ed25519", &ED25519),
            _ => return None,
        })
    }

    fn verifies(&self, key: &Key, message: &[u8], signature: &[u8]) -> bool {
        match (self, &key.kind) {
            (Way::Rsa(parameters), KeyKind::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
            }
            (Way::Curve(_, algorithm), KeyKind::Curve { point, .. }) => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

impl Key {
    fn read(key: &Value) -> Option<Key> {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|used| used != "sig") {
            return None;
        }
        let kind = match (text("kty")?, text("crv")) {
            ("RSA", _) => KeyKind::Rsa { n: bytes("n")?, e: bytes("e")? },
            ("EC", Some(curve @ ("P-256" | "P-384"))) => {
                let (name, length) = if curve == "P-256" { ("P-256", 32) } else { ("P-384", 48) };
                let (x, y) = (bytes("x")?, bytes("y")?);
                if x.len() != length || y.len() != length {
                    return None;
                }
                KeyKind::Curve { name, point: [vec![4], x, y].concat() }
            }
            ("OKP", Some("Ed25519")) => KeyKind::Curve { name: "Ed25519", point: bytes("x")? },
            _ => return None,
        };
        Some(Key { id: text("kid").map(str::to_owned), kind, only: text("alg").map(str::to_owned) })
    }

    fn is_for(&self, algorithm: &str, way: &Way) -> bool {
        let is_of_kind = match (way, &self.kind) {
            (Way::Rsa(_), KeyKind::Rsa { .. }) => true,
            (Way::Curve(curve, _), KeyKind::Curve { name, .. }) => curve == name,
            _ => false,
        };
        is_of_kind && self.only.as_deref().is_none_or(|only| only == algorithm)
    }
}

#[cfg(test)]
mod tests;

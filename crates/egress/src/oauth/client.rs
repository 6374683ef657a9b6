//! Who we are to somebody who vouches: how we got that name, and how we prove it.
//!
//! # Invariants
//! - A name and its secret are for the issuer that gave them, or that the operator has named with them, and no other.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use zeroize::Zeroizing;

use super::metadata::Issuer;
use super::{ClientKind, Held, NotSignedIn, random, text_of};
use crate::Gate;
use crate::credentials::Secret;
use crate::fetch::{Question, Said};

const MOST: usize = 64 * 1024;
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Who we are to an issuer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Client {
    pub(super) issuer: String,
    pub(super) id: String,
    pub(super) proof: Proof,
    /// Where people are sent back to, if the issuer was told.
    pub(super) redirect: Option<String>,
}

/// How we prove that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proof {
    Nothing,
    Basic(#[serde(with = "super::kept::secret_text")] Secret),
    Post(#[serde(with = "super::kept::secret_text")] Secret),
    /// By a key that is kept elsewhere.
    Key,
}

/// A request to a token endpoint: what is sent, and in which header we prove ourselves.
pub(super) struct Asked {
    pub(super) form: Vec<(&'static str, Zeroizing<String>)>,
    pub(super) authorization: Option<Zeroizing<String>>,
}

impl Client {
    /// Adds the name and the proof to a request.
    pub(super) async fn sign(
        &self,
        gate: &Gate,
        held: &Held,
        mut form: Vec<(&'static str, Zeroizing<String>)>,
    ) -> Result<Asked, NotSignedIn> {
        let id = || Zeroizing::new(self.id.clone());
        let mut authorization = None;
        match &self.proof {
            Proof::Nothing => form.push(("client_id", id())),
            Proof::Basic(secret) => {
                let pair = Zeroizing::new(format!("{}:{}", *encoded(&self.id), *encoded(secret.expose())));
                authorization = Some(Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes()))));
            }
            Proof::Post(secret) => {
                form.push(("client_id", id()));
                form.push(("client_secret", Zeroizing::new(secret.expose().to_owned())));
            }
            Proof::Key => {
                let ClientKind::Key { key, .. } = &held.settings.client else {
                    return Err(NotSignedIn::NoSecret);
                };
                let pem = gate.secret(key).await.ok_or(NotSignedIn::NoSecret)?;
                let assertion = assertion(&pem, &self.id, &self.issuer, (gate.clock)() / 1000)?;
                form.push(("client_id", id()));
                form.push(("client_assertion_type", Zeroizing::new(ASSERTION.to_owned())));
                form.push(("client_assertion", assertion));
            }
        }
        Ok(Asked { form, authorization })
    }
}

/// Who we are to this issuer: as the operator says, else as we were told before, else we ask.
pub(super) async fn client_for(
    gate: &Gate,
    held: &Held,
    issuer: &Issuer,
    known: Option<&Client>,
    redirect: Option<&str>,
) -> Result<Client, NotSignedIn> {
    let named =
        |id: &str, proof| Client { issuer: issuer.issuer.clone(), id: id.to_owned(), proof, redirect: None };
    match &held.settings.client {
        ClientKind::Public { id } => Ok(named(id, Proof::Nothing)),
        ClientKind::Secret { id, secret } => {
            let secret = gate.secret(secret).await.ok_or(NotSignedIn::NoSecret)?;
            let proof = if issuer.takes("client_secret_basic") || !issuer.takes("client_secret_post") {
                Proof::Basic(secret)
            } else {
                Proof::Post(secret)
            };
            Ok(named(id, proof))
        }
        ClientKind::Key { id, .. } => Ok(named(id, Proof::Key)),
        ClientKind::Document { url } if issuer.client_id_metadata_document_supported => {
            Ok(named(url, Proof::Nothing))
        }
        ClientKind::Document { .. } | ClientKind::Registered => {
            // What one issuer has given is shown to no other.
            let is_ours = |client: &&Client| {
                client.issuer == issuer.issuer && client.redirect.as_deref() == redirect && redirect.is_some()
            };
            match known.filter(is_ours) {
                Some(client) => Ok(client.clone()),
                None => register(gate, held, issuer, redirect).await,
            }
        }
    }
}

#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

async fn register(
    gate: &Gate,
    held: &Held,
    issuer: &Issuer,
    redirect: Option<&str>,
) -> Result<Client, NotSignedIn> {
    if issuer.registration_endpoint.is_none() {
        return Err(NotSignedIn::NotRegistered);
    }
    let redirect = redirect.ok_or(NotSignedIn::NotRegistered)?;
    let url = Issuer::endpoint(issuer.registration_endpoint.as_ref(), "registration_endpoint")?;
    let methods = ["none", "client_secret_basic", "client_secret_post"];
    let method = methods.into_iter().find(|method| issuer.takes(method)).unwrap_or("none");
    let about = json!({
        "client_name": "Toolgate",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    });
    let body = Some(("application/json", Zeroizing::new(about.to_string().into_bytes())));
    let question = Question { url: &url, body, headers: Vec::new(), most: MOST };
    let said = gate.fetch(question, &held.settings.bounds).await;
    let Said { status, body, .. } =
        said.map_err(|source| NotSignedIn::NoAnswer { place: url.as_str().to_owned(), source })?;
    if !matches!(status, 200 | 201) {
        return Err(NotSignedIn::Refused { error: super::token::error_of(status, &body) });
    }
    let told: Registration =
        serde_json::from_slice(&body).map_err(|_odd| NotSignedIn::Odd("registration"))?;
    let secret = told.client_secret.map(Secret::new);
    let method = told.token_endpoint_auth_method.as_deref().unwrap_or(method);
    let proof = match (secret, method) {
        (None, _) | (Some(_), "none") => Proof::Nothing,
        (Some(secret), "client_secret_post") => Proof::Post(secret),
        (Some(secret), _) => Proof::Basic(secret),
    };
    let id = text_of(told.client_id).ok_or(NotSignedIn::Odd("registration"))?;
    Ok(Client { issuer: issuer.issuer.clone(), id, proof, redirect: Some(redirect.to_owned()) })
}

/// A text as it stands in a form.
pub(super) fn encoded(text: &str) -> Zeroizing<String> {
    crate::credentials::percent_encode(text)
}

/// A form, as it is sent.
pub(super) fn form_of(fields: &[(&'static str, Zeroizing<String>)]) -> Zeroizing<Vec<u8>> {
    let mut form = Zeroizing::new(Vec::new());
    for (place, (name, value)) in fields.iter().enumerate() {
        if place > 0 {
            form.push(b'&');
        }
        form.extend_from_slice(name.as_bytes());
        form.push(b'=');
        form.extend_from_slice(encoded(value).as_bytes());
    }
    form
}

/// A word of ours about ourselves, signed with ES256 (RFC 7523).
fn assertion(pem: &Secret, id: &str, issuer: &str, now: i64) -> Result<Zeroizing<String>, NotSignedIn> {
    let odd = |_| NotSignedIn::NoSecret;
    let key =
        PrivatePkcs8KeyDer::from_pem_slice(pem.expose().as_bytes()).map_err(|_| NotSignedIn::NoSecret)?;
    let random_source = SystemRandom::new();
    let key =
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der(), &random_source)
            .map_err(odd)?;
    let head = URL_SAFE_NO_PAD.encode(json!({ "alg": "ES256", "typ": "JWT" }).to_string());
    let claims =
        json!({ "iss": id, "sub": id, "aud": issuer, "iat": now, "exp": now + 60, "jti": *random()? });
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let signature = key.sign(&random_source, signed.as_bytes()).map_err(|_| NotSignedIn::NoSecret)?;
    Ok(Zeroizing::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))))
}

//! An authenticator in software, as WebAuthn has it: an honest one, and one that is told to lie.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value as Cbor;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::Try;

/// Somebody is there, and the authenticator knows who.
pub(super) const THERE: u8 = 0x05;

pub(super) struct Authenticator(EcdsaKeyPair);

impl Authenticator {
    pub(super) fn new() -> Try<Authenticator> {
        let random = SystemRandom::new();
        let failed = |_| "no key could be made";
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).map_err(failed)?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, made.as_ref(), &random);
        Ok(Authenticator(key.map_err(|_| "no key could be read")?))
    }

    /// The body that registers it.
    pub(super) fn register(&self, challenge: &str, origin: &str) -> Try<Value> {
        let point = self.0.public_key().as_ref();
        let (x, y) = point.get(1..).and_then(|point| point.split_at_checked(32)).ok_or("no point")?;
        let entry = |label: i64, value: Cbor| (Cbor::Integer(label.into()), value);
        let key = Cbor::Map(vec![
            entry(1, Cbor::Integer(2.into())),
            entry(3, Cbor::Integer((-7).into())),
            entry(-1, Cbor::Integer(1.into())),
            entry(-2, Cbor::Bytes(x.to_vec())),
            entry(-3, Cbor::Bytes(y.to_vec())),
        ]);
        let mut data = data(THERE | 0x40, 0);
        data.extend([0; 16]);
        data.extend([0, 4]);
        data.extend(b"key1");
        ciborium::into_writer(&key, &mut data)?;
        let object = Cbor::Map(vec![
            (Cbor::Text("fmt".into()), Cbor::Text("none".into())),
            (Cbor::Text("attStmt".into()), Cbor::Map(Vec::new())),
            (Cbor::Text("authData".into()), Cbor::Bytes(data)),
        ]);
        let mut attestation = Vec::new();
        ciborium::into_writer(&object, &mut attestation)?;
        let said = client_data("webauthn.create", challenge, origin);
        Ok(json!({ "label": "mine", "client_data": encode(&said), "attestation": encode(&attestation) }))
    }

    /// The body that signs in with it.
    pub(super) fn sign_in(&self, challenge: &str, origin: &str, flags: u8, uses: u32) -> Try<Value> {
        let (said, data) = (client_data("webauthn.get", challenge, origin), data(flags, uses));
        let signed = [data.as_slice(), digest(&SHA256, &said).as_ref()].concat();
        let signature = self.0.sign(&SystemRandom::new(), &signed).map_err(|_| "no signature")?;
        Ok(json!({ "id": encode(b"key1"), "client_data": encode(&said), "authenticator_data": encode(&data),
            "signature": encode(signature.as_ref()) }))
    }
}

fn data(flags: u8, uses: u32) -> Vec<u8> {
    [digest(&SHA256, b"localhost").as_ref(), &[flags], &uses.to_be_bytes()].concat()
}

fn client_data(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
    json!({ "type": kind, "challenge": challenge, "origin": origin }).to_string().into_bytes()
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

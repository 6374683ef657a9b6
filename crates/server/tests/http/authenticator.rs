//! An authenticator in software, as WebAuthn has it, for what a browser would do.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value as Cbor;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) struct Authenticator(EcdsaKeyPair);

impl Authenticator {
    pub(crate) fn new() -> Authenticator {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, made.as_ref(), &random);
        Authenticator(key.unwrap())
    }

    fn data(flags: u8, uses: u32) -> Vec<u8> {
        [digest(&SHA256, b"localhost").as_ref(), &[flags], &uses.to_be_bytes()].concat()
    }

    fn client_data(kind: &str, challenge: &str, origin: &str) -> Vec<u8> {
        json!({ "type": kind, "challenge": challenge, "origin": origin }).to_string().into_bytes()
    }

    /// The body that registers it.
    pub(crate) fn register(&self, challenge: &str, origin: &str) -> Value {
        let point = self.0.public_key().as_ref();
        let entry = |label: i64, value: Cbor| (Cbor::Integer(label.into()), value);
        let key = Cbor::Map(vec![
            entry(1, Cbor::Integer(2.into())),
            entry(3, Cbor::Integer((-7).into())),
            entry(-1, Cbor::Integer(1.into())),
            entry(-2, Cbor::Bytes(point[1..33].to_vec())),
            entry(-3, Cbor::Bytes(point[33..].to_vec())),
        ]);
        let mut data = Authenticator::data(0x45, 0);
        data.extend([0; 16]);
        data.extend([0, 4]);
        data.extend(b"key1");
        ciborium::into_writer(&key, &mut data).unwrap();
        let mut attestation = Vec::new();
        let object = Cbor::Map(vec![
            (Cbor::Text("fmt".into()), Cbor::Text("none".into())),
            (Cbor::Text("attStmt".into()), Cbor::Map(Vec::new())),
            (Cbor::Text("authData".into()), Cbor::Bytes(data)),
        ]);
        ciborium::into_writer(&object, &mut attestation).unwrap();
        let client_data = Authenticator::client_data("webauthn.create", challenge, origin);
        json!({ "label": "mine", "client_data": URL_SAFE_NO_PAD.encode(client_data),
            "attestation": URL_SAFE_NO_PAD.encode(attestation) })
    }

    /// The body that signs in with it.
    pub(crate) fn sign_in(&self, challenge: &str, origin: &str) -> Value {
        let client_data = Authenticator::client_data("webauthn.get", challenge, origin);
        let data = Authenticator::data(0x05, 7);
        let signed = [data.as_slice(), digest(&SHA256, &client_data).as_ref()].concat();
        let signature = self.0.sign(&SystemRandom::new(), &signed).unwrap();
        json!({ "id": URL_SAFE_NO_PAD.encode(b"key1"), "client_data": URL_SAFE_NO_PAD.encode(client_data),
            "authenticator_data": URL_SAFE_NO_PAD.encode(data), "signature": URL_SAFE_NO_PAD.encode(signature) })
    }
}

//! Receipts: the statement of a settled call in a DSSE envelope.
//!
//! # Invariants
//! - The payload is canonical JSON, and it is the body of the ledger entry that settles the call, byte for byte.

use base64::prelude::{BASE64_STANDARD, Engine};
use contract::{Canonical, CanonicalError, ReceiptBody};
use serde::Deserialize;
use thiserror::Error;

use crate::keys::{Keys, PublicKey};

/// What the payload is.
pub(crate) const PAYLOAD_TYPE: &str = "application/vnd.toolgate.receipt+json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Deserialize)]
struct EnvelopeSignature {
    #[serde(default)]
    #[expect(dead_code, reason = "a hint that has to be a text, and by which nothing is decided")]
    keyid: String,
    sig: String,
}

/// Why a receipt proves nothing.
#[derive(Debug, Error)]
pub enum ReceiptError {
    /// It is not JSON.
    #[error("the receipt is not acceptable JSON")]
    Json(#[source] CanonicalError),
    /// It is not an envelope.
    #[error("the receipt is not a DSSE envelope")]
    Envelope(#[source] serde_json::Error),
    /// It holds something else.
    #[error("the envelope holds `{found}`, not a receipt")]
    PayloadType {
        /// What it says it holds.
        found: String,
    },
    /// A part of it is not base64.
    #[error("the {what} of the receipt is not base64")]
    Base64 {
        /// Which part.
        what: &'static str,
    },
    /// The key has not signed it.
    #[error("the receipt is not signed by this key")]
    Signature,
    /// What was signed is as it was, and what is around it is not.
    #[error("the envelope around the receipt has changed")]
    Refiled,
    /// What was signed is not a receipt.
    #[error("what was signed is not a receipt")]
    Payload,
}

/// Signs a statement. The payload is canonical JSON already.
pub(crate) fn sign(payload: &str, keys: &Keys) -> String {
    let signature = keys.sign(&pre_authentication(PAYLOAD_TYPE, payload.as_bytes()));
    write(payload, keys.public(), &BASE64_STANDARD.encode(signature))
}

fn write(payload: &str, key: &PublicKey, sig: &str) -> String {
    let keyid = key.id();
    // Canonical as it stands: the members are in order, and no letter of base64 or of a key's id is written in another way.
    let rest =
        format!(r#"","payloadType":"{PAYLOAD_TYPE}","signatures":[{{"keyid":"{keyid}","sig":"{sig}"}}]}}"#);
    let mut envelope =
        String::with_capacity(r#"{"payload":""#.len() + payload.len().div_ceil(3) * 4 + rest.len());
    envelope.push_str(r#"{"payload":""#);
    BASE64_STANDARD.encode_string(payload, &mut envelope);
    envelope.push_str(&rest);
    envelope
}

/// Checks a receipt with nothing but a public key, and returns what it says.
pub fn verify_receipt(json: &str, key: &PublicKey) -> Result<ReceiptBody, ReceiptError> {
    let payload = open(json, key)?;
    serde_json::from_str(&payload).map_err(|_| ReceiptError::Payload)
}

/// The signed payload of a receipt that is, byte for byte, as this gate files them.
pub(crate) fn open_own(json: &str, key: &PublicKey) -> Result<String, ReceiptError> {
    let payload = open(json, key)?;
    let envelope: Envelope = serde_json::from_str(json).map_err(ReceiptError::Envelope)?;
    let signature = envelope.signatures.into_iter().next().map(|signature| signature.sig);
    match write(&payload, key, &signature.unwrap_or_default()) == json {
        true => Ok(payload),
        false => Err(ReceiptError::Refiled),
    }
}

/// The signed payload: canonical JSON.
pub(crate) fn open(json: &str, key: &PublicKey) -> Result<String, ReceiptError> {
    let envelope = Canonical::parse(json).map_err(ReceiptError::Json)?.into_value();
    let envelope: Envelope = serde_json::from_value(envelope).map_err(ReceiptError::Envelope)?;
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(ReceiptError::PayloadType { found: envelope.payload_type });
    }
    let decode = |text: &str, what| BASE64_STANDARD.decode(text).map_err(|_| ReceiptError::Base64 { what });
    let payload = decode(&envelope.payload, "payload")?;
    let message = pre_authentication(&envelope.payload_type, &payload);
    // The key id is a hint and nothing is decided by it.
    let mut signed = false;
    for signature in &envelope.signatures {
        signed |= key.verifies(&message, &decode(&signature.sig, "signature")?);
    }
    if !signed {
        return Err(ReceiptError::Signature);
    }
    let payload = String::from_utf8(payload).map_err(|_| ReceiptError::Payload)?;
    match Canonical::parse(&payload) {
        Ok(canonical) if canonical.text() == payload => Ok(payload),
        _ => Err(ReceiptError::Payload),
    }
}

/// What is signed: DSSE's pre-authentication encoding.
fn pre_authentication(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(folder: &tempfile::TempDir) -> Keys {
        Keys::load_or_create(folder.path()).unwrap()
    }

    #[test]
    fn the_bytes_that_are_signed_are_those_of_the_specification() {
        // The example of DSSE's protocol.md.
        let bytes = pre_authentication("http://example.com/HelloWorld", b"hello world");
        assert_eq!(bytes, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }

    #[test]
    fn an_envelope_is_canonical_json() {
        let home = tempfile::tempdir().unwrap();
        let envelope = sign(r#"{"a":"é\n\"/"}"#, &keys(&home));
        assert_eq!(Canonical::parse(&envelope).unwrap().text(), envelope);
    }

    #[test]
    fn an_envelope_opens_with_its_key_only() {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let envelope = sign(r#"{"a":1}"#, &keys(&home));
        assert_eq!(open(&envelope, keys(&home).public()).unwrap(), r#"{"a":1}"#);
        assert!(matches!(open(&envelope, keys(&other).public()), Err(ReceiptError::Signature)));
    }

    #[test]
    fn any_changed_byte_of_payload_or_signature_is_found() {
        let home = tempfile::tempdir().unwrap();
        let keys = keys(&home);
        let envelope = sign(r#"{"a":1}"#, &keys);
        let keyid = envelope.find("keyid").unwrap();
        let hint = keyid..keyid + r#"keyid":"0123456789abcdef""#.len();
        for at in (0..envelope.len()).filter(|at| !hint.contains(at)) {
            for flip in [1, 2, 0x20] {
                let mut bytes = envelope.clone().into_bytes();
                bytes[at] ^= flip;
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                assert!(open(&changed, keys.public()).is_err(), "byte {at}: {changed}");
            }
        }
    }

    #[test]
    fn in_a_ledger_even_the_hint_counts() {
        let home = tempfile::tempdir().unwrap();
        let keys = keys(&home);
        let envelope = sign(r#"{"a":1}"#, &keys);
        assert_eq!(open_own(&envelope, keys.public()).unwrap(), r#"{"a":1}"#);
        let id = keys.public().id();
        for changed in
            [envelope.replace(&id, "0"), envelope.replace("keyid", "kexid"), format!("{envelope} ")]
        {
            assert!(open(&changed, keys.public()).is_ok());
            assert!(matches!(open_own(&changed, keys.public()), Err(ReceiptError::Refiled)));
        }
    }

    #[test]
    fn a_payload_that_is_not_canonical_is_refused_although_it_is_signed() {
        let home = tempfile::tempdir().unwrap();
        let keys = keys(&home);
        for payload in [r#"{"a":1,"a":2}"#, r#"{ "a":1}"#, "", "x"] {
            let envelope = sign(payload, &keys);
            assert!(matches!(open(&envelope, keys.public()), Err(ReceiptError::Payload)), "{payload}");
        }
    }

    #[test]
    fn what_is_no_envelope_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let keys = keys(&home);
        let other_type = sign("{}", &keys).replace("receipt+json", "receipt+jsom");
        assert!(matches!(open(&other_type, keys.public()), Err(ReceiptError::PayloadType { .. })));
        let unsigned =
            r#"{"payload":"e30=","payloadType":"application/vnd.toolgate.receipt+json","signatures":[]}"#;
        assert!(matches!(open(unsigned, keys.public()), Err(ReceiptError::Signature)));
        assert!(matches!(open("[]", keys.public()), Err(ReceiptError::Envelope(_))));
        assert!(matches!(open("", keys.public()), Err(ReceiptError::Json(_))));
    }
}

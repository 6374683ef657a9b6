//! Checks what an authenticator says, as WebAuthn (Level 2, §7) has it: that a key is new, and that its owner is there.
//!
//! Pure: it knows no clock, no store and no connection. What it is told of the site is what the guard has checked.
//!
//! # Invariants
//! - An answer counts for one challenge, one origin and one relying party, with the user present and verified.
//! - A key is used for the kind of signature that was registered for it, and for no other.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value as Cbor;
use ring::digest::{SHA256, digest};
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use thiserror::Error;

/// Kinds of signatures, by the numbers that COSE gives them, in the order in which we like them.
pub(super) const ALGORITHMS: [i64; 3] = [ES256, EDDSA, RS256];
const ES256: i64 = -7;
const EDDSA: i64 = -8;
const RS256: i64 = -257;

/// How deep what an authenticator says may be nested.
const DEEPEST: usize = 8;
/// How much of it is read.
const LONGEST: usize = 64 * 1024;
/// The longest id of a credential, as the specification has it.
const LONGEST_ID: usize = 1023;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const HAS_CREDENTIAL: u8 = 0x40;

/// Where an answer has to come from, and to what.
pub(super) struct Site<'a> {
    /// The challenge that was given out.
    pub(super) challenge: &'a [u8],
    /// The page's origin, such as `http://localhost:7433`.
    pub(super) origin: &'a str,
    /// The name that keys are bound to, such as `localhost`.
    pub(super) relying_party: &'a str,
}

/// A key that an authenticator has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewKey {
    /// By which it finds the key again.
    pub(super) id: Vec<u8>,
    pub(super) algorithm: i64,
    /// As its kind writes it.
    pub(super) public_key: Vec<u8>,
    pub(super) uses: u32,
}

/// Why an answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum NotProved {
    #[error("what the browser says is not understood")]
    Garbled,
    #[error("it is the answer to another question")]
    Challenge,
    #[error("it was made for another page")]
    Origin,
    #[error("it was made for another name than this gate's")]
    RelyingParty,
    #[error("the authenticator has not made sure who is there")]
    NotVerified,
    #[error("the authenticator's kind of key is not known here")]
    Algorithm,
    #[error("the signature is not by this key")]
    Signature,
}

/// What the browser says about its own part.
#[derive(Deserialize)]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
}

/// Reads the answer to a wish for a new key. Who made the authenticator is not asked.
pub(super) fn check_new_key(
    client_data: &[u8],
    attestation: &[u8],
    site: &Site<'_>,
) -> Result<NewKey, NotProved> {
    check_client_data(client_data, "webauthn.create", site)?;
    let object = read_cbor(&mut &*attestation)?;
    let data = member(&object, &Cbor::Text("authData".to_owned())).and_then(Cbor::as_bytes);
    let data = AuthenticatorData::read(data.ok_or(NotProved::Garbled)?)?;
    data.check(site)?;
    let (id, key) = data.credential.ok_or(NotProved::Garbled)?;
    let (algorithm, public_key) = read_key(&key)?;
    Ok(NewKey { id, algorithm, public_key, uses: data.uses })
}

/// Checks an answer by a key that is known. How often the authenticator says that it was used.
pub(super) fn check_answer(
    client_data: &[u8],
    authenticator_data: &[u8],
    signature: &[u8],
    (algorithm, public_key): (i64, &[u8]),
    site: &Site<'_>,
) -> Result<u32, NotProved> {
    check_client_data(client_data, "webauthn.get", site)?;
    let data = AuthenticatorData::read(authenticator_data)?;
    data.check(site)?;
    let signed = [authenticator_data, digest(&SHA256, client_data).as_ref()].concat();
    let checked = match algorithm {
        ES256 => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, public_key).verify(&signed, signature),
        EDDSA => UnparsedPublicKey::new(&ED25519, public_key).verify(&signed, signature),
        RS256 => {
            let (modulus, exponent) = split_rsa(public_key).ok_or(NotProved::Algorithm)?;
            let key = RsaPublicKeyComponents { n: modulus, e: exponent };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, &signed, signature)
        }
        _ => return Err(NotProved::Algorithm),
    };
    // ATTACK(forged-passkey)
    checked.map_err(|_| NotProved::Signature)?;
    Ok(data.uses)
}

fn check_client_data(bytes: &[u8], kind: &str, site: &Site<'_>) -> Result<(), NotProved> {
    let data: ClientData = serde_json::from_slice(bytes).map_err(|_| NotProved::Garbled)?;
    // An answer for one purpose is none for another.
    if data.r#type != kind {
        return Err(NotProved::Challenge);
    }
    // ATTACK(forged-passkey)
    if URL_SAFE_NO_PAD.decode(&data.challenge).ok().as_deref() != Some(site.challenge) {
        return Err(NotProved::Challenge);
    }
    // ATTACK(forged-passkey)
    if data.origin != site.origin || data.cross_origin {
        return Err(NotProved::Origin);
    }
    Ok(())
}

struct AuthenticatorData {
    relying_party: [u8; 32],
    flags: u8,
    uses: u32,
    /// A new key's id and the key, as COSE writes it.
    credential: Option<(Vec<u8>, Cbor)>,
}

impl AuthenticatorData {
    fn read(bytes: &[u8]) -> Result<AuthenticatorData, NotProved> {
        let (relying_party, rest) = bytes.split_first_chunk::<32>().ok_or(NotProved::Garbled)?;
        let (flags, rest) = rest.split_first().ok_or(NotProved::Garbled)?;
        let (uses, rest) = rest.split_first_chunk::<4>().ok_or(NotProved::Garbled)?;
        let mut credential = None;
        if flags & HAS_CREDENTIAL != 0 {
            // Sixteen bytes that name the make of the authenticator.
            let (_, rest) = rest.split_at_checked(16).ok_or(NotProved::Garbled)?;
            let (length, rest) = rest.split_first_chunk::<2>().ok_or(NotProved::Garbled)?;
            let length = usize::from(u16::from_be_bytes(*length));
            if length == 0 || length > LONGEST_ID {
                return Err(NotProved::Garbled);
            }
            let (id, mut rest) = rest.split_at_checked(length).ok_or(NotProved::Garbled)?;
            credential = Some((id.to_vec(), read_cbor(&mut rest)?));
        }
        let uses = u32::from_be_bytes(*uses);
        Ok(AuthenticatorData { relying_party: *relying_party, flags: *flags, uses, credential })
    }

    fn check(&self, site: &Site<'_>) -> Result<(), NotProved> {
        if self.relying_party != digest(&SHA256, site.relying_party.as_bytes()).as_ref() {
            return Err(NotProved::RelyingParty);
        }
        // ATTACK(forged-passkey): somebody is there, and the authenticator knows who.
        let there = USER_PRESENT | USER_VERIFIED;
        if self.flags & there == there { Ok(()) } else { Err(NotProved::NotVerified) }
    }
}

/// Reads one item, however it is nested, within limits.
fn read_cbor(bytes: &mut &[u8]) -> Result<Cbor, NotProved> {
    if bytes.len() > LONGEST {
        return Err(NotProved::Garbled);
    }
    ciborium::de::from_reader_with_recursion_limit(bytes, DEEPEST).map_err(|_| NotProved::Garbled)
}

fn member<'a>(map: &'a Cbor, key: &Cbor) -> Option<&'a Cbor> {
    let mut found = map.as_map()?.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
    let value = found.next()?;
    // What stands twice has two meanings.
    if found.next().is_some() { None } else { Some(value) }
}

/// The kind of a key and the key itself, from how COSE writes it (RFC 9053).
fn read_key(key: &Cbor) -> Result<(i64, Vec<u8>), NotProved> {
    let at = |label: i64| member(key, &Cbor::Integer(label.into()));
    let number =
        |label: i64| at(label).and_then(Cbor::as_integer).and_then(|number| i64::try_from(number).ok());
    let bytes = |label: i64| at(label).and_then(Cbor::as_bytes).map(Vec::as_slice);
    let (kind, algorithm) = (number(1), number(3).ok_or(NotProved::Algorithm)?);
    let public_key = match (kind, algorithm, number(-1)) {
        (Some(2), ES256, Some(1)) => match (bytes(-2), bytes(-3)) {
            (Some(x), Some(y)) if x.len() == 32 && y.len() == 32 => [&[4], x, y].concat(),
            _ => return Err(NotProved::Garbled),
        },
        (Some(1), EDDSA, Some(6)) => match bytes(-2) {
            Some(x) if x.len() == 32 => x.to_vec(),
            _ => return Err(NotProved::Garbled),
        },
        // The modulus and the exponent stand where a curve would.
        (Some(3), RS256, None) => match (bytes(-1), bytes(-2)) {
            (Some(modulus), Some(exponent)) if modulus.len() >= 256 && exponent.len() <= 8 => {
                let length = u16::try_from(modulus.len()).map_err(|_| NotProved::Garbled)?;
                [&length.to_be_bytes(), modulus, exponent].concat()
            }
            _ => return Err(NotProved::Garbled),
        },
        _ => return Err(NotProved::Algorithm),
    };
    Ok((algorithm, public_key))
}

fn split_rsa(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = key.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};

    use super::*;

    const SITE: Site<'static> =
        Site { challenge: b"a challenge", origin: "http://localhost:1", relying_party: "localhost" };
    const THERE: u8 = USER_PRESENT | USER_VERIFIED;

    /// An authenticator in a few lines, as the specification has it.
    struct Authenticator(EcdsaKeyPair);

    impl Authenticator {
        fn new() -> Authenticator {
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.as_ref(), &random);
            Authenticator(key.unwrap())
        }

        fn data(relying_party: &str, flags: u8, uses: u32) -> Vec<u8> {
            let hash = digest(&SHA256, relying_party.as_bytes());
            [hash.as_ref(), &[flags], &uses.to_be_bytes()].concat()
        }

        fn key(&self, algorithm: i64) -> Cbor {
            let point = self.0.public_key().as_ref();
            let entry = |label: i64, value: Cbor| (Cbor::Integer(label.into()), value);
            Cbor::Map(vec![
                entry(1, Cbor::Integer(2.into())),
                entry(3, Cbor::Integer(algorithm.into())),
                entry(-1, Cbor::Integer(1.into())),
                entry(-2, Cbor::Bytes(point[1..33].to_vec())),
                entry(-3, Cbor::Bytes(point[33..].to_vec())),
            ])
        }

        fn attestation(&self, relying_party: &str, flags: u8, algorithm: i64) -> Vec<u8> {
            let mut data = Authenticator::data(relying_party, flags | HAS_CREDENTIAL, 3);
            data.extend([0; 16]);
            data.extend([0, 4]);
            data.extend(b"key1");
            ciborium::into_writer(&self.key(algorithm), &mut data).unwrap();
            let object = Cbor::Map(vec![
                (Cbor::Text("fmt".into()), Cbor::Text("none".into())),
                (Cbor::Text("attStmt".into()), Cbor::Map(Vec::new())),
                (Cbor::Text("authData".into()), Cbor::Bytes(data)),
            ]);
            let mut bytes = Vec::new();
            ciborium::into_writer(&object, &mut bytes).unwrap();
            bytes
        }

        fn sign(&self, data: &[u8], client_data: &[u8]) -> Vec<u8> {
            let signed = [data, digest(&SHA256, client_data).as_ref()].concat();
            self.0.sign(&SystemRandom::new(), &signed).unwrap().as_ref().to_vec()
        }
    }

    fn client_data(kind: &str, challenge: &[u8], origin: &str) -> Vec<u8> {
        let challenge = URL_SAFE_NO_PAD.encode(challenge);
        serde_json::json!({ "type": kind, "challenge": challenge, "origin": origin, "crossOrigin": false })
            .to_string()
            .into_bytes()
    }

    fn made(kind: &str) -> Vec<u8> {
        client_data(kind, SITE.challenge, SITE.origin)
    }

    #[test]
    fn a_new_key_answers_for_itself() {
        let authenticator = Authenticator::new();
        let attestation = authenticator.attestation("localhost", THERE, ES256);
        let key = check_new_key(&made("webauthn.create"), &attestation, &SITE).unwrap();
        assert_eq!((key.id.as_slice(), key.algorithm, key.uses), (b"key1".as_slice(), ES256, 3));
        let (data, said) = (Authenticator::data("localhost", THERE, 4), made("webauthn.get"));
        let signature = authenticator.sign(&data, &said);
        assert_eq!(check_answer(&said, &data, &signature, (ES256, &key.public_key), &SITE), Ok(4));
    }

    #[test]
    fn an_answer_that_is_off_in_anything_does_not_count() {
        let authenticator = Authenticator::new();
        let attestation = authenticator.attestation("localhost", THERE, ES256);
        let key = check_new_key(&made("webauthn.create"), &attestation, &SITE).unwrap().public_key;
        let answer = |data: Vec<u8>, said: Vec<u8>, kind: i64| {
            let signature = authenticator.sign(&data, &said);
            check_answer(&said, &data, &signature, (kind, &key), &SITE)
        };
        let data = || Authenticator::data("localhost", THERE, 4);
        let said = || made("webauthn.get");
        let of = |challenge: &[u8], origin| client_data("webauthn.get", challenge, origin);
        assert_eq!(answer(data(), said(), ES256), Ok(4));
        assert_eq!(answer(data(), made("webauthn.create"), ES256), Err(NotProved::Challenge));
        assert_eq!(answer(data(), of(b"another", SITE.origin), ES256), Err(NotProved::Challenge));
        assert_eq!(answer(data(), of(b"", SITE.origin), ES256), Err(NotProved::Challenge));
        for origin in ["http://localhost:2", "https://localhost:1", "http://evil.example", "null", ""] {
            assert_eq!(answer(data(), of(SITE.challenge, origin), ES256), Err(NotProved::Origin), "{origin}");
        }
        let framed = String::from_utf8(said()).unwrap().replace("false", "true").into_bytes();
        assert_eq!(answer(data(), framed, ES256), Err(NotProved::Origin));
        let elsewhere = Authenticator::data("evil.example", THERE, 4);
        assert_eq!(answer(elsewhere, said(), ES256), Err(NotProved::RelyingParty));
        for flags in [0, USER_PRESENT, USER_VERIFIED] {
            let data = Authenticator::data("localhost", flags, 4);
            assert_eq!(answer(data, said(), ES256), Err(NotProved::NotVerified));
        }
        // The key is of another kind than was registered.
        for kind in [EDDSA, RS256] {
            assert!(matches!(answer(data(), said(), kind), Err(NotProved::Signature | NotProved::Algorithm)));
        }
        assert_eq!(answer(data(), said(), -999), Err(NotProved::Algorithm));
        // Another's signature, one over other bytes, and none.
        let (data, said) = (data(), said());
        let other = Authenticator::new().sign(&data, &said);
        assert_eq!(check_answer(&said, &data, &other, (ES256, &key), &SITE), Err(NotProved::Signature));
        let more = Authenticator::data("localhost", THERE, 9);
        let signature = authenticator.sign(&data, &said);
        assert_eq!(check_answer(&said, &more, &signature, (ES256, &key), &SITE), Err(NotProved::Signature));
        assert_eq!(check_answer(&said, &data, &[], (ES256, &key), &SITE), Err(NotProved::Signature));
    }

    #[test]
    fn a_new_key_that_is_off_is_not_taken() {
        let authenticator = Authenticator::new();
        let check = |said: Vec<u8>, attestation: Vec<u8>| check_new_key(&said, &attestation, &SITE);
        let good = || authenticator.attestation("localhost", THERE, ES256);
        let said = || made("webauthn.create");
        assert!(check(said(), good()).is_ok());
        assert_eq!(check(made("webauthn.get"), good()), Err(NotProved::Challenge));
        let unverified = authenticator.attestation("localhost", USER_PRESENT, ES256);
        assert_eq!(check(said(), unverified), Err(NotProved::NotVerified));
        let elsewhere = authenticator.attestation("evil.example", THERE, ES256);
        assert_eq!(check(said(), elsewhere), Err(NotProved::RelyingParty));
        let odd = authenticator.attestation("localhost", THERE, -999);
        assert_eq!(check(said(), odd), Err(NotProved::Algorithm));
        let whole = good();
        for end in 0..whole.len() {
            assert!(check(said(), whole[..end].to_vec()).is_err(), "{end}");
        }
        let deep = [vec![0x81; 10_000], vec![0]].concat();
        assert_eq!(check(said(), deep), Err(NotProved::Garbled));
        assert_eq!(
            check(said(), vec![0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
            Err(NotProved::Garbled)
        );
        assert_eq!(check(b"[]".to_vec(), good()), Err(NotProved::Garbled));
    }
}

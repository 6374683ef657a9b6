//! The private key of a credential, for as long as somebody may ask for a signature.

use ed25519_dalek::Signer as _;
use ring::rand::SystemRandom;
use ring::rsa::{self, KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256,
    RSA_PKCS1_SHA512,
};
use ssh_key::PrivateKey;
use ssh_key::private::{EcdsaKeypair, KeypairData, RsaKeypair};
use zeroize::Zeroizing;

use super::wire::{big_number, string, without_zeros};
use crate::credentials::Secret;
use crate::events::Denial;

/// What a client may ask of an RSA key.
const RSA_SHA2_256: u32 = 2;
const RSA_SHA2_512: u32 = 4;

/// A private key that can sign. What holds an Ed25519 key is zeroed when it is dropped.
pub(crate) struct SigningKey {
    private: Private,
    /// The public half, as it goes over the wire.
    blob: Vec<u8>,
}

enum Private {
    Ed25519(Box<ed25519_dalek::SigningKey>),
    EcdsaP256(EcdsaKeyPair),
    EcdsaP384(EcdsaKeyPair),
    Rsa(Box<rsa::KeyPair>),
}

/// How a signature is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Ed25519,
    EcdsaP256,
    EcdsaP384,
    RsaSha256,
    RsaSha512,
}

impl Scheme {
    pub(super) fn name(self) -> &'static str {
        match self {
            Scheme::Ed25519 => "ssh-ed25519",
            Scheme::EcdsaP256 => "ecdsa-sha2-nistp256",
            Scheme::EcdsaP384 => "ecdsa-sha2-nistp384",
            Scheme::RsaSha256 => "rsa-sha2-256",
            Scheme::RsaSha512 => "rsa-sha2-512",
        }
    }
}

impl SigningKey {
    /// Reads a private key in the form of OpenSSH.
    pub(crate) fn read(secret: &Secret) -> Result<SigningKey, Denial> {
        // The end of the last line was taken for no part of the secret.
        let text = Zeroizing::new(format!("{}\n", secret.expose()));
        let key = PrivateKey::from_openssh(text.as_bytes()).map_err(|_odd| Denial::UnfitKey)?;
        if key.is_encrypted() {
            return Err(Denial::EncryptedKey);
        }
        let blob = key.public_key().to_bytes().map_err(|_odd| Denial::UnfitKey)?;
        let private = private(key.key_data()).ok_or(Denial::UnfitKey)?;
        Ok(SigningKey { private, blob })
    }

    pub(super) fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// The way of signing that these flags ask for.
    pub(super) fn scheme(&self, flags: u32) -> Option<Scheme> {
        match &self.private {
            Private::Ed25519(_) => Some(Scheme::Ed25519),
            Private::EcdsaP256(_) => Some(Scheme::EcdsaP256),
            Private::EcdsaP384(_) => Some(Scheme::EcdsaP384),
            Private::Rsa(_) if flags & RSA_SHA2_512 != 0 => Some(Scheme::RsaSha512),
            Private::Rsa(_) if flags & RSA_SHA2_256 != 0 => Some(Scheme::RsaSha256),
            // Without either it would be by SHA-1.
            Private::Rsa(_) => None,
        }
    }

    /// A signature as it goes over the wire.
    pub(super) fn sign(&self, message: &[u8], scheme: Scheme) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        let signed = match &self.private {
            Private::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
            Private::EcdsaP256(key) | Private::EcdsaP384(key) => {
                let both = key.sign(&random, message).ok()?;
                let (r, s) = both.as_ref().split_at_checked(both.as_ref().len() / 2)?;
                [big_number(r), big_number(s)].concat()
            }
            Private::Rsa(key) => {
                let mut signed = vec![0; key.public().modulus_len()];
                let padding = if scheme == Scheme::RsaSha512 { &RSA_PKCS1_SHA512 } else { &RSA_PKCS1_SHA256 };
                key.sign(padding, &random, message, &mut signed).ok()?;
                signed
            }
        };
        Some([string(scheme.name().as_bytes()), string(&signed)].concat())
    }
}

/// The key, if its two halves belong together.
fn private(data: &KeypairData) -> Option<Private> {
    match data {
        KeypairData::Ed25519(pair) => {
            let seed = Zeroizing::new(pair.private.to_bytes());
            let key = Box::new(ed25519_dalek::SigningKey::from_bytes(&seed));
            (key.verifying_key().as_bytes() == &pair.public.0).then_some(Private::Ed25519(key))
        }
        KeypairData::Ecdsa(pair) => {
            let read = |algorithm| {
                let (private, public) = (pair.private_key_bytes(), pair.public_key_bytes());
                let random = SystemRandom::new();
                EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &random).ok()
            };
            match pair {
                EcdsaKeypair::NistP256 { .. } => {
                    read(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Private::EcdsaP256)
                }
                EcdsaKeypair::NistP384 { .. } => {
                    read(&ECDSA_P384_SHA384_FIXED_SIGNING).map(Private::EcdsaP384)
                }
                EcdsaKeypair::NistP521 { .. } => None,
            }
        }
        KeypairData::Rsa(pair) => rsa_key(pair).map(|key| Private::Rsa(Box::new(key))),
        _ => None,
    }
}

fn rsa_key(pair: &RsaKeypair) -> Option<rsa::KeyPair> {
    let RsaKeypair { public, private } = pair;
    let plain = |number: &ssh_key::Mpint| {
        number.as_positive_bytes().map(|bytes| Zeroizing::new(without_zeros(bytes).to_vec()))
    };
    let (d, p, q) = (plain(&private.d)?, plain(&private.p)?, plain(&private.q)?);
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n: plain(&public.n)?, e: plain(&public.e)? },
        dP: remainder(&d, &less_one(&p)),
        dQ: remainder(&d, &less_one(&q)),
        qInv: plain(&private.iqmp)?,
        d,
        p,
        q,
    };
    // It checks that they belong together.
    rsa::KeyPair::from_components(&components).ok()
}

/// An odd number less one.
fn less_one(odd: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut even = Zeroizing::new(odd.to_vec());
    if let Some(last) = even.last_mut() {
        *last &= 0xfe;
    }
    even
}

/// What is left of one number divided by another, bit by bit: it is done once for each key, and on this side.
fn remainder(dividend: &[u8], divisor: &[u8]) -> Zeroizing<Vec<u8>> {
    // With room for one bit more than the divisor has.
    let divisor = Zeroizing::new([&[0], divisor].concat());
    let mut left = Zeroizing::new(vec![0; divisor.len()]);
    for byte in dividend {
        for bit in (0..8).rev() {
            let mut carry = (byte >> bit) & 1;
            for place in left.iter_mut().rev() {
                let out = *place >> 7;
                *place = (*place << 1) | carry;
                carry = out;
            }
            if left.as_slice() >= divisor.as_slice() {
                let mut borrow = false;
                for (place, less) in left.iter_mut().zip(divisor.iter()).rev() {
                    let (once, first) = place.overflowing_sub(*less);
                    let (twice, second) = once.overflowing_sub(u8::from(borrow));
                    (*place, borrow) = (twice, first || second);
                }
            }
        }
    }
    Zeroizing::new(without_zeros(&left).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_division_is_less_than_the_divisor() {
        for (dividend, divisor) in [(0_u64, 7_u64), (6, 7), (7, 7), (65_537, 255), (u64::MAX, 0xffff_fff1)] {
            let left = remainder(&dividend.to_be_bytes(), &divisor.to_be_bytes());
            let expected = (dividend % divisor).to_be_bytes();
            assert_eq!(left.as_slice(), without_zeros(&expected), "{dividend} {divisor}");
        }
    }
}

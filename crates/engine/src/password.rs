//! Passwords: what is kept to compare one with, and the comparison.
//!
//! # Invariants
//! - A password is compared by argon2id with a salt of its own, and kept nowhere.
//! - Somebody who does not exist is compared with, too, and takes as long.

use std::fmt;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use contract::Digest;
use thiserror::Error;
use zeroize::Zeroizing;

/// Memory in KiB, rounds and lanes, as OWASP recommends for argon2id.
const COST: (u32, u32, u32) = (19 * 1024, 2, 1);
const SALT: usize = 16;
const HASH: usize = 32;
/// Room for blocks of memory, of which most is never touched. More than 32 MiB are given back to the system as soon as
/// they are free; less of it, the C library keeps for later, for each thread that has ever hashed.
const ROOM: usize = 33 * 1024;
/// The fewest characters that a password may have.
pub const SHORTEST_PASSWORD: usize = 12;
/// The most bytes.
const LONGEST: usize = 1024;

/// A password that somebody typed.
pub struct Password(Zeroizing<String>);

/// Why a text is no password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PasswordError {
    /// It can be guessed.
    #[error("a password has {SHORTEST_PASSWORD} characters at least")]
    TooShort,
    /// Nobody types that.
    #[error("a password has {LONGEST} bytes at most")]
    TooLong,
    /// It cannot be hashed.
    #[error("the password cannot be hashed")]
    Hash,
}

impl Password {
    /// One that somebody chooses.
    pub fn choose(text: &str) -> Result<Password, PasswordError> {
        if text.chars().count() < SHORTEST_PASSWORD {
            return Err(PasswordError::TooShort);
        }
        Password::type_in(text)
    }

    /// One that somebody types, right or wrong.
    pub fn type_in(text: &str) -> Result<Password, PasswordError> {
        if text.len() > LONGEST {
            return Err(PasswordError::TooLong);
        }
        Ok(Password(Zeroizing::new(text.to_owned())))
    }

    /// What it is compared with from now on. Takes a while, and 19 MiB.
    pub(crate) fn verifier(&self) -> Result<String, PasswordError> {
        let mut salt = [0_u8; SALT];
        getrandom::fill(&mut salt).map_err(|_| PasswordError::Hash)?;
        let hash = self.hash(COST, &salt).ok_or(PasswordError::Hash)?;
        let (memory, rounds, lanes) = COST;
        let (salt, hash) = (STANDARD_NO_PAD.encode(salt), STANDARD_NO_PAD.encode(hash.as_slice()));
        Ok(format!("$argon2id$v=19$m={memory},t={rounds},p={lanes}${salt}${hash}"))
    }

    /// Whether it is the one; where there is none, it is compared all the same. Takes a while, and 19 MiB.
    pub(crate) fn fits(&self, verifier: Option<&str>) -> bool {
        let read = verifier.and_then(read_verifier);
        let known = read.is_some();
        let (cost, salt, expected) = read.unwrap_or_else(|| (COST, vec![0; SALT], vec![0; HASH]));
        let Some(hash) = self.hash(cost, &salt) else { return false };
        // By digests: how long a comparison takes tells nothing of either.
        known && Digest::of(&*hash) == Digest::of(&expected)
    }

    fn hash(&self, (memory, rounds, lanes): (u32, u32, u32), salt: &[u8]) -> Option<Zeroizing<[u8; HASH]>> {
        let parameters = Params::new(memory, rounds, lanes, Some(HASH)).ok()?;
        let mut hash = Zeroizing::new([0; HASH]);
        let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
        let blocks = hasher.params().block_count();
        let mut memory: Vec<Block> = Vec::with_capacity(blocks.max(ROOM));
        memory.resize(blocks, Block::default());
        hasher
            .hash_password_into_with_memory(self.0.as_bytes(), salt, hash.as_mut_slice(), &mut memory)
            .ok()?;
        Some(hash)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

type Verifier = ((u32, u32, u32), Vec<u8>, Vec<u8>);

fn read_verifier(text: &str) -> Option<Verifier> {
    let mut parts = text.strip_prefix("$argon2id$v=19$")?.split('$');
    let mut costs = parts.next()?.split(',');
    let mut cost = |name: &str| costs.next()?.strip_prefix(name)?.parse::<u32>().ok();
    let cost = (cost("m=")?, cost("t=")?, cost("p=")?);
    let salt = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
    let hash = STANDARD_NO_PAD.decode(parts.next()?).ok()?;
    // Whoever writes the row does not choose how much memory a try takes.
    let modest = cost.0 <= 256 * 1024 && cost.1 <= 16 && cost.2 <= 8;
    (parts.next().is_none() && modest).then_some((cost, salt, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_fits_what_was_made_of_it_and_nothing_else_does() {
        let password = Password::choose("correct horse battery").unwrap();
        let verifier = password.verifier().unwrap();
        assert!(verifier.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{verifier}");
        assert!(password.fits(Some(&verifier)));
        assert!(!Password::type_in("correct horse batterx").unwrap().fits(Some(&verifier)));
        assert!(!password.fits(None));
        assert_ne!(password.verifier().unwrap(), verifier, "each has a salt of its own");
    }

    /// What this process has in memory that is no file's, in KiB.
    fn resident() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    #[test]
    fn what_hashing_takes_is_given_back() {
        let before = resident();
        for _ in 0..8 {
            std::thread::spawn(|| assert!(!Password::type_in("x").unwrap().fits(None))).join().unwrap();
        }
        // Others hash at the same time, in this very process.
        let most = before + 3 * 19 * 1024;
        assert!(resident() < most, "{before} KiB before, {} KiB after", resident());
    }

    #[test]
    fn what_is_no_verifier_fits_nothing() {
        let password = Password::type_in("").unwrap();
        for text in [
            "",
            "$argon2i$v=19$m=8,t=1,p=1$AAAA$AAAA",
            "$argon2id$v=19$m=4194304,t=1,p=1$AAAA$AAAA",
            "$argon2id$v=19$m=19456,t=2,p=1$$",
        ] {
            assert!(!password.fits(Some(text)), "{text}");
        }
    }

    #[test]
    fn a_short_one_and_an_endless_one_are_refused() {
        assert_eq!(Password::choose("short").unwrap_err(), PasswordError::TooShort);
        assert_eq!(Password::type_in(&"x".repeat(1025)).unwrap_err(), PasswordError::TooLong);
        assert_eq!(format!("{:?}", Password::type_in("secret").unwrap()), "Password(..)");
    }
}

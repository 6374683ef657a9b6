//! Checkpoints: the root of the ledger at one size, as a signed note (C2SP `tlog-checkpoint`, `signed-note`).
//!
//! # Invariants
//! - A checkpoint is read only if the key it is checked with has signed exactly its text.

use base64::prelude::{BASE64_STANDARD, Engine};
use thiserror::Error;

use super::lists::Lists;
use super::tree::Hash;
use crate::keys::{Keys, PublicKey};

/// No note is longer.
const MAX_NOTE: usize = 64 * 1024;

/// How a signature line begins: an em dash and a space.
const SIGNATURE: &str = "\u{2014} ";

/// The root of a ledger at one size, signed by its gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// How many entries.
    pub size: u64,
    /// The root over them.
    pub root: [u8; 32],
}

/// Why a note is not a checkpoint of ours.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoteError {
    /// It has another form.
    #[error("not a checkpoint: {why}")]
    Form {
        /// What is wrong.
        why: &'static str,
    },
    /// It is about another ledger.
    #[error("the checkpoint is of `{origin}`, another ledger")]
    Origin {
        /// Which.
        origin: String,
    },
    /// The key has not signed it.
    #[error("the checkpoint is not signed by this key")]
    Unsigned,
    /// The signature does not fit.
    #[error("the signature of the checkpoint does not fit its text")]
    Signature,
}

impl Checkpoint {
    fn text(&self, origin: &str) -> String {
        format!("{origin}\n{}\n{}\n", self.size, BASE64_STANDARD.encode(self.root))
    }

    /// The signed note.
    pub(crate) fn sign(&self, keys: &Keys) -> String {
        self.sign_with(keys, "")
    }

    /// The signed note of a head, which also says where the lists end.
    pub(crate) fn sign_head(&self, lists: &Lists, keys: &Keys) -> String {
        self.sign_with(keys, &lists.line())
    }

    fn sign_with(&self, keys: &Keys, further: &str) -> String {
        let name = keys.public().name();
        let text = format!("{}{further}", self.text(name));
        let mut signature = keys.public().note_hash().to_vec();
        signature.extend_from_slice(&keys.sign(text.as_bytes()));
        format!("{text}\n{SIGNATURE}{name} {}\n", BASE64_STANDARD.encode(signature))
    }

    /// Reads a signed note, and checks that the key has signed it. Signatures of others, witnesses say, are left alone.
    pub fn open(note: &str, key: &PublicKey) -> Result<Checkpoint, NoteError> {
        Checkpoint::open_head(note, key).map(|(checkpoint, _)| checkpoint)
    }

    /// The same for a head; earlier versions have written heads that say nothing of lists.
    pub(crate) fn open_head(note: &str, key: &PublicKey) -> Result<(Checkpoint, Option<Lists>), NoteError> {
        let form = |why| NoteError::Form { why };
        if note.len() > MAX_NOTE {
            return Err(form("it is too long"));
        }
        if note.chars().any(|c| c.is_control() && c != '\n') {
            return Err(form("it holds control characters"));
        }
        let (text, signatures) = note.rsplit_once("\n\n").ok_or(form("it has no signatures"))?;
        let text = format!("{text}\n");
        let signatures = signatures.strip_suffix('\n').ok_or(form("its last line does not end"))?;
        verify(&text, signatures, key)?;
        let mut lines = text.lines();
        let origin = lines.next().unwrap_or_default();
        if origin != key.name() {
            return Err(NoteError::Origin { origin: origin.chars().take(128).collect() });
        }
        let size = lines.next().and_then(decimal).ok_or(form("the second line is not a size"))?;
        let root = lines.next().and_then(|line| BASE64_STANDARD.decode(line).ok());
        let root = root.and_then(|root| root.try_into().ok()).ok_or(form("the third line is not a hash"))?;
        Ok((Checkpoint { size, root }, Lists::find(lines)))
    }
}

fn verify(text: &str, signatures: &str, key: &PublicKey) -> Result<(), NoteError> {
    let mut signed = Err(NoteError::Unsigned);
    for line in signatures.split('\n') {
        let parts = line.strip_prefix(SIGNATURE).and_then(|rest| rest.split_once(' '));
        let (name, signature) = parts.ok_or(NoteError::Form { why: "a signature line is not one" })?;
        let signature = BASE64_STANDARD
            .decode(signature)
            .map_err(|_| NoteError::Form { why: "a signature is not base64" })?;
        let (hash, signature) =
            signature.split_at_checked(4).ok_or(NoteError::Form { why: "a signature is too short" })?;
        if name == key.name() && hash == key.note_hash() {
            if !key.verifies(text.as_bytes(), signature) {
                return Err(NoteError::Signature);
            }
            signed = Ok(());
        }
    }
    signed
}

/// A number as the format wants it: digits, no leading zero.
fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A root in base64, for people.
pub(crate) fn shown(root: &Hash) -> String {
    BASE64_STANDARD.encode(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(folder: &tempfile::TempDir) -> Keys {
        Keys::load_or_create(folder.path()).unwrap()
    }

    fn home() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn a_checkpoint_of_the_go_checksum_database_is_read() {
        // From C2SP's `tlog-checkpoint`, signed with a key that was not made by this code.
        let key = "sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8";
        let key = PublicKey::parse(key).unwrap();
        let note = "go.sum database tree\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
            \u{2014} sum.golang.org Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n";
        // Its origin is older than the rule that a key bears the origin's name; the signature is what this test is about.
        let error = Checkpoint::open(note, &key).unwrap_err();
        assert_eq!(error, NoteError::Origin { origin: "go.sum database tree".into() });
        let changed = note.replace("20852163", "20852164");
        assert_eq!(Checkpoint::open(&changed, &key), Err(NoteError::Signature));
    }

    #[test]
    fn a_checkpoint_reads_back_as_itself() {
        let home = home();
        let keys = keys(&home);
        let checkpoint = Checkpoint { size: 12, root: [3; 32] };
        let note = checkpoint.sign(&keys);
        assert_eq!(Checkpoint::open(&note, keys.public()), Ok(checkpoint.clone()));
        let witnessed = format!("{note}{SIGNATURE}witness.example/w {}\n", BASE64_STANDARD.encode([9; 76]));
        assert_eq!(Checkpoint::open(&witnessed, keys.public()), Ok(checkpoint));
    }

    #[test]
    fn any_changed_byte_of_a_checkpoint_is_found() {
        let home = home();
        let keys = keys(&home);
        let note = Checkpoint { size: 12, root: [3; 32] }.sign(&keys);
        for at in 0..note.len() {
            for flip in [1, 2, 0x20] {
                let mut bytes = note.clone().into_bytes();
                bytes[at] ^= flip;
                let Ok(changed) = String::from_utf8(bytes) else { continue };
                assert!(Checkpoint::open(&changed, keys.public()).is_err(), "byte {at}: {changed}");
            }
        }
    }

    #[test]
    fn what_is_no_checkpoint_is_refused() {
        let (home, other) = (home(), home());
        let (keys, other) = (keys(&home), keys(&other));
        let note = Checkpoint { size: 12, root: [3; 32] }.sign(&other);
        assert_eq!(Checkpoint::open(&note, keys.public()), Err(NoteError::Unsigned));
        for text in [
            "",
            "\n\n",
            "a\n\n",
            "a\nb\nc\n\n\u{2014} x\n",
            &"a".repeat(MAX_NOTE + 1),
            "a\r\n\n\u{2014} x y\n",
        ] {
            assert!(matches!(Checkpoint::open(text, keys.public()), Err(NoteError::Form { .. })), "{text}");
        }
        assert_eq!((decimal("012"), decimal("+12"), decimal("12")), (None, None, Some(12)));
    }
}

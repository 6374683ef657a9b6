//! What a call names besides its words: files whose content people see the digest of before they say yes.

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::canonical::{Canonical, Digest};

/// The files that a question binds, and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operands {
    /// What the answer is good for, and nothing else.
    pub bound: Vec<Operand>,
    /// What may be something else by the time the call runs.
    pub not_bound: Vec<NotBound>,
}

/// A file that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operand {
    /// How the call names it, from the workspace downwards.
    pub named: String,
    /// Where that really is, from the workspace downwards: a link may have led there.
    pub path: String,
    /// The digest of what is in it; nothing if there is no such file, and must be none.
    pub digest: Option<Digest>,
    /// How large it is.
    pub bytes: u64,
    /// Whether it can be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// How it is bound.
    pub how: Binding,
}

/// How an operand is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The call gets the copy that was made when it was asked about, whatever has become of the file.
    Sealed,
    /// The call gets the file itself, and only if it is as it was: it may be what the call is to change.
    Unchanged,
}

/// Something that a call names, or reads, and that nobody can answer for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotBound {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

impl Operands {
    /// What an answer is given to: these digests, and this list of what has none.
    pub fn digest(&self) -> Digest {
        // Sizes are far below what JSON cannot carry; a list that could not be written would be its own.
        Canonical::of(json!(self)).map_or_else(|_| Digest::of(format!("{self:?}").as_bytes()), |c| c.digest())
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.not_bound.is_empty()
    }
}

impl Operand {
    /// It in one line: what, which content, how much, and how it is bound.
    pub fn described(&self) -> String {
        let named = if self.named == self.path {
            self.named.clone()
        } else {
            format!("{} → {}", self.named, self.path)
        };
        match self.digest {
            None => format!("{named}  must not be there"),
            Some(digest) => {
                let short: String = digest.to_string().chars().take(16).collect();
                let how = match self.how {
                    Binding::Sealed => "sealed copy",
                    Binding::Unchanged => "must be unchanged",
                };
                format!("{named}  {short}…  {} bytes  {how}", self.bytes)
            }
        }
    }
}

impl Binding {
    /// The name used on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Binding::Sealed => "sealed",
            Binding::Unchanged => "unchanged",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_what_is_bound_changes_its_digest() {
        let operand = Operand {
            named: "x".into(),
            path: "x".into(),
            digest: Some(Digest::of(b"x")),
            bytes: 1,
            executable: false,
            how: Binding::Sealed,
        };
        let of = |operand: Operand| Operands { bound: vec![operand], not_bound: Vec::new() }.digest();
        let others = [
            Operand { named: "y".into(), ..operand.clone() },
            Operand { path: "y".into(), ..operand.clone() },
            Operand { digest: Some(Digest::of(b"y")), ..operand.clone() },
            Operand { digest: None, ..operand.clone() },
            Operand { bytes: 2, ..operand.clone() },
            Operand { executable: true, ..operand.clone() },
            Operand { how: Binding::Unchanged, ..operand.clone() },
        ];
        for other in others {
            assert_ne!(of(other.clone()), of(operand.clone()), "{other:?}");
        }
        let not_bound = vec![NotBound { what: "a".into(), why: "b".into() }];
        assert_ne!(Operands { bound: vec![operand.clone()], not_bound }.digest(), of(operand));
    }
}

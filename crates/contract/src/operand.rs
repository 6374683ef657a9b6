//! What a call names besides its words: files whose content people see the digest of before they say yes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::canonical::{Canonical, Digest};

/// As many words that lead to no file as are told one by one.
const MOST_ABSENT: usize = 8;

/// The files that a question binds, and what it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Operands {
    /// What the answer is good for, and nothing else.
    pub bound: Vec<Operand>,
    /// Words that lead to no file, and must not when the call runs: they may be no names of files at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// What may be something else by the time the call runs.
    pub not_bound: Vec<NotBound>,
    /// Whether there are files or words among those that nobody looked at, so that a change would not be seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
}

/// A file that a call names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The call gets the copy that was made when it was asked about, whatever has become of the file.
    Sealed,
    /// The call gets the file itself, and only if it is as it was: it may be what the call is to change.
    Unchanged,
}

/// Something that a call names, or reads, and that nobody can answer for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

    /// The words that lead to no file, in one line: the first of them, and how many there are.
    pub fn described_absent(&self) -> Option<String> {
        let first: Vec<&str> = self.absent.iter().take(MOST_ABSENT).map(String::as_str).collect();
        let rest = match self.absent.len().saturating_sub(first.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!first.is_empty()).then(|| format!("{}{rest}: no files, and must not become any", first.join("  ")))
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.bound.is_empty() && self.absent.is_empty() && self.not_bound.is_empty()
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
        let of = |operand: Operand| Operands { bound: vec![operand], ..Operands::default() }.digest();
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
        let whole = Operands { bound: vec![operand.clone()], ..Operands::default() };
        for other in [
            Operands { not_bound, ..whole.clone() },
            Operands { absent: vec!["x".into()], ..whole.clone() },
            Operands { unseen: true, ..whole.clone() },
        ] {
            assert_ne!(other.digest(), of(operand.clone()), "{other:?}");
        }
    }
}

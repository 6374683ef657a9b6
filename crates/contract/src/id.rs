//! Names and ids: parsed once, valid ever after.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use unicode_normalization::UnicodeNormalization;

/// Why a text is not a name or an id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum IdError {
    /// Nothing was given.
    #[error("{what} is empty")]
    Empty {
        /// Which kind of name.
        what: &'static str,
    },
    /// It is longer than any real one.
    #[error("{what} is longer than {most} characters")]
    TooLong {
        /// Which kind of name.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// It holds something else than the permitted characters.
    #[error("{what} may only hold {permitted}, not `{found}`")]
    Character {
        /// Which kind of name.
        what: &'static str,
        /// What it may hold.
        permitted: &'static str,
        /// The first character that it may not.
        found: char,
    },
    /// It is not an id of ours.
    #[error("`{text}` is not {what}: 32 hexadecimal digits")]
    NotAnId {
        /// Which kind of id.
        what: &'static str,
        /// What was given.
        text: String,
    },
}

/// A name from outside, made of a small set of characters.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $most:literal, $permitted:literal, $pattern:literal, $allows:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Reads a name.
            pub fn parse(text: &str) -> Result<$name, IdError> {
                let allows: fn(char) -> bool = $allows;
                if text.is_empty() {
                    return Err(IdError::Empty { what: $what });
                }
                if text.chars().count() > $most {
                    return Err(IdError::TooLong { what: $what, most: $most });
                }
                match text.chars().find(|character| !allows(*character)) {
                    Some(found) => Err(IdError::Character { what: $what, permitted: $permitted, found }),
                    None => Ok($name(text.to_owned())),
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<$name, IdError> {
                $name::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "minLength": 1, "maxLength": $most, "pattern": $pattern })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '-')
}

name!(
    /// The name of a tool.
    ToolName, "a tool name", 128, "`a`-`z`, `0`-`9`, `_`, `.` and `-`", "^[a-z0-9_.-]+$",
    |c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-')
);
name!(
    /// The name of an agent.
    AgentName, "an agent name", 64, "letters, digits, `_`, `.` and `-`", "^[A-Za-z0-9_.-]+$", is_plain
);
name!(
    /// The name of a role that agents have.
    RoleName, "a role name", 64, "letters, digits, `_`, `.` and `-`", "^[A-Za-z0-9_.-]+$", is_plain
);
name!(
    /// The name of a person who decides.
    OperatorName, "an operator name", 64, "letters, digits, `_`, `.` and `-`", "^[A-Za-z0-9_.-]+$", is_plain
);
name!(
    /// The name of a task: calls with the same one belong together.
    TaskName, "a task name", 128, "letters, digits, `_`, `.` and `-`", "^[A-Za-z0-9_.-]+$", is_plain
);
name!(
    /// Where tools come from that are not our own, such as `mcp:files`: a kind, and a name of that kind.
    SourceName, "a source name", 96, "letters, digits, `_`, `.`, `-` and `:`", "^[A-Za-z0-9_.:-]+$",
    |c| is_plain(c) || c == ':'
);
name!(
    /// A caller's idempotency key.
    Key, "a key", 128, "printable ASCII without spaces", "^[!-~]+$", |c| c.is_ascii_graphic()
);

impl ToolName {
    /// What the name looks like: two names with the same look cannot both be registered.
    pub fn look(&self) -> String {
        // ATTACK(look-alike-tool): compatibility forms and case are folded before the look-alikes are, and case once
        // more after them: `0` looks like `O`. Many clients take no dots, and see `_` instead.
        let folded: String = self.0.nfkc().collect::<String>().to_lowercase().replace('.', "_");
        unicode_security::skeleton(&folded).collect::<String>().to_lowercase()
    }
}

/// An id that cannot be guessed: 128 random bits.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Makes one from random bytes.
            pub fn from_random(bytes: [u8; 16]) -> $name {
                $name(format!("{:032x}", u128::from_be_bytes(bytes)))
            }

            /// Reads an id.
            pub fn parse(text: &str) -> Result<$name, IdError> {
                let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
                if text.len() == 32 && text.chars().all(is_hex) {
                    Ok($name(text.to_owned()))
                } else {
                    Err(IdError::NotAnId { what: $what, text: text.chars().take(64).collect() })
                }
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Enough of it for a person to tell it from others.
            pub fn short(&self) -> String {
                self.0.chars().take(8).collect()
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<$name, IdError> {
                $name::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": "^[0-9a-f]{32}$" })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

id!(
    /// One call.
    CallId, "a call id"
);
id!(
    /// One question to people.
    ApprovalId, "an approval id"
);
id!(
    /// One gate: a process that makes calls, from its first one to its end.
    GateId, "a gate id"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_name_is_lower_case_ascii() {
        assert!(ToolName::parse("fs.read").is_ok());
        assert!(ToolName::parse("").is_err());
        assert!(ToolName::parse("Fs.read").is_err());
        assert!(ToolName::parse("fs.r\u{435}ad").is_err(), "Cyrillic");
        assert!(ToolName::parse("fs read").is_err());
        assert!(ToolName::parse(&"a".repeat(129)).is_err());
    }

    #[test]
    fn names_that_look_alike_have_the_same_look() {
        let look = |name| ToolName::parse(name).unwrap().look();
        assert_eq!(look("fs.list"), look("fs.1ist"));
        assert_eq!(look("t00l"), look("tool"));
        assert_eq!(look("fs.list"), look("fs_list"));
        assert_ne!(look("fs.list"), look("fs.stat"));
    }

    #[test]
    fn an_id_is_made_of_all_its_random_bits() {
        let id = CallId::from_random([0; 16]);
        assert_eq!(id.as_str(), "0".repeat(32));
        assert_eq!(CallId::parse(id.as_str()), Ok(id));
        assert!(CallId::parse("7f3a").is_err());
    }
}

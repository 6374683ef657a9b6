//! Answers in the words of a chat: `/approve ID …`, `/deny ID reason`.
//!
//! Knows the form only: who wrote it, and whether they may, is known to whoever brings it.

use thiserror::Error;

/// The longest text that is read, in characters.
const MOST: usize = 2000;
/// The fewest digits of an id: what is typed elsewhere arrives later, and must still mean the same.
const SHORTEST_ID: usize = 8;

/// What somebody has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Yes, to each of these.
    Approve {
        /// Which questions.
        ids: Vec<String>,
    },
    /// No.
    Deny {
        /// To which question.
        id: String,
        /// Why, in their words.
        reason: Option<String>,
    },
}

/// Why a text is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChatError {
    /// It is something else.
    #[error("an answer is `/approve ID` or `/deny ID reason`")]
    NotAnAnswer,
    /// It does not say to what.
    #[error("`{word}` is not an approval's id: at least {SHORTEST_ID} hexadecimal digits of it")]
    NotAnId {
        /// What stands there instead.
        word: String,
    },
    /// It is too long.
    #[error("an answer has {MOST} characters at most")]
    TooLong,
}

impl Said {
    /// Reads an answer.
    pub fn parse(text: &str) -> Result<Said, ChatError> {
        if text.chars().count() > MOST {
            return Err(ChatError::TooLong);
        }
        let text = text.trim();
        let (command, rest) = text.split_once(char::is_whitespace).ok_or(ChatError::NotAnAnswer)?;
        match command {
            // Nothing else may stand there: a yes with a condition is no yes.
            "/approve" => {
                Ok(Said::Approve { ids: rest.split_whitespace().map(id).collect::<Result<_, _>>()? })
            }
            "/deny" => {
                let (first, reason) =
                    rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
                let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                Ok(Said::Deny { id: id(first)?, reason })
            }
            _ => Err(ChatError::NotAnAnswer),
        }
    }
}

fn id(word: &str) -> Result<String, ChatError> {
    let is_hex = |c: char| c.is_ascii_digit() || matches!(c, 'a'..='f');
    if (SHORTEST_ID..=32).contains(&word.len()) && word.chars().all(is_hex) {
        return Ok(word.to_owned());
    }
    Err(ChatError::NotAnId { word: contract::show_hidden(&word.chars().take(64).collect::<String>()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_and_no_are_read() {
        let approve =
            |ids: &[&str]| Ok(Said::Approve { ids: ids.iter().map(|id| (*id).to_owned()).collect() });
        assert_eq!(Said::parse("/approve 0123abcd"), approve(&["0123abcd"]));
        assert_eq!(Said::parse("  /approve 0123abcd\n89abcdef "), approve(&["0123abcd", "89abcdef"]));
        let deny = |reason: Option<&str>| {
            Ok(Said::Deny { id: "0123abcd".to_owned(), reason: reason.map(str::to_owned) })
        };
        assert_eq!(Said::parse("/deny 0123abcd"), deny(None));
        assert_eq!(Said::parse("/deny 0123abcd not  today,\nreally"), deny(Some("not  today,\nreally")));
    }

    #[test]
    fn whatever_is_not_clearly_an_answer_is_none() {
        let none = [
            "",
            "approve 0123abcd",
            "/approve",
            "/Approve 0123abcd",
            "/approve\u{200b} 0123abcd",
            "please /approve 0123abcd",
            "/approved 0123abcd",
            "/deny",
            "/deny   ",
        ];
        for text in none {
            assert!(Said::parse(text).is_err(), "{text}");
        }
        for text in
            ["/approve 0123abc", "/approve 0123abcd if tests pass", "/approve 0123ABCD", "/deny not today"]
        {
            assert!(matches!(Said::parse(text), Err(ChatError::NotAnId { .. })), "{text}");
        }
        assert_eq!(Said::parse(&format!("/deny 0123abcd {}", "x".repeat(2000))), Err(ChatError::TooLong));
    }
}

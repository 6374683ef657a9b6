//! What is wrong with a file, said so that a person can correct it: where, what, and what was probably meant.

use std::fmt;

use contract::{nearest, show_hidden};
use serde::Serialize;
use serde_saphyr::Error;

use super::at::Place;

/// What stands where there is no text.
const NOTHING: &str = "nothing";

/// How much of somebody's text is repeated to them.
const MOST_CHARACTERS: usize = 60;

/// One thing that is wrong, or that a person should know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Problem {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) message: String,
    /// The valid name that was probably meant.
    pub(crate) nearest: Option<String>,
}

impl Problem {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Problem {
        Problem { place, message: message.into(), nearest: None }
    }

    /// A name that there is not, and those there are.
    pub(crate) fn unknown<'a>(
        place: Place,
        what: &str,
        text: &str,
        known: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Problem {
        let near = nearest(text, known.clone()).map(str::to_owned);
        let message = match near {
            Some(_) => format!("{what} `{}`", shown(text)),
            None => format!("{what} `{}`; there is {}", shown(text), listed(known)),
        };
        Problem { place, message, nearest: near }
    }

    /// A word that there is not. They are few, so all are named even where one was probably meant.
    fn unknown_word(place: Place, text: &str, known: &[&str]) -> Problem {
        let message = format!("unknown word `{}`; there is {}", shown(text), listed(known.iter().copied()));
        let nearest = nearest(text, known.iter().copied()).map(str::to_owned);
        Problem { place, message, nearest }
    }

    /// A key without a value.
    fn missing(place: Place, text: &str) -> Problem {
        Problem::new(place, format!("a value is missing in {}", line_at(place, text)))
    }

    /// What the parser says, in our words.
    pub(crate) fn of_yaml(error: &Error, text: &str) -> Problem {
        let place = error.location().map_or(Place::START, Place::from);
        let found = || quoted_at(error, text);
        match error {
            Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => {
                Problem::of_yaml(error, text)
            }
            Error::SerdeUnknownVariant { .. }
            | Error::InvalidScalar { .. }
            | Error::InvalidBooleanStrict { .. }
                if found() == NOTHING =>
            {
                Problem::missing(place, text)
            }
            Error::SerdeUnknownField { field, expected, .. } => {
                Problem::unknown(place, "unknown key", field, expected.iter().copied())
            }
            Error::SerdeUnknownVariant { variant, expected, .. } => {
                Problem::unknown_word(place, variant, expected)
            }
            Error::DuplicateMappingKey { key, .. } => {
                let key = key.as_deref().map(shown).unwrap_or_default();
                Problem::new(place, format!("the key `{key}` is given twice"))
            }
            Error::InvalidScalar { ty, .. } => {
                let wanted = match *ty {
                    "u64" => "a whole number from 0 to 18446744073709551615",
                    "floating point" => "a number",
                    other => other,
                };
                Problem::new(place, format!("{} is not {wanted}", found()))
            }
            Error::NonFiniteFloat { value, .. } => {
                Problem::new(place, format!("`{}` is not a number", shown(value)))
            }
            Error::InvalidBooleanStrict { .. } => {
                Problem::new(place, format!("{} is neither `true` nor `false`", found()))
            }
            Error::NullIntoString { .. } => Problem::missing(place, text),
            Error::SerdeInvalidType { unexpected, expected, .. }
            | Error::SerdeInvalidValue { unexpected, expected, .. } => {
                let text = unexpected.strip_prefix("string \"").and_then(|text| text.strip_suffix('"'));
                let found = text.map_or_else(|| shown(unexpected), |text| format!("`{}`", shown(text)));
                Problem::new(place, format!("expected {expected}, not {found}"))
            }
            Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. }
            | Error::UnexpectedValueForUnitEnumVariant { .. } => {
                Problem::new(place, format!("expected one word, {}", contrast(&found(), place, text)))
            }
            Error::Unexpected { expected, .. } => {
                let wanted = match *expected {
                    "mapping start" => "keys and values",
                    "sequence start" => "a list",
                    "string scalar" => "text",
                    other => other,
                };
                Problem::new(place, format!("expected {wanted}, {}", contrast(&found(), place, text)))
            }
            Error::MultipleDocuments { .. } => {
                Problem::new(place, "a second document begins here; a configuration is one")
            }
            Error::UnsupportedTag { tag, .. } => {
                Problem::new(place, format!("the tag `{}` has no meaning here", shown(tag)))
            }
            Error::UnknownAnchor { .. } => {
                Problem::new(place, format!("{} repeats an anchor that there is not", line_at(place, text)))
            }
            Error::RecursiveReferencesRequireWeakTypes { .. } => {
                Problem::new(place, format!("{} is inside of what it repeats", found()))
            }
            Error::Budget { .. }
            | Error::AliasReplayCounterOverflow { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. } => Problem::new(
                place,
                "too much: its anchors and nesting expand past what a configuration needs",
            ),
            Error::ExternalMessage { msg, .. } => {
                Problem::new(place, format!("{}, in {}", shown(msg), line_at(place, text)))
            }
            Error::Message { msg, .. } => match msg.strip_prefix("duplicate field ") {
                Some(field) => Problem::new(place, format!("{field} is given twice, in two spellings")),
                None => Problem::new(place, shown(msg)),
            },
            other => {
                let message = other.to_string();
                let bare = message.split(" at line ").next().unwrap_or(&message);
                Problem::new(place, format!("{}, in {}", shown(bare), line_at(place, text)))
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.place.line, self.place.column, self.message)?;
        match &self.nearest {
            Some(nearest) => write!(formatter, ", did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

/// Somebody's text as it may be repeated: no control characters, not too long.
pub(crate) fn shown(text: &str) -> String {
    let mut cut: String = text.chars().take(MOST_CHARACTERS).collect();
    if text.chars().nth(MOST_CHARACTERS).is_some() {
        cut.push('…');
    }
    show_hidden(&cut).replace('\n', "⏎").replace('\t', "⇥")
}

/// Names in backticks. Of two spellings of a key the one with capitals is left out.
fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let has_capitals = |name: &&str| name.chars().any(char::is_uppercase);
    let names: Vec<String> =
        names.into_iter().filter(|name| !has_capitals(name)).map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// The text that an error is about.
fn quoted_at(error: &Error, text: &str) -> String {
    let span = error.location().map(|location| location.span());
    let bytes = span.and_then(|span| Some((span.byte_offset()?, span.byte_len()?)));
    let range = bytes.and_then(|(offset, length)| {
        let begin = usize::try_from(offset).ok()?;
        Some(begin..begin.checked_add(usize::try_from(length).ok()?)?)
    });
    let rest = range.as_ref().and_then(|range| text.get(range.start..)).unwrap_or_default();
    let found = range.and_then(|range| text.get(range)).unwrap_or_default();
    match found {
        // A list in lines of its own has no text of its own.
        "" if rest.starts_with("- ") => "a list".to_owned(),
        "" => NOTHING.to_owned(),
        "{" => "keys and values".to_owned(),
        "[" | "-" => "a list".to_owned(),
        found => format!("`{}`", shown(found)),
    }
}

/// What stands there instead; where that is more than one text, the line as well.
fn contrast(found: &str, place: Place, text: &str) -> String {
    match found {
        NOTHING => format!("in {}", line_at(place, text)),
        found if found.starts_with('`') => format!("not {found}"),
        found => format!("not {found}, in {}", line_at(place, text)),
    }
}

fn line_at(place: Place, text: &str) -> String {
    let number = usize::try_from(place.line.saturating_sub(1)).unwrap_or(usize::MAX);
    format!("`{}`", shown(text.lines().nth(number).unwrap_or_default().trim()))
}

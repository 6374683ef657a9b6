//! Templates: where the arguments of a call go in a command or a request.
//!
//! # Invariants
//! - An argument fills one word of a command, or one encoded part of a path, a query or a header: never more, never less.
//! - It is never the program, an option, the host, or the name of anything.

use contract::Reason;
use serde_json::Value;

use crate::path::{Beneath, Guard, shown};

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Text,
    /// A path beneath the workspace.
    Path,
    Integer,
    Number,
    Boolean,
    /// Anything that fits its schema; it goes into the body of a request alone.
    Json(Value),
}

/// An argument of an imported tool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) description: String,
    pub(super) required: bool,
    /// If there are any, it is one of these.
    pub(super) choices: Vec<String>,
}

/// One word of a command, or one part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Literal(String),
    /// An argument.
    Argument(String),
    /// What is before it belongs to the template: `--max-count=`.
    Option {
        name: String,
        argument: String,
    },
}

impl Part {
    /// Reads a word. `{name}` is an argument, `--option={name}` an option with one; in any other place braces with a name
    /// are refused, for nobody could say what they mean.
    pub(super) fn of_word(text: &str) -> Result<Part, String> {
        if text.contains('\0') {
            return Err("a word holds a NUL character".to_owned());
        }
        if let Some(argument) = placeholder(text) {
            return Ok(Part::Argument(argument.to_owned()));
        }
        if let Some((option, value)) = text.split_once('=')
            && let Some(argument) = placeholder(value)
        {
            let is_option = option.strip_prefix("--").is_some_and(is_plain_option);
            return match is_option {
                true => Ok(Part::Option { name: format!("{option}="), argument: argument.to_owned() }),
                false => Err(format!(
                    "`{text}`: before `=` and an argument stands a long option, such as `--name={{x}}`"
                )),
            };
        }
        match embedded(text) {
            Some(name) => Err(format!(
                "`{text}`: `{{{name}}}` is a part of a word; an argument is a whole word, or follows `--option=`"
            )),
            None => Ok(Part::Literal(text.to_owned())),
        }
    }

    /// Reads the value of a query or a header: all of it is an argument, or nothing.
    pub(super) fn of_value(text: &str) -> Result<Part, String> {
        match (placeholder(text), embedded(text)) {
            (Some(argument), _) => Ok(Part::Argument(argument.to_owned())),
            (None, Some(name)) => {
                Err(format!("`{text}`: `{{{name}}}` is a part of a value; an argument is all of one"))
            }
            (None, None) => Ok(Part::Literal(text.to_owned())),
        }
    }

    /// The argument that it takes.
    pub(super) fn argument(&self) -> Option<&str> {
        match self {
            Part::Literal(_) => None,
            Part::Argument(name) | Part::Option { argument: name, .. } => Some(name),
        }
    }
}

/// The name between braces, if a text is that alone.
pub(super) fn placeholder(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    is_argument_name(name).then_some(name)
}

/// A name between braces somewhere in a text.
pub(super) fn embedded(text: &str) -> Option<&str> {
    text.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
        .find(|name| is_argument_name(name))
}

/// Whether something can be the name of an argument.
pub(super) fn is_argument_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && name.len() <= 64
}

fn is_plain_option(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// The words of a command, with the arguments in their places.
pub(super) fn fill_words(
    words: &[Part],
    arguments: &[Argument],
    given: &Value,
    writes: bool,
    guard: &Guard<'_>,
) -> Result<Vec<String>, Reason> {
    let mut filled = Vec::new();
    let mut options_ended = false;
    for word in words {
        match word {
            Part::Literal(text) => {
                options_ended |= text == "--";
                filled.push(text.clone());
            }
            Part::Argument(name) => {
                let Some(text) = text_of(name, arguments, given, writes, guard)? else { continue };
                // ATTACK(template-option): the program would obey it.
                if text.starts_with('-') && !options_ended {
                    let why = format!("`{}` begins with `-`, and would be taken for an option", shown(&text));
                    return Err(Reason::bad_arguments(why));
                }
                filled.push(text);
            }
            Part::Option { name, argument } => {
                let Some(text) = text_of(argument, arguments, given, writes, guard)? else { continue };
                filled.push(format!("{name}{text}"));
            }
        }
    }
    Ok(filled)
}

/// An argument as one word. Nothing if it was not given.
fn text_of(
    name: &str,
    arguments: &[Argument],
    given: &Value,
    writes: bool,
    guard: &Guard<'_>,
) -> Result<Option<String>, Reason> {
    let Some(value) = given.get(name) else { return Ok(None) };
    let text = plain_text(value)?;
    if text.contains('\0') {
        return Err(Reason::bad_arguments(format!("`{name}` holds a NUL character")));
    }
    let is_path = arguments.iter().any(|argument| argument.name == name && argument.kind == Kind::Path);
    if !is_path {
        return Ok(Some(text));
    }
    let beneath = Beneath::parse(&text)?;
    let guarded = match writes {
        true => guard.against_writing(&beneath.path()),
        false => guard.against_reading(&beneath.path()),
    };
    match guarded {
        Some(guarded) => Err(guarded.reason(&beneath.text())),
        // As no program takes it for an option.
        None if beneath.names().is_empty() => Ok(Some(".".to_owned())),
        None => Ok(Some(format!("./{}", beneath.text()))),
    }
}

/// One part of a path or a query: whatever it holds, it is not more than that.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// An argument as one part of a path.
pub(super) fn path_part(name: &str, given: &Value) -> Result<String, Reason> {
    let text = given.get(name).map(plain_text).transpose()?.unwrap_or_default();
    // ATTACK(template-path): a part that is none, or leads elsewhere, is no part.
    if text.is_empty() || text == "." || text == ".." || text.contains('\0') {
        return Err(Reason::bad_arguments(format!(
            "`{name}` is `{}`, which is no part of a path",
            shown(&text)
        )));
    }
    Ok(encode(&text))
}

/// An argument as text. Nothing if it was not given.
pub(super) fn given_text(name: &str, given: &Value) -> Result<Option<String>, Reason> {
    given.get(name).map(plain_text).transpose()
}

fn plain_text(value: &Value) -> Result<String, Reason> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        // The schema has none of these; whoever asks without one hears no.
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(Reason::bad_arguments("an argument is a text, a number, true or false"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jail::Names;
    use serde_json::json;

    use super::*;

    fn argument(name: &str, kind: Kind) -> Argument {
        Argument {
            name: name.to_owned(),
            kind,
            description: String::new(),
            required: false,
            choices: Vec::new(),
        }
    }

    fn fill(words: &[&str], given: Value) -> Result<Vec<String>, String> {
        let words: Vec<Part> = words.iter().map(|word| Part::of_word(word).unwrap()).collect();
        let arguments =
            [argument("text", Kind::Text), argument("path", Kind::Path), argument("count", Kind::Integer)];
        let names = Names::default();
        let guard = Guard { names: &names, root: Path::new("/") };
        fill_words(&words, &arguments, &given, false, &guard).map_err(|reason| reason.code.to_string())
    }

    #[test]
    fn an_argument_is_one_word_whatever_it_holds() {
        for text in ["a b", "a;rm -rf /", "$(id)", "`id`", "a\nb", "a|b", "*", "\"", "{path}", "a --b"] {
            assert_eq!(
                fill(&["grep", "-n", "{text}"], json!({ "text": text })).unwrap(),
                ["grep", "-n", text]
            );
            assert_eq!(
                fill(&["x", "--a={text}"], json!({ "text": text })).unwrap(),
                ["x", &format!("--a={text}")]
            );
        }
        assert_eq!(fill(&["head", "--lines={count}"], json!({ "count": 5 })).unwrap(), ["head", "--lines=5"]);
        assert_eq!(
            fill(&["ls", "{path}", "--a={text}"], json!({})).unwrap(),
            ["ls"],
            "what is not given is not there"
        );
    }

    #[test]
    fn no_argument_is_an_option_or_leaves_the_workspace() {
        for text in ["-exec", "--output=x", "-"] {
            assert_eq!(fill(&["grep", "{text}"], json!({ "text": text })), Err("bad_arguments".to_owned()));
        }
        assert_eq!(fill(&["grep", "--", "{text}"], json!({ "text": "-x" })).unwrap(), ["grep", "--", "-x"]);
        assert_eq!(fill(&["cat", "{path}"], json!({ "path": "-n" })).unwrap(), ["cat", "./-n"]);
        for (path, code) in
            [("/etc/passwd", "outside"), ("../x", "outside"), ("a/../../x", "outside"), (".env", "protected")]
        {
            assert_eq!(fill(&["cat", "{path}"], json!({ "path": path })), Err(code.to_owned()), "{path}");
            assert_eq!(fill(&["cat", "--a={path}"], json!({ "path": path })), Err(code.to_owned()), "{path}");
        }
        assert_eq!(fill(&["cat", "{text}"], json!({ "text": "a\0b" })), Err("bad_arguments".to_owned()));
    }

    #[test]
    fn what_is_neither_a_word_nor_an_argument_is_refused() {
        for odd in [
            "a{text}",
            "{text}{path}",
            "-o={text}",
            "--={text}",
            "x={text}",
            "--a b={text}",
            "--a={text}b",
            "pre-{text}-post",
        ] {
            assert!(Part::of_word(odd).is_err(), "{odd}");
        }
        // Not names of arguments, so words like others.
        for plain in ["{print $1}", "{}", "{A}", "a{1}", "{a b}", "--x"] {
            assert_eq!(Part::of_word(plain), Ok(Part::Literal(plain.to_owned())), "{plain}");
        }
        assert!(Part::of_value("x{text}").is_err());
    }

    #[test]
    fn a_part_of_an_address_stays_one() {
        for (text, encoded) in [
            ("a/b", "a%2Fb"),
            ("../x", "..%2Fx"),
            ("a?b=c&d#e", "a%3Fb%3Dc%26d%23e"),
            ("%2e%2e", "%252e%252e"),
            ("a b\r\nX: y", "a%20b%0D%0AX%3A%20y"),
            ("ü", "%C3%BC"),
            ("a@b:c", "a%40b%3Ac"),
        ] {
            assert_eq!(path_part("x", &json!({ "x": text })).unwrap(), encoded);
        }
        for odd in ["", ".", "..", "a\0"] {
            assert!(path_part("x", &json!({ "x": odd })).is_err(), "{odd:?}");
        }
    }
}

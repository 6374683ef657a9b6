//! What a server says to whoever it does not let in: the header `WWW-Authenticate`.

use serde::{Deserialize, Serialize};

/// As long as a header may be, and as many scopes as are taken from one.
const LONGEST: usize = 4096;
const MOST_SCOPES: usize = 64;

/// What a server asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Challenge {
    /// The scopes that it wants, if it says so.
    pub(super) scopes: Option<Vec<String>>,
    /// Where it says who vouches for whom, if it says so.
    pub(super) metadata: Option<String>,
    /// What is wrong with what it was shown.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Reads the first challenge for a bearer token.
    pub(super) fn read<'a>(headers: impl IntoIterator<Item = &'a str>) -> Challenge {
        let bearer = headers.into_iter().find_map(|header| {
            let header = header.trim();
            let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
            (scheme.eq_ignore_ascii_case("bearer") && header.len() <= LONGEST).then_some(rest)
        });
        let mut challenge = Challenge::default();
        for (name, value) in parameters(bearer.unwrap_or_default()) {
            match name.as_str() {
                "scope" => challenge.scopes = scopes_of(&value),
                "resource_metadata" => challenge.metadata = Some(value),
                "error" => challenge.error = Some(value),
                _ => {}
            }
        }
        challenge
    }
}

/// The scopes of a text, if every one could be one.
pub(super) fn scopes_of(text: &str) -> Option<Vec<String>> {
    let scopes: Vec<String> = text.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    (is_fit(&scopes) && !scopes.is_empty()).then_some(scopes)
}

/// Whether these are scopes, as RFC 6749 writes them.
pub(super) fn is_fit(scopes: &[String]) -> bool {
    let is_token = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    let fits = |scope: &String| !scope.is_empty() && scope.len() <= 256 && scope.bytes().all(is_token);
    scopes.len() <= MOST_SCOPES && scopes.iter().all(fits)
}

/// `name=value` and `name="value"`, separated by commas; what is written otherwise ends the list.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',']);
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim().to_ascii_lowercase();
        let (value, end) = match after.strip_prefix('"') {
            Some(quoted) => match unquote(quoted) {
                Some(read) => read,
                None => break,
            },
            None => {
                let end = after.find([',', ' ']).unwrap_or(after.len());
                let (value, end) = after.split_at(end);
                (value.to_owned(), end)
            }
        };
        // Said twice, it is not known which is meant.
        if found.iter().any(|(known, _)| *known == name) {
            return Vec::new();
        }
        found.push((name, value));
        rest = end.trim_start_matches([' ', ',']);
    }
    found
}

fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((place, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(place + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_asks_for_is_read() {
        let header = r#"Bearer scope="a b", resource_metadata="https://a.test/x", error="insufficient_scope", error_description="say \"please\"""#;
        let challenge = Challenge::read(["Basic realm=x", header]);
        assert_eq!(challenge.scopes, Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(challenge.metadata.as_deref(), Some("https://a.test/x"));
        assert_eq!(challenge.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(Challenge::read(["bearer error=invalid_token"]).error.as_deref(), Some("invalid_token"));
        assert_eq!(Challenge::read(["Bearer", "Digest x=1"]), Challenge::default());
        let twice = r#"Bearer scope="a", scope="b""#;
        assert_eq!(Challenge::read([twice]), Challenge::default(), "which is meant is not known");
        assert_eq!(Challenge::read([r#"Bearer scope="a\u{7}" "#]).scopes.map(|s| s.len()), Some(1));
    }
}

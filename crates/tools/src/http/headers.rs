//! Which headers a caller may set. The rest is the gate's, or the connection's.

use std::collections::BTreeMap;

use contract::Reason;
use policy::HeaderSettings;

use crate::path::shown;

/// ATTACK(header-injection): these say where a request ends, where it goes, or what is spoken after it.
const NOT_THE_CALLERS: [&str; 14] = [
    "host",
    "connection",
    "keep-alive",
    "transfer-encoding",
    "content-length",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "http2-settings",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "alt-svc",
];

/// What another origin is sent of what was meant for the first.
///
/// ATTACK(redirect-credential): `Authorization`, `Cookie` and whatever else may be a secret stay behind.
const FOR_ANYBODY: [&str; 8] = [
    "accept",
    "accept-language",
    "user-agent",
    "content-type",
    "range",
    "if-none-match",
    "if-modified-since",
    "cache-control",
];

const MOST_HEADERS: usize = 64;
const LONGEST_VALUE: usize = 8192;

/// The headers of a request: what the caller set and may set, what was to be taken out, and what is added.
pub(crate) fn headers_of(
    given: &BTreeMap<String, String>,
    settings: &HeaderSettings,
) -> Result<Vec<(String, String)>, Reason> {
    if given.len() > MOST_HEADERS {
        return Err(Reason::bad_arguments("a request has at most 64 headers"));
    }
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in given {
        check_shape(name, value)?;
        let name = name.to_ascii_lowercase();
        // Some servers take `_` for `-`.
        let plain = name.replace('_', "-");
        if NOT_THE_CALLERS.contains(&plain.as_str()) || plain.starts_with("proxy-") {
            let why = format!("the header `{name}` is not a caller's to set");
            return Err(
                Reason::bad_arguments(why).with_hint("leave it out; it is written as the request needs it")
            );
        }
        if settings.allow.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
            let why = format!("the header `{name}` is not one that callers may set");
            let hint = "leave it out; whoever runs this gate can change that with `tools.http.headers.allow`";
            return Err(Reason::constrained(why).with_hint(hint));
        }
        // `Name` must never stand in for `name`.
        if headers.insert(name.clone(), value.clone()).is_some() {
            return Err(Reason::bad_arguments(format!("the header `{name}` is given twice")));
        }
    }
    headers.retain(|name, _| !settings.strip.contains(name));
    headers.extend(settings.add.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())));
    headers.entry("user-agent".to_owned()).or_insert_with(|| "toolgate".to_owned());
    headers.entry("accept".to_owned()).or_insert_with(|| "*/*".to_owned());
    Ok(headers.into_iter().collect())
}

/// Whether a header goes on to another origin.
pub(crate) fn is_for_anybody(name: &str) -> bool {
    FOR_ANYBODY.contains(&name)
}

fn check_shape(name: &str, value: &str) -> Result<(), Reason> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || name.len() > 128 || !name.chars().all(is_token) {
        return Err(Reason::bad_arguments(format!("`{}` is not the name of a header", shown(name))));
    }
    if value.len() > LONGEST_VALUE
        || !value.chars().all(|c| c.is_ascii_graphic() || c == ' ')
        || value.trim() != value
    {
        let why = format!("the value of the header `{}` is not one line of plain text", shown(name));
        return Err(Reason::bad_arguments(why));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&str, &str)], settings: &HeaderSettings) -> Result<Vec<(String, String)>, String> {
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        headers_of(&given, settings).map_err(|reason| reason.code.to_string())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_frames_or_leads_a_request_is_not_the_callers() {
        let none = HeaderSettings::default();
        for name in [
            "Host",
            "CONNECTION",
            "Transfer-Encoding",
            "content-length",
            "Proxy-Authorization",
            "TE",
            "Upgrade",
            "Trailer",
            "Expect",
        ] {
            assert_eq!(headers(&[(name, "x")], &none).unwrap_err(), "bad_arguments", "{name}");
        }
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("é", "x"),
            ("a\r\nb", "x"),
            ("a", "x\r\nHost: y"),
            ("a", "x\0"),
            ("a", " x"),
            ("a", "é"),
        ] {
            assert_eq!(headers(&[(name, value)], &none).unwrap_err(), "bad_arguments", "{name:?}");
        }
        assert_eq!(headers(&[("A", "1"), ("a", "2")], &none).unwrap_err(), "bad_arguments");
    }

    #[test]
    fn an_operator_says_which_are_allowed_taken_out_and_added() {
        let settings = HeaderSettings {
            allow: Some(["accept".to_owned(), "x-trace".to_owned()].into()),
            strip: ["x-trace".to_owned()].into(),
            add: [pair("X-Gate", "yes"), pair("accept", "text/plain")].into(),
        };
        assert_eq!(headers(&[("Cookie", "x")], &settings).unwrap_err(), "constrained");
        let expected = [pair("accept", "text/plain"), pair("user-agent", "toolgate"), pair("x-gate", "yes")];
        assert_eq!(headers(&[("X-Trace", "1"), ("Accept", "*/*")], &settings).unwrap(), expected);
    }
}

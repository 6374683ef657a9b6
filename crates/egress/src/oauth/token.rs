//! Tokens: how they are asked for, and what is believed of the answer.

use serde::Deserialize;
use zeroize::Zeroizing;

use super::challenge::scopes_of;
use super::client::{Asked, Client, form_of};
use super::{Held, NotSignedIn};
use crate::Gate;
use crate::credentials::Secret;
use crate::fetch::{Question, Said, WebUrl};

/// As much of an answer as is read, and as long as a token may be.
const MOST: usize = 64 * 1024;
const LONGEST_TOKEN: usize = 16 * 1024;
/// A token of which nobody says how long it lasts is asked for anew by then.
const USUAL_LIFE: i64 = 3600;
const LONGEST_LIFE: i64 = 90 * 24 * 3600;

/// What an issuer gave.
pub(super) struct Given {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// How many seconds it lasts.
    pub(super) lasts: i64,
    /// The scopes that it has, where they are others than were asked for.
    pub(super) scopes: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Told {
    #[serde(with = "super::kept::secret_text")]
    access_token: Secret,
    token_type: String,
    expires_in: Option<serde_json::Number>,
    #[serde(default, with = "super::kept::maybe_secret_text")]
    refresh_token: Option<Secret>,
    scope: Option<String>,
}

/// Asks a token endpoint.
pub(super) async fn ask(
    gate: &Gate,
    held: &Held,
    endpoint: &WebUrl,
    client: &Client,
    form: Vec<(&'static str, Zeroizing<String>)>,
) -> Result<Given, NotSignedIn> {
    let Asked { form, authorization } = client.sign(gate, held, form).await?;
    let headers = authorization.map(|value| ("authorization", value)).into_iter().collect();
    let body = Some(("application/x-www-form-urlencoded", form_of(&form)));
    let question = Question { url: endpoint, body, headers, most: MOST };
    let said = gate.fetch(question, &held.settings.bounds).await;
    let Said { status, body, .. } =
        said.map_err(|source| NotSignedIn::NoAnswer { place: endpoint.as_str().to_owned(), source })?;
    // ATTACK(token-redirected): a redirect is no answer, and is not followed.
    if status != 200 {
        return Err(NotSignedIn::Refused { error: error_of(status, &body) });
    }
    read(&body).ok_or(NotSignedIn::Odd("token"))
}

fn read(body: &[u8]) -> Option<Given> {
    let told: Told = serde_json::from_slice(body).ok()?;
    if !told.token_type.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let fit = |secret: Secret| {
        let text = secret.expose();
        let is_plain = !text.is_empty() && text.len() <= LONGEST_TOKEN;
        (is_plain && text.bytes().all(|byte| byte.is_ascii_graphic())).then_some(secret)
    };
    let lasts =
        told.expires_in.and_then(|number| number.as_f64()).map_or(USUAL_LIFE, |seconds| seconds as i64);
    Some(Given {
        access: fit(told.access_token)?,
        refresh: told.refresh_token.and_then(fit),
        lasts: lasts.clamp(1, LONGEST_LIFE),
        scopes: told.scope.as_deref().and_then(scopes_of),
    })
}

/// What an issuer says is wrong, in a word of RFC 6749, or the status.
pub(super) fn error_of(status: u16, body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Wrong {
        error: String,
    }
    let said = serde_json::from_slice::<Wrong>(body).map(|wrong| wrong.error).unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_';
    if !said.is_empty() && said.len() <= 64 && said.chars().all(is_plain) {
        said
    } else {
        format!("status {status}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_plain_bearer_token() {
        let given =
            read(br#"{"access_token":"abc","token_type":"bearer","expires_in":60,"scope":"a b"}"#).unwrap();
        assert_eq!((given.access.expose(), given.lasts, given.refresh.is_none()), ("abc", 60, true));
        assert_eq!(given.scopes.unwrap(), ["a", "b"]);
        for odd in [
            r#"{"access_token":"abc","token_type":"mac"}"#,
            r#"{"access_token":"a\r\nb","token_type":"Bearer"}"#,
            r#"{"access_token":"","token_type":"Bearer"}"#,
            r#"{"token_type":"Bearer"}"#,
            "[]",
        ] {
            assert!(read(odd.as_bytes()).is_none(), "{odd}");
        }
        assert_eq!(error_of(400, br#"{"error":"invalid_grant"}"#), "invalid_grant");
        assert_eq!(error_of(302, br#"{"error":"Look <here>"}"#), "status 302");
    }
}

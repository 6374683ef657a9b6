//! Answers in the words of a chat, brought by the chat itself: slash commands as Slack signs them, and signed JSON.
//!
//! # Invariants
//! - Nothing of a message is read before its signature is checked over its very bytes.
//! - A message is taken once, within five minutes of when it was written: at any gate of the store, across restarts.
//! - Whoever the configuration does not know as an operator decides nothing, and learns nothing of what waits.
//! - What is not taken is in the ledger; a flood of it is counted there, not written.

use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::Response;
use contract::{ApprovalId, Digest, OperatorName};
use engine::RefusedMessage;
use hmac::{Hmac, KeyInit as _, Mac as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use store::Vote;

use super::app::App;
use super::approvals::{Answer, problem_of, understand};
use super::body;
use super::caller::single;
use super::chats::ChatWay;
use super::gate::DecideError;
use super::guards::Guard;
use super::problem::Problem;

/// How old a message may be, or how far ahead, in seconds.
const WINDOW: i64 = 300;
/// The longest message, in bytes.
const LONGEST: usize = 16 << 10;
/// How long it may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);
/// How many questions are answered at once.
const MOST_AT_ONCE: usize = 20;

const SLACK_TIME: HeaderName = HeaderName::from_static("x-slack-request-timestamp");
const SLACK_SIGNATURE: HeaderName = HeaderName::from_static("x-slack-signature");
const TIME: HeaderName = HeaderName::from_static("x-toolgate-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("x-toolgate-signature");

/// Why a message was not taken, as the ledger has it.
mod why {
    pub(super) const SIGNATURE: &str = "bad_signature";
    pub(super) const TIME: &str = "too_old";
    pub(super) const REPLAYED: &str = "replayed";
    pub(super) const FORM: &str = "not_understood";
    pub(super) const UNMAPPED: &str = "unmapped_user";
    pub(super) const REFUSED: &str = "may_not_decide";
}

/// A slash command.
pub(super) async fn slack(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let message = receive(&app, ChatWay::Slack, request).await?;
    let said = read_form(&message.body);
    // What people of the chat are told has to be a success, or they are told nothing.
    let text = match said {
        Some(said) => match answer(&app, ChatWay::Slack, said).await {
            Ok(text) => text,
            Err(problem) => problem.detail().to_owned(),
        },
        None => {
            refuse(&app, ChatWay::Slack, why::FORM, None).await;
            "that is no slash command".to_owned()
        }
    };
    Ok(body::json(StatusCode::OK, &Told { response_type: Some("ephemeral"), text }))
}

/// A message of any other chat.
pub(super) async fn webhook(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let message = receive(&app, ChatWay::Webhook, request).await?;
    let Some(said) = read_json(&message.body) else {
        refuse(&app, ChatWay::Webhook, why::FORM, None).await;
        return Err(Problem::bad_request("the message is `{\"user\": …, \"text\": …}`"));
    };
    let text = answer(&app, ChatWay::Webhook, said).await?;
    Ok(body::json(StatusCode::OK, &Told { response_type: None, text }))
}

/// A message whose signature holds, and that was not taken before.
struct Message {
    body: Bytes,
}

async fn receive(app: &App, way: ChatWay, request: Request) -> Result<Message, Problem> {
    // A door that nobody has opened is not there.
    let key = app.elsewhere.key(way).await.ok_or_else(|| Problem::of_status(StatusCode::NOT_FOUND))?;
    let headers = request.headers().clone();
    let body = match tokio::time::timeout(ARRIVES_WITHIN, to_bytes(request.into_body(), LONGEST)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return Err(Problem::of_status(StatusCode::PAYLOAD_TOO_LARGE)),
        Err(_) => return Err(Problem::of_status(StatusCode::REQUEST_TIMEOUT)),
    };
    // ATTACK(slow-chat): when all of it is there. Who is slow, and not known yet, takes nobody's place.
    let place = app.chats.clone().try_acquire_owned();
    let _place = place.map_err(|_| {
        let detail = "as many messages are read as there is room for";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail)
    })?;
    let window = if app.guards.stands(Guard::Ages) { WINDOW } else { i64::MAX };
    let checked = check(way, &key, &headers, &body, (app.gate.now(), window));
    let (time, mac) = match checked {
        Ok(checked) => checked,
        Err(why) => {
            refuse(app, way, why, None).await;
            let detail = "the message is not signed as agreed, or was written more than five minutes ago";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", detail));
        }
    };
    // ATTACK(replayed-webhook): by its signature, which covers its time and every byte.
    let name = Digest::of(format!("{}:{}", way.as_str(), hex(&mac)).as_bytes());
    let until = time.saturating_add(WINDOW + 1).saturating_mul(1000);
    if !app.gate.take_message(&name, until).await? && app.guards.stands(Guard::Replays) {
        refuse(app, way, why::REPLAYED, None).await;
        return Err(Problem::new(StatusCode::CONFLICT, "replayed", "the message was taken before"));
    }
    Ok(Message { body })
}

/// When a message was written and its signature, if that holds.
fn check(
    way: ChatWay,
    key: &[u8],
    headers: &HeaderMap,
    body: &[u8],
    (now, window): (i64, i64),
) -> Result<(i64, Vec<u8>), &'static str> {
    let (time_in, signature_in, version) = match way {
        ChatWay::Slack => (&SLACK_TIME, &SLACK_SIGNATURE, "v0"),
        ChatWay::Webhook => (&TIME, &SIGNATURE, "v1"),
    };
    let said = single(headers, time_in).filter(|said| is_seconds(said)).ok_or(why::SIGNATURE)?;
    let mac = single(headers, signature_in).and_then(|text| text.strip_prefix(version)?.strip_prefix('='));
    let mac = mac.and_then(bytes_of).ok_or(why::SIGNATURE)?;
    // ATTACK(webhook-body-changed): over the bytes as they came. The comparison takes as long whatever differs.
    let mut expected = Hmac::<Sha256>::new_from_slice(key).map_err(|_| why::SIGNATURE)?;
    expected.update(format!("{version}:{said}:").as_bytes());
    expected.update(body);
    expected.verify_slice(&mac).map_err(|_| why::SIGNATURE)?;
    // ATTACK(old-webhook): a signature is good for as long as it is remembered that it was used.
    let time: i64 = said.parse().map_err(|_| why::SIGNATURE)?;
    let apart = (now / 1000).saturating_sub(time).saturating_abs();
    if apart > window { Err(why::TIME) } else { Ok((time, mac)) }
}

fn is_seconds(text: &str) -> bool {
    (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| digits.len() == 64)?;
    Some(digits.chunks_exact(2).filter_map(|pair| Some(pair.first()? << 4 | pair.get(1)?)).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What somebody of a chat has written.
struct Written {
    team: String,
    user: String,
    text: String,
}

fn read_form(body: &[u8]) -> Option<Written> {
    let mut fields: [Option<String>; 4] = Default::default();
    for (name, value) in url::form_urlencoded::parse(body) {
        let names = ["team_id", "user_id", "command", "text"];
        let field = names.iter().position(|known| *known == name).and_then(|at| fields.get_mut(at));
        let Some(field) = field else { continue };
        // What has two meanings has none.
        if field.replace(value.into_owned()).is_some() {
            return None;
        }
    }
    let [team, user, command, text] = fields;
    let (command, text) = (command?, text.unwrap_or_default());
    // One command for all of it: `/toolgate approve ID`.
    let text = if command == "/toolgate" { format!("/{text}") } else { format!("{command} {text}") };
    Some(Written { team: team?, user: user?, text })
}

/// A message of any other chat.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Posted {
    /// Who wrote it, as the chat knows them.
    user: String,
    /// `/approve ID` or `/deny ID reason`.
    text: String,
}

/// What is said to whoever wrote it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Told {
    /// To them alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    response_type: Option<&'static str>,
    /// What came of it.
    text: String,
}

fn read_json(body: &[u8]) -> Option<Written> {
    let text = str::from_utf8(body).ok()?;
    // ATTACK(duplicate-key): never by a parser that keeps the last of two keys.
    let value = contract::Canonical::parse(text).ok()?.into_value();
    let Posted { user, text } = serde_json::from_value(value).ok()?;
    Some(Written { team: String::new(), user, text })
}

async fn answer(app: &App, way: ChatWay, written: Written) -> Result<String, Problem> {
    let Written { team, user, text } = written;
    // ATTACK(unmapped-chat-user): before anything is looked up, so that nobody learns what there is.
    let Some(by) = app.elsewhere.operator_of(way, &team, &user) else {
        refuse(app, way, why::UNMAPPED, Some(&user)).await;
        let detail = "you are not an operator of this gate";
        return Err(Problem::new(StatusCode::FORBIDDEN, "unmapped_user", detail));
    };
    let Answer { ids, vote, reason } = understand(app, &text, MOST_AT_ONCE).await?;
    let via = format!("{}:{}", way.as_str(), shown_user(&user));
    let mut told = Vec::new();
    for id in ids {
        told.push(answer_one(app, way, &id, vote, reason.clone(), &by, &via).await?);
    }
    Ok(told.join("\n"))
}

async fn answer_one(
    app: &App,
    way: ChatWay,
    id: &ApprovalId,
    vote: Vote,
    reason: Option<String>,
    by: &OperatorName,
    via: &str,
) -> Result<String, Problem> {
    match app.gate.decide_by_chat(id, vote, reason, by, via).await {
        Ok(answered) if answered.state == "pending" => {
            Ok(format!("{}: your yes is counted, and others have to agree", id.short()))
        }
        Ok(answered) => Ok(format!("{}: {}", id.short(), answered.state)),
        Err(error) => {
            if matches!(error, DecideError::Forbidden { .. }) {
                refuse(app, way, why::REFUSED, via.split_once(':').map(|(_, user)| user)).await;
            }
            Err(problem_of(error))
        }
    }
}

/// A name of the chat's, as far as it can be shown.
fn shown_user(user: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@');
    if (1..=64).contains(&user.len()) && user.chars().all(is_plain) {
        return user.to_owned();
    }
    Digest::of(user.as_bytes()).to_string()
}

/// Says in the ledger that a message was not taken, as long as there are not too many of them.
async fn refuse(app: &App, way: ChatWay, why: &'static str, user: Option<&str>) {
    // What anybody can have refused does not hide what only those can who know the key.
    let signed = ![why::SIGNATURE, why::TIME].contains(&why);
    let refusals = if signed { &app.refused_messages } else { &app.refusals };
    let Some(unrecorded) = refusals.take(app.gate.now()) else { return };
    let user = user.map(shown_user);
    let refused = RefusedMessage { way: way.as_str(), why, user: user.as_deref(), unrecorded };
    // It is refused whether or not that can be recorded.
    let _ = app.gate.tell_refused(refused).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Slack's own documentation.
    const SLACK_BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SLACK_KEY: &[u8] = b"8f742231b10e8888abcd99yyyzzz85a5";
    const SLACK_MAC: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
    const WRITTEN: i64 = 1_531_420_618;

    fn headers(time: &str, mac: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(SLACK_TIME, time.parse().unwrap());
        headers.insert(SLACK_SIGNATURE, mac.parse().unwrap());
        headers
    }

    fn checked(time: &str, mac: &str, body: &str, now: i64) -> Result<i64, &'static str> {
        check(ChatWay::Slack, SLACK_KEY, &headers(time, mac), body.as_bytes(), (now * 1000, WINDOW))
            .map(|(time, _)| time)
    }

    #[test]
    fn a_signature_of_slack_holds_for_its_time_and_its_bytes() {
        let time = WRITTEN.to_string();
        assert_eq!(checked(&time, SLACK_MAC, SLACK_BODY, WRITTEN + 300), Ok(WRITTEN));
        assert_eq!(checked(&time, SLACK_MAC, SLACK_BODY, WRITTEN - 300), Ok(WRITTEN));
        assert_eq!(checked(&time, SLACK_MAC, SLACK_BODY, WRITTEN + 301), Err(why::TIME));
        assert_eq!(checked(&time, SLACK_MAC, SLACK_BODY, WRITTEN - 301), Err(why::TIME));
        assert_eq!(
            checked(&time, SLACK_MAC, &SLACK_BODY.replace("text=", "text=x"), WRITTEN),
            Err(why::SIGNATURE)
        );
        let later = (WRITTEN + 1).to_string();
        assert_eq!(checked(&later, SLACK_MAC, SLACK_BODY, WRITTEN), Err(why::SIGNATURE));
        for mac in [
            "",
            "v0=",
            "v1=a2",
            &SLACK_MAC.replace("v0", "v1"),
            &SLACK_MAC.replace('a', "b"),
            SLACK_MAC.get(..66).unwrap(),
        ] {
            assert_eq!(checked(&time, mac, SLACK_BODY, WRITTEN), Err(why::SIGNATURE), "{mac}");
        }
        for time in ["", "-1", "+1531420618", " 1531420618", "0x5b47", "1531420618.0"] {
            assert_eq!(checked(time, SLACK_MAC, SLACK_BODY, WRITTEN), Err(why::SIGNATURE), "{time}");
        }
    }

    #[test]
    fn a_slash_command_is_read_and_two_users_are_none() {
        let read = |body: &str| read_form(body.as_bytes()).map(|said| (said.team, said.user, said.text));
        let said = |text: &str| Some(("T1".to_owned(), "U1".to_owned(), text.to_owned()));
        assert_eq!(
            read("team_id=T1&user_id=U1&command=%2Fapprove&text=0123abcd&x=y"),
            said("/approve 0123abcd")
        );
        assert_eq!(
            read("team_id=T1&user_id=U1&command=%2Ftoolgate&text=deny+0123abcd+no"),
            said("/deny 0123abcd no")
        );
        assert_eq!(read("team_id=T1&user_id=U1&user_id=U2&command=%2Fapprove&text=0123abcd"), None);
        assert_eq!(read("user_id=U1&command=%2Fapprove&text=0123abcd"), None);
    }

    #[test]
    fn a_name_that_cannot_be_shown_is_a_digest() {
        assert_eq!(shown_user("U2CERLKJA"), "U2CERLKJA");
        assert!(shown_user("U2\u{1b}[2J").len() >= 32);
        assert!(!shown_user("a b").contains(' '));
    }
}

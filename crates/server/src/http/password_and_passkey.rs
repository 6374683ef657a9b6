//! How operators come in by password or passkey, and what they come in with.
//!
//! # Invariants
//! - Whoever comes in gets a session with new secrets; one that they had before ends.
//! - A challenge is answered once, in its time, for what it was given out for.
//! - What somebody comes in with is changed by their credential, or soon after they have proved to be there.

use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::{Digest, OperatorName};
use engine::{Password, ProofError, SignInRefused, SignedIn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Passkey, PresenceError, Role};

use super::app::App;
use super::body;
use super::caller::{Caller, Operator, single};
use super::guards::Guard;
use super::problem::Problem;
use super::sessions::Purpose;
use super::webauthn::{ALGORITHMS, NotProved, Site, check_answer, check_new_key};

/// The longest name of a passkey, in characters.
const LONGEST_LABEL: usize = 64;

/// A name and a password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByPassword {
    #[schemars(length(max = 64))]
    operator: String,
    #[schemars(length(max = 1024))]
    password: String,
}

/// Somebody who came in. The session's cookie comes with it.
#[derive(Serialize, JsonSchema)]
pub(super) struct CameIn {
    operator: OperatorName,
    role: Role,
    /// The page token, which goes with every request in `X-Toolgate-Page`.
    page: String,
}

/// Nothing is needed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// What an authenticator is asked to sign.
#[derive(Serialize, JsonSchema)]
pub(super) struct Challenge {
    /// In base64url; good once, for five minutes.
    challenge: String,
    /// The name that keys are bound to.
    relying_party: String,
}

/// What an authenticator is asked to make a key for.
#[derive(Serialize, JsonSchema)]
pub(super) struct KeyWish {
    #[serde(flatten)]
    challenge: Challenge,
    operator: OperatorName,
    /// Stands for the operator at the authenticator, in base64url.
    user: String,
    /// Kinds of keys, by the numbers that COSE gives them.
    algorithms: [i64; 3],
    /// Ids of passkeys that they have.
    known: Vec<String>,
}

/// What an authenticator signed; all in base64url.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ByPasskey {
    id: String,
    client_data: String,
    authenticator_data: String,
    signature: String,
}

/// A key that an authenticator has made; what it says is in base64url.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPasskey {
    /// What its owner calls it.
    #[schemars(length(min = 1, max = 64))]
    label: String,
    client_data: String,
    attestation: String,
}

/// Another password.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewPassword {
    /// 12 characters at least.
    #[schemars(length(min = 12, max = 1024))]
    password: String,
}

/// A passkey, as its owner sees it.
#[derive(Serialize, JsonSchema)]
pub(super) struct ShownPasskey {
    id: String,
    label: String,
    /// In milliseconds since 1970.
    added_at: i64,
}

/// Somebody's passkeys.
#[derive(Serialize, JsonSchema)]
pub(super) struct Passkeys {
    passkeys: Vec<ShownPasskey>,
}

pub(super) async fn by_password(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let ByPassword { operator, password } = body::read(request).await?;
    let password = Password::type_in(&password).map_err(|error| Problem::bad_request(error.to_string()))?;
    let signed_in = app.gate.sign_in_by_password(&operator, password).await.map_err(not_in)?;
    come_in(&app, &headers, signed_in).await
}

pub(super) async fn challenge(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let relying_party = relying_party(request.headers())?;
    let Nothing {} = body::read(request).await?;
    let challenge = app.sessions.new_challenge(&Purpose::ComeIn, app.gate.now());
    let challenge = challenge.map_err(|_| Problem::no_random())?;
    let challenge = URL_SAFE_NO_PAD.encode(challenge);
    Ok(body::json(StatusCode::OK, &Challenge { challenge, relying_party }))
}

pub(super) async fn by_passkey(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let said: ByPasskey = body::read(request).await?;
    let client_data = decode(&said.client_data)?;
    let challenge = named_challenge(&app, &client_data, &Purpose::ComeIn)?;
    let Some(passkey) = app.gate.passkey(&said.id).await? else { return Err(not_them()) };
    let account = passkey.operator.as_str().to_owned();
    let (origin, relying_party) = (app.origin_of(&headers), relying_party(&headers)?);
    let site = Site { challenge: &challenge, origin: &origin, relying_party: &relying_party };
    let (data, signature) = (decode(&said.authenticator_data)?, decode(&said.signature)?);
    let key = decode(&passkey.public_key)?;
    let checked = check_answer(&client_data, &data, &signature, (passkey.algorithm, &key), &site);
    let uses = match checked {
        Ok(uses) => uses,
        Err(why) => {
            // Anybody can have one refused, and the ledger is forever. Nobody guesses a signature: no try is counted.
            let recorded = app.refused_passkeys.take(app.gate.now()).is_some();
            if recorded && let refused @ SignInRefused::Engine(_) = app.gate.turn_away(&account).await {
                return Err(not_in(refused));
            }
            return Err(not_proved(why));
        }
    };
    use_up(&app, &challenge, &passkey.operator)?;
    let signed_in = app.gate.sign_in_by_passkey(&passkey, i64::from(uses)).await.map_err(not_in)?;
    come_in(&app, &headers, signed_in).await
}

pub(super) async fn set_password(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_there(&app)?;
    let NewPassword { password } = body::read(request).await?;
    let password = Password::choose(&password).map_err(|error| Problem::bad_request(error.to_string()))?;
    app.gate.set_password(&operator.credential, password).await.map_err(not_changed)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn passkeys(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let passkeys = app.gate.passkeys(&caller.operator()?.credential).await.map_err(not_changed)?;
    let passkeys = passkeys.into_iter().map(shown).collect();
    Ok(body::json(StatusCode::OK, &Passkeys { passkeys }))
}

pub(super) async fn wish_passkey(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_there(&app)?;
    let relying_party = relying_party(request.headers())?;
    let Nothing {} = body::read(request).await?;
    let known = app.gate.passkeys(&operator.credential).await.map_err(not_changed)?;
    let challenge = app.sessions.new_challenge(&purpose(operator), app.gate.now());
    let challenge = URL_SAFE_NO_PAD.encode(challenge.map_err(|_| Problem::no_random())?);
    let name = &operator.person.name;
    let wish = KeyWish {
        challenge: Challenge { challenge, relying_party },
        operator: name.clone(),
        user: URL_SAFE_NO_PAD.encode(Digest::of(name.as_str().as_bytes()).as_bytes()),
        algorithms: ALGORITHMS,
        known: known.into_iter().map(|passkey| passkey.id).collect(),
    };
    Ok(body::json(StatusCode::OK, &wish))
}

pub(super) async fn add_passkey(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_there(&app)?;
    let headers = request.headers().clone();
    let NewPasskey { label, client_data, attestation } = body::read(request).await?;
    let label = label.trim();
    if label.is_empty() || label.chars().count() > LONGEST_LABEL || label.chars().any(contract::is_hidden) {
        return Err(Problem::bad_request(format!(
            "a passkey has a name of 1 to {LONGEST_LABEL} characters that can be seen"
        )));
    }
    let client_data = decode(&client_data)?;
    let challenge = named_challenge(&app, &client_data, &purpose(operator))?;
    let (origin, relying_party) = (app.origin_of(&headers), relying_party(&headers)?);
    let site = Site { challenge: &challenge, origin: &origin, relying_party: &relying_party };
    let key = check_new_key(&client_data, &decode(&attestation)?, &site).map_err(not_proved)?;
    use_up(&app, &challenge, &operator.person.name)?;
    let passkey = Passkey {
        id: URL_SAFE_NO_PAD.encode(&key.id),
        operator: operator.person.name.clone(),
        algorithm: key.algorithm,
        public_key: URL_SAFE_NO_PAD.encode(&key.public_key),
        label: label.to_owned(),
        added_at: 0,
    };
    let added = app.gate.add_passkey(&operator.credential, passkey, i64::from(key.uses)).await;
    Ok(body::json(StatusCode::CREATED, &shown(added.map_err(not_changed)?)))
}

pub(super) async fn remove_passkey(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    operator.check_there(&app)?;
    app.gate.remove_passkey(&operator.credential, &id).await.map_err(not_changed)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Opens a session for somebody, and ends the one that they had.
async fn come_in(app: &App, headers: &HeaderMap, signed_in: SignedIn) -> Result<Response, Problem> {
    let SignedIn { operator, credential } = signed_in;
    // ATTACK(session-fixation): whatever the browser had before is not what it has now.
    if app.guards.stands(Guard::Sessions)
        && let Ok(Caller::Operator(Operator { session: Some(session), .. })) =
            Caller::read(app, headers).await
    {
        app.sessions.close(session);
    }
    let owner = Digest::of(operator.name.as_str().as_bytes());
    let opened = app.sessions.open_for(credential.into(), owner, app.gate.now());
    let opened = opened.map_err(|_| Problem::no_random())?;
    let cookie = HeaderValue::try_from(app.cookie(&opened.cookie)).map_err(|_| Problem::no_random())?;
    let came_in = CameIn { operator: operator.name, role: operator.role, page: opened.page };
    let mut response = body::json(StatusCode::OK, &came_in);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// Uses a challenge up that was answered well.
fn use_up(app: &App, challenge: &[u8], by: &OperatorName) -> Result<(), Problem> {
    let first = app.sessions.use_up(challenge, by, app.gate.now());
    if first { Ok(()) } else { Err(not_proved(NotProved::Challenge)) }
}

/// The challenge that an answer names.
fn named_challenge(app: &App, client_data: &[u8], purpose: &Purpose) -> Result<Vec<u8>, Problem> {
    #[derive(Deserialize)]
    struct Named {
        challenge: String,
    }
    let named: Named = serde_json::from_slice(client_data).map_err(|_| not_proved(NotProved::Garbled))?;
    let challenge = decode(&named.challenge)?;
    let known = app.sessions.is_challenge(&challenge, purpose, app.gate.now());
    if known { Ok(challenge) } else { Err(not_proved(NotProved::Challenge)) }
}

fn purpose(operator: &Operator) -> Purpose {
    Purpose::AddKey(operator.person.name.clone())
}

/// The name that keys are bound to: the host's, which the guard has checked. Addresses have no keys.
fn relying_party(headers: &HeaderMap) -> Result<String, Problem> {
    let host = single(headers, &header::HOST).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() || name.is_empty() {
        let detail = "passkeys belong to a name, not to an address";
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no_passkeys_here", detail)
            .with_hint("open the page as `localhost`, or by the name of the gate's certificate"));
    }
    Ok(name.to_ascii_lowercase())
}

fn decode(text: &str) -> Result<Vec<u8>, Problem> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Problem::bad_request("that is not base64url"))
}

fn shown(passkey: Passkey) -> ShownPasskey {
    ShownPasskey { id: passkey.id, label: passkey.label, added_at: passkey.added_at }
}

fn not_them() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "not_them", "that is nobody's name and password, or passkey")
}

fn not_proved(why: NotProved) -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "not_them", why.to_string())
}

fn not_in(refused: SignInRefused) -> Problem {
    match refused {
        SignInRefused::NotThem => not_them(),
        SignInRefused::TooMany { again_in } => {
            let seconds = u64::try_from(again_in).unwrap_or_default().div_ceil(1000);
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_tries", refused.to_string())
                .with_hint("whoever has the credential gets in by a link at once")
                .retry_after(seconds)
        }
        SignInRefused::Engine(error) => Problem::of_store(&error),
    }
}

fn not_changed(error: ProofError) -> Problem {
    match error {
        ProofError::NotAnOperator => not_them(),
        ProofError::Password(error) => Problem::bad_request(error.to_string()),
        ProofError::Presence(PresenceError::NoPasskey) => Problem::not_found("passkey"),
        ProofError::Presence(error @ PresenceError::TooOften) => {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", error.to_string()).retry_after(3600)
        }
        ProofError::Presence(PresenceError::Store(error)) => Problem::of_store(&error),
        ProofError::Engine(error) => Problem::of_store(&error),
        ProofError::Presence(error) => Problem::new(StatusCode::CONFLICT, "passkey_taken", error.to_string()),
    }
}

//! Questions to people, and their answers.

use axum::extract::{Extension, Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use contract::{ApprovalId, Scope};
use engine::{RefusedMessage, Said};
use schemars::JsonSchema;
use serde::Deserialize;
use store::Vote;

use super::app::App;
use super::body;
use super::caller::{Caller, Operator};
use super::gate::{Answered, DecideError, Decision, Questions};
use super::problem::Problem;
use super::shapes::{AllAnswered, Approvals, Decided, DecidedToo};

/// The longest reason, in characters.
const MAX_REASON: usize = 2000;
/// How many are listed on one page at most.
const MOST_LISTED: u32 = 200;
/// How many questions are answered at once.
const MOST_AT_ONCE: usize = 200;

pub(super) async fn list(State(app): State<App>, Query(wish): Query<ListWish>) -> Result<Response, Problem> {
    let not_ours = || Problem::bad_request("`cursor` is not one of ours");
    let after = wish.cursor.as_deref().map(|cursor| read_cursor(cursor).ok_or_else(not_ours)).transpose()?;
    let most = wish.limit.unwrap_or(MOST_LISTED).clamp(1, MOST_LISTED);
    let Questions { questions, next, waiting } = app.gate.questions(after.as_ref(), most).await?;
    // Those that were asked in one moment are told apart by their ids.
    let next = next.map(|(asked_at, id)| format!("{asked_at}.{id}"));
    Ok(body::json(StatusCode::OK, &Approvals { now: app.gate.now(), approvals: questions, waiting, next }))
}

/// Which questions are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListWish {
    /// How many at most; 200 unless given, and no more.
    limit: Option<u32>,
    /// Those after a page: its `next`.
    cursor: Option<String>,
}

fn read_cursor(text: &str) -> Option<(i64, ApprovalId)> {
    let (asked_at, id) = text.split_once('.')?;
    Some((asked_at.parse().ok()?, ApprovalId::parse(id).ok()?))
}

pub(super) async fn decide(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    // Whole ids only: a prefix that meant one question may mean another when it arrives.
    let id = ApprovalId::parse(&id).map_err(|_| Problem::not_found("question"))?;
    let mut decision: Decision = body::read(request).await?;
    decision.reason = read_reason(decision.reason)?;
    let also = std::mem::take(&mut decision.also);
    if also.len() > MOST_AT_ONCE {
        return Err(Problem::bad_request(format!("`also` names {MOST_AT_ONCE} questions at most")));
    }
    let via = operator.via();
    check_there(&app, operator, decision.vote, std::iter::once(&id).chain(&also)).await?;
    let each = Decision { scope: Scope::Once, until: None, ..decision.clone() };
    let answered = say(&app, operator, &id, decision, via).await.map_err(problem_of)?;
    // ATTACK(unseen-question): those that were shown, by their ids, and none that came since.
    let mut others = Vec::new();
    for other in also {
        others.push(match say(&app, operator, &other, each.clone(), via).await {
            Ok(answered) => DecidedToo::Answered(answered),
            Err(error) => DecidedToo::Not { approval_id: other, error: error.to_string() },
        });
    }
    Ok(body::json(StatusCode::OK, &Decided { answered, also: others }))
}

/// Brings an operator's answer to the gate. That somebody tried who may not is on record, as long as there are not too many.
async fn say(
    app: &App,
    operator: &Operator,
    id: &ApprovalId,
    decision: Decision,
    via: &'static str,
) -> Result<Answered, DecideError> {
    let answered = app.gate.decide(id, decision, &operator.credential, via).await;
    if let Err(DecideError::Forbidden { .. }) = &answered
        && let Some(unrecorded) = app.refused_answers.take(app.gate.now())
    {
        let user = Some(operator.person.name.as_str());
        // It is refused whether or not that can be recorded.
        let refused = RefusedMessage { way: via, why: "may_not_decide", user, unrecorded };
        let _ = app.gate.tell_refused(refused).await;
    }
    answered
}

/// Whether they are there who say yes to what takes that: money, and what is above everything else.
async fn check_there(
    app: &App,
    operator: &Operator,
    vote: Vote,
    ids: impl Iterator<Item = &ApprovalId>,
) -> Result<(), Problem> {
    if vote == Vote::Reject || operator.check_there(app).is_ok() {
        return Ok(());
    }
    for id in ids {
        if app.gate.takes_presence(id).await? {
            return operator.check_there(app);
        }
    }
    Ok(())
}

/// An answer in the words of a chat, brought by whoever has the operator's credential.
pub(super) async fn answer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<Response, Problem> {
    let operator = caller.operator()?;
    let Text { text } = body::read(request).await?;
    let Answer { ids, vote, reason } = understand(&app, &text, MOST_AT_ONCE).await?;
    check_there(&app, operator, vote, ids.iter()).await?;
    let mut answered = Vec::new();
    for id in ids {
        let (reason, also) = (reason.clone(), Vec::new());
        let decision = Decision { vote, reason, scope: Scope::Once, until: None, also };
        let answer = say(&app, operator, &id, decision, "chat").await;
        answered.push(answer.map_err(problem_of)?);
    }
    Ok(body::json(StatusCode::OK, &AllAnswered { answered }))
}

/// What somebody says to questions that wait.
pub(super) struct Answer {
    pub(super) ids: Vec<ApprovalId>,
    pub(super) vote: Vote,
    pub(super) reason: Option<String>,
}

/// An answer in the words of a chat, to so many questions at most. All of them are found before one is answered.
pub(super) async fn understand(app: &App, text: &str, most: usize) -> Result<Answer, Problem> {
    let said = Said::parse(text).map_err(|error| Problem::bad_request(error.to_string()))?;
    let (prefixes, vote, reason) = match said {
        Said::Approve { ids } => (ids, Vote::Approve, None),
        Said::Deny { id, reason } => (vec![id], Vote::Reject, read_reason(reason)?),
    };
    if prefixes.len() > most {
        return Err(Problem::bad_request(format!("{most} questions at most")));
    }
    let mut ids = Vec::new();
    for prefix in &prefixes {
        ids.push(app.gate.find_question(prefix).await.map_err(problem_of)?);
    }
    Ok(Answer { ids, vote, reason })
}

/// An answer in the words of a chat.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Text {
    /// `/approve ID …` or `/deny ID reason`.
    text: String,
}

/// A reason that people can read, if one was given.
pub(super) fn read_reason(reason: Option<String>) -> Result<Option<String>, Problem> {
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
        return Err(Problem::bad_request(format!("the reason is longer than {MAX_REASON} characters")));
    }
    // Not every store can keep it.
    if reason.as_ref().is_some_and(|reason| reason.contains('\0')) {
        return Err(Problem::bad_request("the reason holds a character that ends texts"));
    }
    Ok(reason)
}

pub(super) fn problem_of(error: DecideError) -> Problem {
    let told = error.to_string();
    match error {
        DecideError::Unknown => Problem::not_found("question"),
        DecideError::Closed { .. } => Problem::new(StatusCode::CONFLICT, "already_decided", told),
        DecideError::Expired => Problem::new(StatusCode::GONE, "expired", told)
            .with_hint("the agent can make the call again, which asks anew"),
        DecideError::Forbidden { .. } => Problem::new(StatusCode::FORBIDDEN, "may_not_decide", told),
        DecideError::NotSo { .. } => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_so", told),
        DecideError::Gate(error) => error.into(),
    }
}

//! Who is at the other end: nobody, an agent, or an operator.
//!
//! # Invariants
//! - What stands in the book of agents is an agent, whatever else it may be.
//! - A cookie without its page token is nobody; so is a header with two credentials.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use contract::{AgentName, Digest, OperatorName};
use engine::Credential;
use store::Role;

use super::app::App;
use super::gate::{GateError, Pending, Person};
use super::guards::Guard;
use super::problem::Problem;
use super::room::Holder;
use super::sessions::SessionKey;

/// How long a proof that somebody is there is fresh, in milliseconds.
const PRESENCE_LASTS: i64 = 5 * 60 * 1000;
/// The agent that an operator's request is for.
pub(super) const AGENT: HeaderName = HeaderName::from_static("x-toolgate-agent");
/// The page token, which goes with every request of the page.
const PAGE: HeaderName = HeaderName::from_static("x-toolgate-page");

/// Which agent a token belongs to. Tokens come here as digests, and are kept as such.
pub trait TokenBook: Send + Sync {
    /// The agent whose token has this digest.
    fn agent_of(&self, token: Digest) -> Pending<'_, Result<Option<AgentName>, GateError>>;
}

impl TokenBook for HashMap<Digest, AgentName> {
    fn agent_of(&self, token: Digest) -> Pending<'_, Result<Option<AgentName>, GateError>> {
        let agent = self.get(&token).cloned();
        Box::pin(async move { Ok(agent) })
    }
}

/// Who may ask for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody: there is nothing in it.
    Anyone,
    /// An agent by its token, or an operator by credential who names the agent.
    Agent,
    /// An operator.
    Operator,
    /// An agent, for what is its own, or an operator.
    Either,
    /// Whoever signs what they send with a secret that the configuration names.
    Signed,
    /// Whoever has the token for that, or an operator.
    Counter,
}

/// Whoever a request is from.
#[derive(Clone)]
pub(super) enum Caller {
    Agent(AgentName),
    Operator(Operator),
}

#[derive(Clone)]
pub(super) struct Operator {
    pub(super) credential: Arc<Credential>,
    /// Who they are.
    pub(super) person: Person,
    /// The session, if it is the page that asks.
    pub(super) session: Option<SessionKey>,
    /// When they have last proved to be there, if it is the page that asks, in milliseconds since 1970.
    proved_at: Option<i64>,
    /// The agent that is meant, if one is named.
    agent: Option<AgentName>,
}

impl Operator {
    /// Whether they may do more than look.
    pub(super) fn check_more_than_looks(&self) -> Result<(), Problem> {
        match self.person.role {
            Role::Viewer => Err(forbidden("only_looks", format!("`{}` is a viewer", self.person.name))),
            Role::Approver | Role::Admin => Ok(()),
        }
    }

    /// Whether they may change who may do what.
    pub(super) fn check_admin(&self) -> Result<(), Problem> {
        match self.person.role {
            Role::Admin => Ok(()),
            _ => Err(forbidden("admin_needed", format!("`{}` is no admin", self.person.name))),
        }
    }

    /// Whether they have proved a moment ago that they are there. A credential proves it with every request.
    pub(super) fn check_there(&self, app: &App) -> Result<(), Problem> {
        // ATTACK(left-open): a page that was left open does not do what takes its owner.
        match self.proved_at.filter(|_| app.guards.stands(Guard::Presence)) {
            Some(at) if app.gate.now().saturating_sub(at) > PRESENCE_LASTS => {
                let detail = "this takes a fresh proof that it is you";
                Err(forbidden("presence_needed", detail.to_owned())
                    .with_hint("sign in again by passkey, password or link: `/sign-in#again`"))
            }
            _ => Ok(()),
        }
    }

    /// How it is recorded that they answered.
    pub(super) fn via(&self) -> &'static str {
        if self.session.is_some() { "page" } else { "http" }
    }
}

impl Caller {
    /// As whose their requests are counted.
    pub(super) fn holder(&self) -> Holder {
        match self {
            Caller::Agent(agent) => Holder::Agent(agent.clone()),
            Caller::Operator(operator) => Holder::Operator(operator.person.name.clone()),
        }
    }

    /// Reads who it is.
    pub(super) async fn read(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
        let named = named_agent(headers)?;
        let operator = |credential, person, opened: Option<(SessionKey, i64)>| {
            let (session, proved_at) = opened.unzip();
            Caller::Operator(Operator { credential, person, session, proved_at, agent: named.clone() })
        };
        if headers.contains_key(header::AUTHORIZATION) {
            let token = bearer(headers).ok_or_else(bad_credential)?;
            if let Some(agent) = app.tokens.agent_of(Digest::of(token.as_bytes())).await? {
                return Caller::agent(agent, headers);
            }
            let credential = Arc::new(Credential::presented(token));
            return match app.gate.operator(&credential).await? {
                Some(person) => Ok(operator(credential, person, None)),
                None => Err(bad_credential()),
            };
        }
        let cookie = session_cookie(headers, &app.cookie_name).ok_or_else(not_signed_in)?;
        let now = app.gate.now();
        // ATTACK(forged-from-a-page): no page but ours has the token, and none can read it from elsewhere.
        let opened = app.guards.session(&app.sessions, cookie, single(headers, &PAGE), now);
        let (session, whose, proved_at) = opened.ok_or_else(not_signed_in)?;
        // A session ends with the authority of whoever opened it.
        let person = app.gate.operator(&whose).await?.ok_or_else(not_signed_in)?;
        Ok(operator(whose, person, Some((session, proved_at))))
    }

    /// An agent, known by its token.
    pub(super) fn agent(agent: AgentName, headers: &HeaderMap) -> Result<Caller, Problem> {
        // ATTACK(speaks-for-another)
        match named_agent(headers)? {
            Some(named) if named != agent => Err(forbidden(
                "not_that_agent",
                format!("this token is of agent `{agent}`, which cannot speak for another"),
            )),
            _ => Ok(Caller::Agent(agent)),
        }
    }

    /// Whether they may ask for what is for `who`.
    pub(super) fn check(&self, who: Who) -> Result<(), Problem> {
        match (who, self) {
            (Who::Anyone | Who::Either | Who::Signed, _)
            | (Who::Agent, Caller::Agent(_))
            | (Who::Operator | Who::Counter, Caller::Operator(_)) => Ok(()),
            // ATTACK(agent-decides)
            (Who::Operator | Who::Counter, Caller::Agent(_)) => Err(forbidden(
                "not_an_operator",
                "this takes an operator's credential, and an agent's token is none".to_owned(),
            )),
            (Who::Agent, Caller::Operator(operator)) if operator.session.is_some() => {
                Err(forbidden("not_an_agent", "calls are made by agents, not from the page".to_owned()))
            }
            (Who::Agent, Caller::Operator(operator)) => {
                operator.check_more_than_looks()?;
                self.acting_agent().map(drop)
            }
        }
    }

    /// The agent that asks, or for which an operator asks.
    pub(super) fn acting_agent(&self) -> Result<&AgentName, Problem> {
        match self {
            Caller::Agent(agent) => Ok(agent),
            Caller::Operator(operator) => operator.agent.as_ref().ok_or_else(|| {
                forbidden("agent_needed", "an operator is no agent".to_owned())
                    .with_hint("name the agent that is meant with `X-Toolgate-Agent: NAME`")
            }),
        }
    }

    /// By what they are known, for whatever has to stay theirs. Nothing if they came by the page.
    pub(super) fn credential(&self, headers: &HeaderMap) -> Option<Digest> {
        bearer(headers).map(|token| Digest::of(token.as_bytes()))
    }

    /// The agent whose calls are all that this one may see; nothing for operators, who see all.
    pub(super) fn only_own(&self) -> Option<&AgentName> {
        match self {
            Caller::Agent(agent) => Some(agent),
            Caller::Operator(_) => None,
        }
    }

    /// The operator who asks for an agent, if it is one.
    pub(super) fn proposer(&self) -> Option<&OperatorName> {
        match self {
            Caller::Agent(_) => None,
            Caller::Operator(operator) => Some(&operator.person.name),
        }
    }

    /// Whether they may change something of a call that they may see.
    pub(super) fn check_changes(&self) -> Result<(), Problem> {
        match self {
            Caller::Agent(_) => Ok(()),
            Caller::Operator(operator) => operator.check_more_than_looks(),
        }
    }

    /// The operator, where the route is for operators alone.
    pub(super) fn operator(&self) -> Result<&Operator, Problem> {
        self.check(Who::Operator)?;
        match self {
            Caller::Operator(operator) => Ok(operator),
            Caller::Agent(_) => Err(bad_credential()),
        }
    }
}

fn named_agent(headers: &HeaderMap) -> Result<Option<AgentName>, Problem> {
    if !headers.contains_key(&AGENT) {
        return Ok(None);
    }
    let text = single(headers, &AGENT).unwrap_or_default();
    AgentName::parse(text)
        .map(Some)
        .map_err(|error| Problem::bad_request(format!("X-Toolgate-Agent: {error}")))
}

/// The value of a header that stands once.
pub(super) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = single(headers, &header::AUTHORIZATION)?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

pub(super) fn session_cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next()
}

fn not_signed_in() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "not_signed_in", "nobody is signed in here").with_hint(
        "give a token as `Authorization: Bearer …`, or open the sign-in link that `toolgate up` prints",
    )
}

fn bad_credential() -> Problem {
    Problem::new(StatusCode::UNAUTHORIZED, "bad_credential", "the credential is nobody's")
        .with_hint("`toolgate agents token NAME` gives an agent's token, and with `--rotate` another one")
}

fn forbidden(code: &'static str, detail: String) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, code, detail)
}

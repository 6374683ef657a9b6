//! What rules see of a call, made once for all of them.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::LazyLock;

use cedar_policy::{
    AuthorizationError, Authorizer, Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request,
    RestrictedExpression,
};
use contract::{Amount, EgressClass, RoleName};

use super::CedarSays;
use super::carry::{Carried, arguments};
use super::read::CedarRule;
use super::spend::{Spend, shown};
use super::types::ArgumentTypes;
use super::untold::{UNTOLD, hint};
use crate::facts::{Admitted, base_name};
use crate::period::{day_of, days_since_monday};
use crate::role::Seniority;
use crate::settings::Agent;

const MILLISECONDS_OF_HOUR: i64 = 3_600_000;
pub(super) const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// What is true while a call is decided, as far as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Circumstances {
    /// The time, in milliseconds since 1970.
    pub now: i64,
    /// The most that the call can cost.
    pub cost: Amount,
    /// What its agent has spent; nothing if nobody has said.
    pub spend: Option<Spend>,
}

/// A call as rules see it.
pub(crate) struct Shown {
    request: Request,
    entities: Entities,
    /// Arguments that rules cannot be shown.
    left_out: Vec<String>,
}

impl Shown {
    /// What there is to see, or why a rule cannot see it.
    pub(crate) fn of(
        call: &Admitted,
        agent: &Agent,
        circumstances: &Circumstances,
        arguments_of: &ArgumentTypes,
    ) -> Result<Shown, String> {
        let types = TYPES.as_ref().map_err(Clone::clone)?;
        let principal = types.agent(call.agent.as_str());
        let action = types.action(call.facets.action.as_str());
        let category = types.action(call.facets.action.category());
        let resource = types.tool(call.tool.name.as_str());
        let described = [
            described(
                principal.clone(),
                // What an agent does not have is an empty text: no role or seniority is called that.
                &[
                    ("level", agent.level_in_force().as_str()),
                    ("autonomy", agent.autonomy_in_force().as_str()),
                    ("role", agent.role.as_ref().map_or("", RoleName::as_str)),
                    ("seniority", agent.seniority.map_or("", Seniority::as_str)),
                ],
            )?,
            described(
                resource.clone(),
                &[
                    ("category", call.tool.category.as_str()),
                    ("safety", call.tool.safety.as_str()),
                    ("egress", call.tool.egress.as_str()),
                    ("trust", call.tool.trust.as_str()),
                ],
            )?,
            Entity::new_no_attrs(action.clone(), HashSet::from([category])),
        ];
        let entities = Entities::from_entities(described, None).map_err(|error| error.to_string())?;
        let Carried { values, left_out } = arguments(&call.values, arguments_of.get(&call.tool.name));
        let context = context(call, values, circumstances)?;
        let request =
            Request::new(principal, action, resource, context, None).map_err(|error| error.to_string())?;
        Ok(Shown { request, entities, left_out })
    }

    /// What a rule says about the call.
    pub(crate) fn to(&self, rule: &CedarRule) -> CedarSays {
        let response = Authorizer::new().is_authorized(&self.request, rule.set(), &self.entities);
        let diagnostics = response.diagnostics();
        // ATTACK(cedar-error-skips): an error is no reason to go on without the rule.
        if let Some(AuthorizationError::PolicyEvaluationError(error)) = diagnostics.errors().next() {
            return CedarSays::Fails(error.inner().to_string());
        }
        if diagnostics.reason().next().is_some() {
            return CedarSays::Matches;
        }
        // INVARIANT(cedar-odd-argument): a value that a rule cannot be shown would look missing to it, and it would be silent.
        match self.left_out.iter().find(|name| rule.reads().has(name)) {
            Some(name) if self.is_in_scope(rule) => {
                CedarSays::Fails(format!("the argument `{name}` has a value that rules cannot be shown"))
            }
            _ => CedarSays::Nothing,
        }
    }

    /// What can be done about a rule that failed in this way, if it failed since something cannot be told of the call.
    pub(crate) fn hint_for(&self, rule: &CedarRule, why: &str) -> Option<String> {
        let context = self.request.context()?;
        let is_missed = |name: &&str| {
            context.get(name).is_none() && rule.looks_at(name) && why.contains(&format!("`{name}`"))
        };
        UNTOLD.into_iter().find(is_missed).map(hint)
    }

    fn is_in_scope(&self, rule: &CedarRule) -> bool {
        let response = Authorizer::new().is_authorized(&self.request, rule.scope(), &self.entities);
        response.diagnostics().reason().next().is_some()
    }
}

fn described(uid: EntityUid, attributes: &[(&str, &str)]) -> Result<Entity, String> {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
    Entity::new(uid, attributes.collect(), HashSet::new()).map_err(|error| error.to_string())
}

/// What cannot be told of a call is not there: a rule that asks for it regardless fails, and denies.
fn context(
    call: &Admitted,
    arguments: Vec<(String, RestrictedExpression)>,
    circumstances: &Circumstances,
) -> Result<Context, String> {
    let Circumstances { now, cost, spend } = circumstances;
    let arguments = RestrictedExpression::new_record(arguments).map_err(|error| error.to_string())?;
    let hour = now.div_euclid(MILLISECONDS_OF_HOUR);
    let day = usize::try_from(days_since_monday(day_of(*now))).unwrap_or_default();
    let mut pairs = vec![
        ("arguments".to_owned(), arguments),
        ("hour".to_owned(), RestrictedExpression::new_long(hour.rem_euclid(24))),
        ("weekday".to_owned(), text(WEEKDAYS.get(day).copied().unwrap_or_default())),
        ("cost".to_owned(), shown(*cost)),
    ];
    if let Some(spend) = spend {
        pairs.push(("spend".to_owned(), spend.shown()?));
    }
    pairs.extend(call.task.as_ref().map(|task| ("task".to_owned(), text(task.as_str()))));
    pairs.extend(hosts(call).map(|hosts| ("hosts".to_owned(), hosts)));
    pairs.extend(commands(call).map(|commands| ("commands".to_owned(), commands)));
    Context::from_pairs(pairs).map_err(|error| error.to_string())
}

/// Where it would go, by its arguments. Nobody can tell that of a command with a network, nor of a call that reaches out and
/// names no place.
fn hosts(call: &Admitted) -> Option<RestrictedExpression> {
    let facets = &call.facets;
    let is_untold = facets.is_networked() || (facets.egress != EgressClass::None && facets.hosts.is_empty());
    let hosts = facets.hosts.iter().map(|target| text(&target.host.to_string()));
    (!is_untold).then(|| RestrictedExpression::new_set(hosts))
}

/// The programs it would start, by the last part of their names, if that can be told.
fn commands(call: &Admitted) -> Option<RestrictedExpression> {
    let commands = &call.facets.commands;
    let is_untold = commands.iter().any(|command| command.untold.is_some());
    let programs = commands.iter().flat_map(|command| command.programs());
    let programs = programs.map(|program| text(base_name(program)));
    (!is_untold).then(|| RestrictedExpression::new_set(programs))
}

fn text(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

/// The types of what rules name.
struct Types {
    agent: EntityTypeName,
    action: EntityTypeName,
    tool: EntityTypeName,
}

static TYPES: LazyLock<Result<Types, String>> = LazyLock::new(|| {
    let named = |name| EntityTypeName::from_str(name).map_err(|error| error.to_string());
    Ok(Types { agent: named("Agent")?, action: named("Action")?, tool: named("Tool")? })
});

impl Types {
    fn agent(&self, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.agent.clone(), EntityId::new(id))
    }

    fn action(&self, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.action.clone(), EntityId::new(id))
    }

    fn tool(&self, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.tool.clone(), EntityId::new(id))
    }
}

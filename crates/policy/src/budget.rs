//! Budgets: which of them a call counts against, how much it takes, and whether that is left.
//!
//! Who counts is not known here: what was spent arrives in [`crate::Facts`].
//!
//! # Invariants
//! - A budget of which nobody has said what was spent has nothing left.
//! - A call takes the most that it can cost; what it did cost is counted when it has ended.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use contract::{AgentName, Amount, Measure, OfTask, Pot, Tally, TaskName};
use serde::Serialize;

use crate::facts::Admitted;
use crate::period::{Date, Period, day_of};
use crate::resources::limits_for;
use crate::rule::{ApprovalRule, Fit, RuleEffect};
use crate::settings::{Settings, ToolGlob};
use crate::spelling::Known;

/// How much some calls may spend in a period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// Calls of which tools.
    pub tools: ToolGlob,
    /// Of which agent; nothing means of every one.
    pub agent: Option<AgentName>,
    /// For which task; nothing means for every one, and for none.
    pub task: Option<TaskName>,
    /// Who has one of its own.
    pub per: Per,
    /// How much.
    pub limit: BudgetLimit,
    /// In which time.
    pub period: Period,
    /// What becomes of calls beyond it.
    pub over: Over,
    /// Where it stands: file and line.
    pub place: String,
}

/// Who has a budget of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// All share one.
    All,
    /// Each agent.
    Agent,
    /// Each task of each agent.
    Task,
}

/// How much may be spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    /// So many calls.
    Calls(u64),
    /// So much money.
    Amount(Amount),
}

/// What becomes of calls beyond a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// People are asked.
    Ask,
    /// They do not run.
    Deny,
}

/// How much a rule lets calls spend before it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RuleBudget {
    /// How much.
    pub limit: BudgetLimit,
    /// In which time.
    pub period: Period,
}

/// One budget, and what one call takes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// What is added up; of which tools is said by the pattern beside it.
    pub pot: Pot,
    /// Calls of which tools.
    pub tools: ToolGlob,
    /// How much the call takes, in calls or millionths.
    pub take: u64,
    /// How much there is.
    pub limit: BudgetLimit,
    /// In which time.
    pub period: Period,
    /// When it begins anew, in milliseconds since 1970.
    pub resets_at: i64,
    /// What becomes of calls beyond it.
    pub over: Over,
    /// Where it stands: file and line.
    pub place: String,
    pub(crate) source: Source,
}

/// Where an account comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The rule at this place among those about the tool.
    Rule(usize),
    Budget,
    /// No budget: what rules are shown.
    Shown,
}

/// What a call that may run counts for, and against what. A part of its grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The most that it can cost.
    pub cost: Amount,
    /// In which currency; empty where there are no prices.
    pub currency: String,
    /// Amounts of its arguments that are counted, by where they stand.
    pub arguments: BTreeMap<String, Amount>,
    /// What it has to stay within.
    pub against: Vec<Against>,
}

/// A budget that a call has to stay within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Against {
    /// Which, and how much it takes.
    pub account: Account,
    /// How much there is; nothing where people have said yes to more.
    pub most: Option<u64>,
}

impl BudgetLimit {
    /// In calls or millionths.
    pub fn most(self) -> u64 {
        match self {
            BudgetLimit::Calls(calls) => calls,
            BudgetLimit::Amount(amount) => amount.millionths(),
        }
    }
}

impl Account {
    /// Whether less is left than the call takes.
    pub(crate) fn is_exceeded(&self, tally: Option<Tally>) -> bool {
        // INVARIANT(uncounted-is-spent)
        let taken = tally.map_or(u64::MAX, Tally::taken);
        self.take > 0 && taken.saturating_add(self.take) > self.limit.most()
    }

    /// How much is left, in calls or millionths.
    pub fn left(&self, tally: Tally) -> u64 {
        self.limit.most().saturating_sub(tally.taken())
    }

    /// A number of calls, or an amount, as people read it.
    pub fn told(&self, number: u64, currency: &str) -> String {
        match (self.limit, &self.pot.measure) {
            (BudgetLimit::Calls(_), _) if number == 1 => "1 call".to_owned(),
            (BudgetLimit::Calls(_), _) => format!("{number} calls"),
            // Nobody knows in which currency an argument is.
            (BudgetLimit::Amount(_), Measure::Argument(_)) => Amount::of_millionths(number).to_string(),
            (BudgetLimit::Amount(_), _) => format!("{} {currency}", Amount::of_millionths(number)),
        }
    }

    /// When it begins anew, as a date.
    pub fn resets_on(&self) -> String {
        Date::of(day_of(self.resets_at)).to_string()
    }

    /// The budget in words.
    pub fn described(&self, currency: &str) -> String {
        let most = self.told(self.limit.most(), currency);
        let of = match &self.pot.measure {
            Measure::Argument(path) => format!(" of `{path}`"),
            Measure::Calls | Measure::Cost => String::new(),
        };
        let agent = self.pot.agent.as_ref().map(|name| format!(" of agent `{name}`")).unwrap_or_default();
        let task = match &self.pot.task {
            OfTask::Any => String::new(),
            OfTask::Unnamed => " for no task".to_owned(),
            OfTask::Named(name) => format!(" for task `{name}`"),
        };
        format!("{}: `{}`{agent}{task}, {most}{of} {}", self.place, self.tools.as_str(), self.period)
    }

    /// What was spent of it, and what is left.
    pub fn position(&self, tally: Option<Tally>, currency: &str) -> String {
        let described = self.described(currency);
        let Some(tally) = tally else { return format!("{described}: nobody knows what was spent") };
        let (spent, left) = (self.told(tally.spent, currency), self.told(self.left(tally), currency));
        let reserved = match tally.reserved {
            0 => String::new(),
            reserved => format!(" and {} reserved", self.told(reserved, currency)),
        };
        format!("{described}: {spent} spent{reserved}, {left} left until {}", self.resets_on())
    }
}

impl Budget {
    fn is_about(&self, call: &Admitted) -> bool {
        self.tools.matches(&call.tool.name)
            && self.agent.as_ref().is_none_or(|agent| *agent == call.agent)
            && self.task.as_ref().is_none_or(|task| Some(task) == call.task.as_ref())
    }

    /// What it adds up for calls of this agent and task.
    pub(crate) fn account(&self, agent: &AgentName, task: Option<&TaskName>, now: i64) -> Account {
        let named = |task: &TaskName| OfTask::Named(task.clone());
        let (of, task) = match self.per {
            Per::All => (self.agent.clone(), self.task.as_ref().map_or(OfTask::Any, named)),
            Per::Agent => (Some(agent.clone()), self.task.as_ref().map_or(OfTask::Any, named)),
            Per::Task => (Some(agent.clone()), task.map_or(OfTask::Unnamed, named)),
        };
        let measure = match self.limit {
            BudgetLimit::Calls(_) => Measure::Calls,
            BudgetLimit::Amount(_) => Measure::Cost,
        };
        Account {
            pot: Pot { measure, agent: of, task, tools: None, since: self.period.began(now) },
            tools: self.tools.clone(),
            take: 0,
            limit: self.limit,
            period: self.period,
            resets_at: self.period.ends(now),
            over: self.over,
            place: self.place.clone(),
            source: Source::Budget,
        }
    }
}

impl ApprovalRule {
    /// What it adds up, if it is a budget: for all agents together, as the limit was written once.
    pub(crate) fn account(&self, position: usize, now: i64) -> Option<Account> {
        let RuleEffect::Budget(RuleBudget { limit, period }) = self.effect else { return None };
        let measure = match &self.when.amount {
            Some(amount) => Measure::Argument(amount.argument.to_string()),
            None => Measure::Calls,
        };
        Some(Account {
            pot: Pot { measure, agent: None, task: OfTask::Any, tools: None, since: period.began(now) },
            tools: self.tool.clone(),
            take: 0,
            limit,
            period,
            resets_at: period.ends(now),
            over: Over::Ask,
            place: self.place.clone(),
            source: Source::Rule(position),
        })
    }
}

/// The most that a call can cost, if its tool has a price.
pub fn quote(call: &Admitted, settings: &Settings) -> Option<Amount> {
    let price = settings.prices.of(&call.tool.name)?;
    let limits = limits_for(&call.tool.name, call.tool.limits, &settings.resources);
    let bytes_out = if call.facets.reaches_out() { settings.egress.limits.bytes } else { 0 };
    Some(price.at_most(&limits, bytes_out))
}

/// The budgets that a call counts against, in their order: those of rules, then the others.
pub(crate) fn accounts_of<'a>(
    call: &'a Admitted,
    settings: &Settings,
    rules: &[&'a ApprovalRule],
    known: &Known<'a>,
    now: i64,
) -> Vec<Account> {
    let mut accounts = Vec::new();
    for (position, rule) in rules.iter().enumerate() {
        let Some(account) = rule.account(position, now) else { continue };
        // What cannot be told is asked about, and cannot be counted.
        if rule.fits(&call.values, known) != Fit::Clear {
            continue;
        }
        let take = match &rule.when.amount {
            None => 1,
            Some(amount) => match known.amount(amount, &rule.when.arguments, &call.values) {
                Ok(amount) => amount.millionths(),
                Err(_) => continue,
            },
        };
        accounts.push(Account { take, ..account });
    }
    let cost = quote(call, settings).unwrap_or(Amount::ZERO).millionths();
    for budget in settings.budgets.iter().filter(|budget| budget.is_about(call)) {
        let take = if matches!(budget.limit, BudgetLimit::Calls(_)) { 1 } else { cost };
        accounts.push(Account { take, ..budget.account(&call.agent, call.task.as_ref(), now) });
    }
    accounts
}

/// What an agent has spent, for rules to see: no call takes anything of it, and nothing is beyond it.
pub(crate) fn spend_of(agent: &AgentName, now: i64) -> impl Iterator<Item = Account> {
    let of = move |tools: &ToolGlob, period| Budget {
        tools: tools.clone(),
        agent: None,
        task: None,
        per: Per::Agent,
        limit: BudgetLimit::Amount(Amount::MOST),
        period,
        over: Over::Deny,
        place: String::new(),
    };
    let periods = [Period::Daily, Period::Weekly, Period::Monthly].into_iter();
    let budgets = periods.filter_map(move |period| Some(of(EVERY_TOOL.as_ref()?, period)));
    budgets.map(move |budget| Account { source: Source::Shown, ..budget.account(agent, None, now) })
}

static EVERY_TOOL: LazyLock<Option<ToolGlob>> = LazyLock::new(|| ToolGlob::parse("*").ok());

/// Every budget there is, for people to look at; those of tasks for the tasks that are named.
pub fn budgets_of(settings: &Settings, tasks: &[(AgentName, Option<TaskName>)], now: i64) -> Vec<Account> {
    let rules = settings.rules.iter().enumerate().filter_map(|(place, rule)| rule.account(place, now));
    let mut accounts: Vec<Account> = rules.collect();
    for budget in &settings.budgets {
        let is_whose = |agent: &&AgentName| budget.agent.as_ref().is_none_or(|own| own == *agent);
        let agents = || settings.agents.keys().filter(is_whose);
        match budget.per {
            Per::All => accounts.extend(agents().next().map(|agent| budget.account(agent, None, now))),
            Per::Agent => accounts.extend(agents().map(|agent| budget.account(agent, None, now))),
            Per::Task => {
                let is_whose = |(agent, task): &&(AgentName, Option<TaskName>)| {
                    is_whose(&agent) && budget.task.as_ref().is_none_or(|own| Some(own) == task.as_ref())
                };
                let of = tasks.iter().filter(is_whose);
                accounts.extend(of.map(|(agent, task)| budget.account(agent, task.as_ref(), now)));
            }
        }
    }
    accounts
}

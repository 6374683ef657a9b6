//! What calls cost: what is reserved for one, what it did cost, and what is left of budgets.
//!
//! It counts nothing: the store does, in the transactions that let a call run and settle it.

use contract::{Amount, CallStatus, Cost, Pot, RunFacts, Tally, ToolName};
use policy::{
    Account, Admitted, Facts, Grant, PriceSettings, ToolGlob, Used, accounts, budgets_of, day_of,
    most_processor_time,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use store::{Charge, StoreError, Within};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::settle::Case;

/// How many tasks are listed that have a budget of their own.
const MOST_TASKS: u32 = 1000;

/// The longest that a budget's period can be, in days.
const LONGEST_PERIOD: i64 = 31;

/// One processor, in thousandths.
const ONE_PROCESSOR: u64 = 1000;

/// A budget, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ShownBudget {
    /// The file and line where it stands.
    pub place: String,
    /// Calls of which tools.
    pub tools: String,
    /// Of which agent; nothing means of all together.
    pub agent: Option<String>,
    /// For which task; nothing means for all together. Empty means for none that was named.
    pub task: Option<String>,
    /// What is counted: `calls`, `cost`, or `argument:` and where it stands.
    pub counts: String,
    /// In which currency, if it is about what calls cost.
    pub currency: Option<String>,
    /// How often it begins anew.
    pub period: &'static str,
    /// What becomes of calls beyond it: `ask` or `deny`.
    #[schemars(with = "String")]
    pub over: policy::Over,
    /// How much there is, in calls or units.
    pub limit: String,
    /// How much calls that have ended have spent.
    pub spent: String,
    /// How much is reserved for calls that have not.
    pub reserved: String,
    /// How much is left.
    pub left: String,
    /// When it begins anew, in milliseconds since 1970.
    pub resets_at: i64,
    /// All of that in one line.
    pub told: String,
}

impl Engine {
    /// Tells a decision what was spent of the budgets that a call counts against.
    pub(crate) async fn tell_spent(&self, call: &Admitted, facts: &mut Facts) -> Result<(), EngineError> {
        let accounts = accounts(call, facts, &self.policy());
        facts.tallies = self.tallies_of(&accounts).await?;
        Ok(())
    }

    /// Every budget there is, and what is left of each.
    pub async fn budgets(&self) -> Result<Vec<ShownBudget>, EngineError> {
        let (settings, now) = (self.settings(), self.now());
        let since = day_of(now).saturating_sub(LONGEST_PERIOD);
        let tasks = self.inner.store.tasks_since(since, MOST_TASKS).await?;
        let accounts = budgets_of(&settings, &tasks, now);
        let tallies = self.tallies_of(&accounts).await?;
        let currency = &settings.prices.currency;
        Ok(accounts
            .into_iter()
            .zip(tallies)
            .map(|(account, tally)| shown(&account, tally, currency))
            .collect())
    }

    async fn tallies_of(&self, accounts: &[Account]) -> Result<Vec<Tally>, StoreError> {
        let pots: Vec<Pot> = accounts.iter().map(|account| self.pot_of(account)).collect();
        self.inner.store.tallies(&pots).await
    }

    fn pot_of(&self, account: &Account) -> Pot {
        Pot { tools: self.names_of(&account.tools), ..account.pot.clone() }
    }

    /// The tools that a pattern means, and has ever meant; nothing if those are all there can be.
    fn names_of(&self, tools: &ToolGlob) -> Option<Vec<ToolName>> {
        let named =
            || self.catalogue().registered.iter().filter(|name| tools.matches(name)).cloned().collect();
        (tools.as_str() != "*").then(named)
    }

    /// What is reserved for a call that may run.
    pub(crate) fn charge_of(&self, grant: &Grant) -> Option<Charge> {
        let charge = grant.charge()?;
        let within = charge.against.iter().filter_map(|against| {
            Some(Within {
                pot: self.pot_of(&against.account),
                take: against.account.take,
                most: against.most?,
            })
        });
        Some(Charge {
            cost: charge.cost.millionths(),
            currency: charge.currency.clone(),
            arguments: charge
                .arguments
                .iter()
                .map(|(path, amount)| (path.clone(), amount.millionths()))
                .collect(),
            day: day_of(self.now()),
            within: within.collect(),
        })
    }

    /// What a call cost, as its receipt says it. What it used while its outcome is unknown is not known either.
    pub(crate) fn cost_of(
        &self,
        case: &Case,
        status: CallStatus,
        facts: Option<&RunFacts>,
        reported: Option<Amount>,
    ) -> Option<Cost> {
        let quoted = case.quote?;
        let PriceSettings { currency, .. } = &self.settings().prices;
        let price = self.settings().prices.of(&case.tool).unwrap_or_default();
        let facts = facts.filter(|_| status != CallStatus::Unknown);
        let measured = facts.map(|facts| price.for_use(used(facts)));
        Some(Cost { currency: currency.clone(), quoted, measured, reported })
    }
}

/// What the gate has measured of a call. Where it knows only a part of the processor time, all counts that there could be.
fn used(facts: &RunFacts) -> Used {
    let sent = facts.bytes_per_host.values().map(|(sent, _)| *sent);
    // As the grant names it.
    let granted = facts.limits.get("cpu_millis").copied().unwrap_or(ONE_PROCESSOR);
    let could_be = if facts.cpu_incomplete { most_processor_time(facts.wall_micros, granted) } else { 0 };
    Used {
        wall_micros: facts.wall_micros,
        cpu_micros: facts.cpu_micros.max(could_be),
        bytes_out: sent.fold(0, u64::saturating_add),
    }
}

/// What a tool says that a call cost: a number named `cost` in its answer. It is repeated, and counts for nothing.
pub(crate) fn reported(structured: &Value) -> Option<Amount> {
    Amount::parse(structured.get("cost")?.as_f64()?).ok()
}

fn shown(account: &Account, tally: Tally, currency: &str) -> ShownBudget {
    let bare = |number: u64| match account.limit {
        policy::BudgetLimit::Calls(_) => number.to_string(),
        policy::BudgetLimit::Amount(_) => Amount::of_millionths(number).to_string(),
    };
    let task = match &account.pot.task {
        contract::OfTask::Any => None,
        contract::OfTask::Unnamed => Some(String::new()),
        contract::OfTask::Named(name) => Some(name.to_string()),
    };
    ShownBudget {
        place: account.place.clone(),
        tools: account.tools.as_str().to_owned(),
        agent: account.pot.agent.as_ref().map(ToString::to_string),
        task,
        counts: account.pot.measure.to_string(),
        currency: (account.pot.measure == contract::Measure::Cost).then(|| currency.to_owned()),
        period: account.period.as_str(),
        over: account.over,
        limit: bare(account.limit.most()),
        spent: bare(tally.spent),
        reserved: bare(tally.reserved),
        left: bare(account.left(tally)),
        resets_at: account.resets_at,
        told: account.position(Some(tally), currency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_run_that_was_not_counted_to_its_end_all_counts_that_it_was_granted() {
        let facts = |cpu_micros, cpu_incomplete| RunFacts {
            wall_micros: 2_000_001,
            cpu_micros,
            cpu_incomplete,
            limits: [("cpu_millis".to_owned(), 1500)].into(),
            ..RunFacts::default()
        };
        let paid = |facts| used(&facts).cpu_micros;
        assert_eq!(paid(facts(7, false)), 7);
        // Part of a processor is a whole one.
        assert_eq!(paid(facts(7, true)), 4_000_002);
        assert_eq!(paid(facts(4_000_003, true)), 4_000_003);
    }
}

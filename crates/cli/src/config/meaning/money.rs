//! What calls cost, and how much may be spent.

use std::collections::BTreeMap;

use contract::{AgentName, Amount, TaskName, ToolName, nearest, show_hidden};
use policy::{
    Agent, Budget, BudgetLimit, Over, Per, Period, Price, PriceSettings, RuleBudget, ToolGlob, ToolPrice,
};

use super::Reader;
use crate::config::at::{At, Given};
use crate::config::file::{BudgetFile, File, PriceFile, RuleFile};
use crate::config::problem::{Problem, shown};
use crate::config::tool_names::built_in;

/// The period of a rule that names none.
const USUAL_PERIOD: Period = Period::Daily;

impl Reader {
    pub(super) fn prices(&mut self, tree: &File) -> PriceSettings {
        let Some(given) = tree.prices.at() else { return PriceSettings::default() };
        let Some(currency) = given.value.currency.at() else {
            self.refuse(given.place, "`currency` is missing: in which one are these prices?");
            return PriceSettings::default();
        };
        let is_name = (3..=8).contains(&currency.value.len())
            && currency.value.bytes().all(|letter| letter.is_ascii_uppercase());
        if !is_name {
            let message = format!("`{}` is not a currency, such as `USD`", shown(&currency.value));
            self.refuse(currency.place, message);
        }
        let mut tools = Vec::new();
        for (name, price) in given.value.tools.get().into_iter().flatten() {
            let (pattern, price) = (self.pattern(name), self.price(price));
            tools.extend(pattern.map(|pattern| ToolPrice { tools: pattern, price }));
        }
        PriceSettings { currency: currency.value.clone(), tools }
    }

    fn price(&mut self, price: &PriceFile) -> Price {
        let mut money = |given: &Given<f64>| self.money(given).unwrap_or_default();
        Price {
            call: money(&price.call),
            wall_second: money(&price.wall_second),
            cpu_second: money(&price.cpu_second),
            gigabyte_out: money(&price.gigabyte_out),
        }
    }

    /// An amount, if one was given that is one.
    pub(super) fn money(&mut self, given: &Given<f64>) -> Option<Amount> {
        let at = given.at()?;
        Amount::parse(at.value).map_err(|error| self.refuse(at.place, error.to_string())).ok()
    }

    pub(super) fn budgets(
        &mut self,
        tree: &File,
        agents: &BTreeMap<AgentName, Agent>,
        prices: &PriceSettings,
    ) -> Vec<Budget> {
        let given = tree.budgets.get().into_iter().flatten();
        given.filter_map(|budget| self.budget(budget, agents, prices)).collect()
    }

    fn budget(
        &mut self,
        budget: &At<BudgetFile>,
        agents: &BTreeMap<AgentName, Agent>,
        prices: &PriceSettings,
    ) -> Option<Budget> {
        let BudgetFile { tools, agent, task, per, limit, calls, period, over } = &budget.value;
        let everything = At { value: "*".to_owned(), place: budget.place };
        let tools = self.pattern(tools.at().unwrap_or(&everything));
        let agent = agent.at().map(|name| self.known_agent(name, agents));
        let task = task.at().map(|name| self.task(name));
        let limit = self.limit(budget, limit, calls);
        let Some(period) = period.get() else {
            self.refuse(budget.place, "`period` is missing in this budget");
            return None;
        };
        let (tools, limit) = (tools?, limit?);
        self.remark_on_prices(budget, &tools, limit, prices);
        Some(Budget {
            tools,
            // One that names nobody is for nobody, and not for all.
            agent: agent.map_or(Some(None), |agent| agent.map(Some))?,
            task: task.map_or(Some(None), |task| task.map(Some))?,
            per: per.get().map_or(Per::All, |word| word.0),
            limit,
            period: period.0,
            // What asks at night asks nobody, and what asks for every call is soon answered unread.
            over: over.get().map_or(Over::Deny, |word| word.0),
            place: format!("{}:{}", self.file, budget.place.line),
        })
    }

    fn limit(
        &mut self,
        budget: &At<BudgetFile>,
        limit: &Given<f64>,
        calls: &Given<u64>,
    ) -> Option<BudgetLimit> {
        match (limit.at(), calls.get()) {
            (Some(_), None) => self.money(limit).map(BudgetLimit::Amount),
            (None, Some(calls)) => Some(BudgetLimit::Calls(*calls)),
            (None, None) => {
                self.refuse(budget.place, "`limit` or `calls` is missing in this budget");
                None
            }
            (Some(at), Some(_)) => {
                self.refuse(at.place, "a budget has a `limit` or `calls`, not both: write two");
                None
            }
        }
    }

    /// A budget in money where nothing costs any does nothing, which is not what was meant.
    fn remark_on_prices(
        &mut self,
        budget: &At<BudgetFile>,
        tools: &ToolGlob,
        limit: BudgetLimit,
        prices: &PriceSettings,
    ) {
        if matches!(limit, BudgetLimit::Calls(_)) {
            return;
        }
        if prices.tools.is_empty() {
            self.refuse(
                budget.place,
                "a budget with a `limit` needs `prices`: without any, nothing is spent",
            );
            return;
        }
        let meant: Vec<ToolName> = built_in().into_iter().filter(|name| tools.matches(name)).collect();
        if !meant.is_empty() && meant.iter().all(|name| prices.of(name).is_none()) {
            let message = format!("no built-in tool that `{}` means has a price", tools.as_str());
            self.warn(budget.place, message);
        }
    }

    fn known_agent(&mut self, name: &At<String>, agents: &BTreeMap<AgentName, Agent>) -> Option<AgentName> {
        let found = AgentName::parse(&name.value).ok().filter(|parsed| agents.contains_key(parsed));
        if found.is_none() {
            let near = nearest(&name.value, agents.keys().map(AgentName::as_str)).map(str::to_owned);
            let message = format!("there is no agent `{}`", shown(&name.value));
            self.problems.push(Problem { nearest: near, ..Problem::new(name.place, message) });
        }
        found
    }

    fn task(&mut self, name: &At<String>) -> Option<TaskName> {
        let task = TaskName::parse(&name.value);
        task.map_err(|error| self.refuse(name.place, show_hidden(&error.to_string()))).ok()
    }

    /// What a rule lets calls spend, in the amounts that it counts, or else in calls.
    pub(super) fn rule_budget(&mut self, rule: &At<RuleFile>) -> Option<RuleBudget> {
        let RuleFile { budget_limit, budget_period, amount, .. } = &rule.value;
        let Some(at) = budget_limit.at() else {
            self.refuse(rule.place, "`budget_limit` is missing in this rule");
            return None;
        };
        let Ok(most) = Amount::parse(at.value) else {
            self.refuse(at.place, format!("`budget_limit` is `{}`, not an amount", at.value));
            return None;
        };
        let limit = match (amount.at(), most.millionths() % 1_000_000) {
            (Some(_), _) => BudgetLimit::Amount(most),
            (None, 0) => BudgetLimit::Calls(most.millionths() / 1_000_000),
            (None, _) => {
                let message =
                    format!("`budget_limit` is `{}`: without an `amount` it counts whole calls", at.value);
                self.refuse(at.place, message);
                return None;
            }
        };
        Some(RuleBudget { limit, period: budget_period.get().map_or(USUAL_PERIOD, |word| word.0) })
    }
}

//! The decision itself: layer by layer, the strictest wins.

use contract::{
    Action, Amount, ApprovalId, Autonomy, Category, Code, EgressClass, Measure, Reason, SafetyClass, Tally,
    Target, TrustLabel,
};

use crate::budget::{Account, accounts_of, quote, spend_of};
use crate::cedar::{ArgumentTypes, CedarEffect, CedarRule, CedarSays, Circumstances, Shown};
use crate::facts::{Admitted, Command, Consent, Facets, Facts, base_name};
use crate::grant::{Authority, Grant, WorkspaceAccess};
use crate::hint::hinted;
use crate::level::{Constraints, Git, Network, Terminal};
use crate::money::Books;
use crate::origins::{Dimension, Setting};
use crate::places::{Places, Unreached, places_of, refuse_special};
use crate::resources::limits_for;
use crate::rule::{ApprovalRule, Fit, RuleEffect};
use crate::settings::{Agent, Policy, Settings};
use crate::sight::Sight;
use crate::spelling::Known;
use crate::verdict::{Question, Ruling, Step, Verdict};

/// Decides one call. Runs nothing, and says how it came to its answer.
pub fn decide(call: &Admitted, facts: &Facts, policy: &Policy) -> Ruling {
    let settings = policy.settings();
    let (rules, known) = (policy.rules_about(&call.tool.name), known_of(call, facts));
    let cedar = policy.cedar_about(&call.tool.name, &call.facets.action);
    let mut accounts = accounts_of(call, settings, &rules, &known, facts.now);
    accounts.extend(shown_accounts(call, &cedar, facts.now));
    let books = Books::of(accounts, &facts.tallies);
    let mut hearing = Hearing {
        call,
        facts,
        policy,
        settings,
        rules,
        cedar,
        known,
        books,
        trace: Vec::new(),
        asks: Vec::new(),
        asked_by_cedar: Vec::new(),
        quorum: 1,
        places: Places::default(),
    };
    let outcome = hearing.hear();
    let verdict = match outcome {
        Err(reason) => Verdict::Deny(reason),
        Ok(()) => hearing.conclude(),
    };
    Ruling { verdict, trace: hearing.trace }
}

/// The budgets that a call counts against and what rules are shown, in the order in which a decision wants to hear what was spent of them.
pub fn accounts(call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<Account> {
    let (rules, known) = (policy.rules_about(&call.tool.name), known_of(call, facts));
    let cedar = policy.cedar_about(&call.tool.name, &call.facets.action);
    let mut accounts = accounts_of(call, policy.settings(), &rules, &known, facts.now);
    accounts.extend(shown_accounts(call, &cedar, facts.now));
    accounts
}

/// What rules want to see of what was spent, if one does.
fn shown_accounts(call: &Admitted, cedar: &[&CedarRule], now: i64) -> impl Iterator<Item = Account> {
    let wanted = cedar.iter().any(|rule| rule.reads_spend());
    wanted.then(|| spend_of(&call.agent, now)).into_iter().flatten()
}

/// What a decision is told of its budgets when nothing was spent yet.
pub fn unspent(call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<Tally> {
    after_spending(Amount::ZERO, call, facts, policy)
}

/// The same after calls that have cost so much, and that were the only ones.
pub fn after_spending(cost: Amount, call: &Admitted, facts: &Facts, policy: &Policy) -> Vec<Tally> {
    let tally = |account: &Account| match account.pot.measure {
        Measure::Cost => Tally { spent: cost.millionths(), ..Tally::default() },
        Measure::Calls | Measure::Argument(_) => Tally::default(),
    };
    accounts(call, facts, policy).iter().map(tally).collect()
}

fn known_of<'a>(call: &'a Admitted, facts: &'a Facts) -> Known<'a> {
    let Facets { commands, trees, .. } = &call.facets;
    Known::of(commands, trees, Some(&facts.workspace))
}

/// Where a rule in Cedar is found.
const CEDAR_HINT: &str = "whoever runs this gate can change that: the rule that is named stands under `policy` in toolgate.yaml, or in a file named there";

/// What one rule in Cedar says about a call of such an agent.
pub fn cedar_says(
    rule: &CedarRule,
    call: &Admitted,
    agent: &Agent,
    circumstances: &Circumstances,
    types: &ArgumentTypes,
) -> CedarSays {
    match Shown::of(call, agent, circumstances, types) {
        Ok(shown) => shown.to(rule),
        Err(why) => CedarSays::Fails(why),
    }
}

pub(crate) struct Hearing<'a> {
    pub(crate) call: &'a Admitted,
    pub(crate) facts: &'a Facts,
    policy: &'a Policy,
    pub(crate) settings: &'a Settings,
    /// Those about the tool.
    pub(crate) rules: Vec<&'a ApprovalRule>,
    /// Those in Cedar that can be about the call.
    cedar: Vec<&'a CedarRule>,
    known: Known<'a>,
    pub(crate) books: Books,
    trace: Vec<Step>,
    asks: Vec<String>,
    /// Those of them that rules in Cedar ask.
    asked_by_cedar: Vec<String>,
    quorum: usize,
    places: Places,
}

/// What the kind of action calls for where nothing else is said.
enum Default {
    Free,
    /// Settings may waive it.
    Ask,
}

impl<'a> Hearing<'a> {
    fn hear(&mut self) -> Result<(), Reason> {
        let settings = self.settings;
        let Some(agent) = settings.agents.get(&self.call.agent) else {
            let reason = Reason::unknown_agent(format!("there is no agent `{}`", self.call.agent));
            return self.deny("agent", reason);
        };
        let sight = Sight::of(agent, settings);
        let place = sight.origin(&self.call.agent, &self.call.tool);
        match sight.explain(&self.call.tool) {
            Ok(why) => self.say_at(place, "permission", "allow", why),
            Err(reason) => return self.deny_at(place, layer_of(&reason), reason),
        }
        self.hear_standing_of(agent);
        let constraints = sight.constraints();
        self.hear_constraints(agent, constraints)?;
        self.hear_places(agent, constraints)?;
        self.hear_commands(constraints)?;
        self.hear_file_settings()?;
        self.hear_class()?;
        self.hear_action(agent)?;
        self.hear_autonomy(agent)?;
        self.hear_rules()?;
        self.hear_budgets(agent, constraints)?;
        self.hear_cedar(agent)?;
        self.hear_registry();
        Ok(())
    }

    /// What its role and its seniority say: both only narrow, so none of it is an allow.
    fn hear_standing_of(&mut self, agent: &Agent) {
        if let Some(role) = &agent.role {
            let place = self.settings.origins.of(&Setting::Role(role.clone()));
            self.say_at(place, "role", "-", format!("role `{role}` includes `{}`", self.call.tool.name));
        }
        if let Some(seniority) = agent.seniority {
            let (level, autonomy) = (seniority.highest_level(), seniority.highest_autonomy());
            let why = format!(
                "`{}` goes no further than level `{level}` and autonomy `{autonomy}`",
                seniority.as_str()
            );
            let place = self.settings.origins.of(&Setting::Seniority(self.call.agent.clone()));
            self.say_at(place, "seniority", "-", why);
        }
    }

    fn hear_constraints(&mut self, agent: &Agent, constraints: &Constraints) -> Result<(), Reason> {
        let facets = &self.call.facets;
        let category = self.call.tool.category;
        let refuse = |what: String| Reason::constrained(what);
        let (settings, name) = (self.settings, &self.call.agent);
        let origin = |dimension| settings.origin_of(name, agent, dimension);
        if category == Category::Terminal && constraints.terminal == Terminal::None {
            let reason = refuse("the agent's level has no terminal".to_owned());
            return self.deny_at(origin(Dimension::Terminal), "level", reason);
        }
        if category == Category::Deployment && !constraints.deployment {
            let reason = refuse("the agent's level does not deploy".to_owned());
            return self.deny_at(origin(Dimension::Deployment), "level", reason);
        }
        if category == Category::VersionControl && facets.egress > most_egress(constraints.git) {
            let why = match constraints.git {
                Git::LocalOnly => "the agent's level keeps repositories to this machine",
                Git::ReadAndBranch | Git::Full => "the agent's level fetches, and does not push",
            };
            return self.deny_at(origin(Dimension::Git), "level", refuse(why.to_owned()));
        }
        if let Err(reason) = refuse_special(self.call, &self.settings.egress) {
            return self.deny("address", reason);
        }
        let reaches_out = facets.reaches_out();
        if reaches_out && constraints.network == Network::None {
            let reason = refuse("the agent's level has no network".to_owned());
            return self.deny_at(origin(Dimension::Network), "level", reason);
        }
        if reaches_out && !self.facts.egress {
            let why = "this gate cannot give a sandbox a network, so it refuses what needs one";
            return self.deny("egress", Reason::cannot_enforce(why));
        }
        // INVARIANT(grant-within-contract): what a contract does not say cannot be granted.
        if facets.safety > self.call.tool.safety || facets.egress > self.call.tool.egress {
            let why = "the call would do more than the tool's contract says";
            return self.deny("contract", Reason::constrained(why));
        }
        let level = agent.level_in_force();
        let is_own = *constraints == Constraints::of(level);
        let overrides = if is_own { "" } else { " and its overrides" };
        self.say_at(
            settings.origin_of_level(name, agent),
            "level",
            "allow",
            format!("within what level `{level}`{overrides} lets `{category}` do"),
        );
        self.hear_required_approvals(agent, constraints);
        Ok(())
    }

    /// Places that it names, and those that are listed for it.
    fn hear_places(&mut self, agent: &Agent, constraints: &Constraints) -> Result<(), Reason> {
        let (call, settings) = (self.call, self.settings);
        let (tool, category) = (&call.tool.name, call.tool.category);
        let place = settings.origin_of_hosts(&call.agent, agent, tool, category);
        match places_of(call, constraints.network, &settings.egress) {
            Ok(places) => self.places = places,
            Err(Unreached::Blocked(target, reason)) => {
                return self.deny_at(settings.origin_of_block(tool, &target.host), "hosts", reason);
            }
            Err(Unreached::Unlisted(reason)) => return self.deny_at(place, "hosts", reason),
        }
        for target in self.places.unlisted.clone() {
            let with = self.with_credential(&target);
            self.ask_at(
                place,
                "hosts",
                format!("`{target}` is on no list of hosts; a yes lets this call reach it{with}"),
            );
        }
        let listed = self.places.listed.iter().map(|target| format!("`{target}` is listed"));
        let place = place.map(str::to_owned);
        self.trace.extend(listed.map(|why| Step {
            layer: "hosts",
            says: "allow",
            why,
            place: place.clone(),
        }));
        Ok(())
    }

    /// ATTACK(command-that-spends): that the gate lends its name is a part of what is asked.
    fn with_credential(&self, target: &Target) -> &'static str {
        let of_servers = match self.call.tool.category {
            Category::Mcp => self.settings.egress.server_credentials.as_slice(),
            _ => &[],
        };
        let mut credentials = self.settings.egress.credentials.iter().chain(of_servers);
        if credentials.any(|credential| credential.to.covers(target)) {
            ", with the credential that this gate has for it"
        } else {
            ""
        }
    }

    fn hear_required_approvals(&mut self, agent: &Agent, constraints: &Constraints) {
        let action = &self.call.facets.action;
        if constraints.requires_approval.contains(action) {
            let place = self.settings.origin_of_approval(&self.call.agent, agent, action.as_str());
            self.ask_at(place, "level", format!("the agent's level requires approval for `{action}`"));
        }
    }

    /// An operator's list of denied commands, then the list of allowed ones, then the profile's own.
    fn hear_commands(&mut self, constraints: &Constraints) -> Result<(), Reason> {
        let (shell, origins) = (&self.settings.shell, &self.settings.origins);
        for started in &self.call.facets.commands {
            let is_denied =
                |program: &&str| shell.denied.contains(base_name(program)) || shell.denied.contains(*program);
            if let Some(command) = started.programs().find(is_denied) {
                let why = format!("`{command}` is on the list of denied commands");
                let named = [base_name(command), command].map(|name| Setting::DeniedCommand(name.to_owned()));
                let place = named.iter().find_map(|setting| origins.of(setting));
                return self.deny_at(place, "shell", Reason::command_not_allowed(why));
            }
            self.hear_untold(started)?;
            match (&shell.allowed, &started.unlisted) {
                // What an operator has listed by this very name is a command, whatever the profile's list says.
                (Some(allowed), _) => {
                    // ATTACK(lists-by-another): what it starts is a command like any other.
                    if let Some(command) = started.programs().find(|program| !allowed.contains(*program)) {
                        let why = format!("`{command}` is not on the list of allowed commands");
                        let place = origins.of(&Setting::AllowedCommands);
                        return self.deny_at(place, "shell", Reason::command_not_allowed(why));
                    }
                }
                // The lists are the second layer: what a command can do is up to the walls of its profile.
                (None, Some(_)) if constraints.terminal == Terminal::Full => {}
                (None, Some(reason)) => return self.deny("shell", reason.clone()),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Where an operator has listed commands, one that may start any other is none of those that may be run.
    fn hear_untold(&mut self, started: &Command) -> Result<(), Reason> {
        let (shell, origins) = (&self.settings.shell, &self.settings.origins);
        let Some(untold) = started.untold.filter(|_| shell.allowed.is_some() || !shell.denied.is_empty())
        else {
            return Ok(());
        };
        let (list, place) = match shell.denied.first() {
            Some(denied) => {
                ("one of the denied commands", origins.of(&Setting::DeniedCommand(denied.clone())))
            }
            None => ("a command that is not allowed", origins.of(&Setting::AllowedCommands)),
        };
        let why = format!("`{}` {untold}, also {list}", started.name);
        let hint = "name the program and its arguments themselves: no code, text for a shell, variable or option that says what is to be started";
        self.deny_at(place, "shell", Reason::command_not_allowed(why).with_hint(hint))
    }

    fn hear_file_settings(&mut self) -> Result<(), Reason> {
        let (files, call) = (&self.settings.files, self.call);
        let changes_files =
            call.tool.category == Category::FileSystem && call.facets.access == WorkspaceAccess::Write;
        if changes_files && files.read_only {
            let reason = Reason::constrained("the configuration makes files read-only");
            return self.deny_at(self.settings.origins.of(&Setting::ReadOnly), "files", reason);
        }
        if changes_files && !files.delete && call.facets.action.as_str() == "code:delete" {
            let reason = Reason::constrained("the configuration switches deleting off");
            return self.deny_at(self.settings.origins.of(&Setting::Delete), "files", reason);
        }
        Ok(())
    }

    fn hear_class(&mut self) -> Result<(), Reason> {
        let needed = match self.call.facets.safety {
            SafetyClass::Read | SafetyClass::Write | SafetyClass::Network => {
                self.say("class", "-", format!("`{}` is decided by its action", self.call.facets.safety));
                return Ok(());
            }
            SafetyClass::Financial => 1,
            SafetyClass::Privileged => 2,
        };
        let class = self.call.facets.safety;
        if self.facts.operators < needed {
            let people = if needed == 1 { "one operator" } else { "two different operators" };
            let why = format!("`{class}` calls need {people}, and there are {}", self.facts.operators);
            return self.deny("class", Reason::no_operator(why));
        }
        self.quorum = self.quorum.max(needed);
        self.ask("class", format!("`{class}` calls are always approved by people"));
        Ok(())
    }

    /// Action default, and what the agent's lists and the rules waive of it.
    fn hear_action(&mut self, agent: &Agent) -> Result<(), Reason> {
        let action = &self.call.facets.action;
        // ATTACK(denied-action): whichever tool it is asked of, and whatever waives questions.
        if agent.denied_actions.contains(action) {
            let why = format!("the agent's list of denied actions has `{action}`");
            let place = self.settings.origins.of(&Setting::DeniedActions(self.call.agent.clone()));
            return self.deny_at(place, "agent", Reason::denied_by_list(why));
        }
        if agent.human_approval.contains(action) {
            let place = self.settings.origins.of(&Setting::HumanApproval(self.call.agent.clone()));
            self.ask_at(place, "agent", format!("the agent must ask for `{action}`"));
            return Ok(());
        }
        match default_for(action, self.call) {
            Default::Free => self.say("action", "allow", format!("`{action}` is free by default")),
            Default::Ask => match self.waiver(agent) {
                Some((why, place)) => self.say_at(place, "action", "allow", why),
                None => self.ask("action", format!("`{action}` is asked for by default")),
            },
        }
        Ok(())
    }

    /// Who says that a default question need not be asked. Classes above `network` cannot be waived.
    fn waiver(&self, agent: &Agent) -> Option<(String, Option<&'a str>)> {
        let facets = &self.call.facets;
        if facets.safety.is_grave() || self.call.tool.trust != TrustLabel::Internal {
            return None;
        }
        if agent.auto_approve.contains(&facets.action) {
            let place = self.settings.origins.of(&Setting::AutoApprove(self.call.agent.clone()));
            return Some((format!("the agent need not ask for `{}`", facets.action), place));
        }
        let stays_inside = facets.safety <= SafetyClass::Write && facets.egress == EgressClass::None;
        if agent.autonomy_in_force() == Autonomy::Full && stays_inside {
            let place = self.settings.origins.of(&Setting::Autonomy(self.call.agent.clone()));
            return Some(("autonomy `full`: it stays in the sandbox".to_owned(), place));
        }
        let mut rules = self.rules.iter().enumerate();
        let (_, rule) = rules.find(|(position, rule)| match rule.effect {
            RuleEffect::Approve => self.fit(rule) != Fit::None,
            RuleEffect::Budget(_) => self.books.is_within(*position),
            RuleEffect::Prompt | RuleEffect::Deny => false,
        })?;
        let why = || format!("{} approves `{}`", rule.place, rule.tool.as_str());
        stays_inside.then(|| (why(), Some(rule.place.as_str())))
    }

    /// Whether a rule about the tool speaks about the call, and how clearly.
    pub(crate) fn fit(&self, rule: &'a ApprovalRule) -> Fit {
        rule.fits(&self.call.values, &self.known)
    }

    fn hear_autonomy(&mut self, agent: &Agent) -> Result<(), Reason> {
        let changes = self.call.facets.safety > SafetyClass::Read;
        let place = self.settings.origin_of_autonomy(&self.call.agent, agent);
        match agent.autonomy_in_force() {
            Autonomy::Locked if changes => {
                self.deny_at(place, "autonomy", Reason::locked("the agent is locked and changes nothing"))
            }
            Autonomy::Supervised if changes => {
                self.ask_at(
                    place,
                    "autonomy",
                    "the agent is supervised and asks for every change".to_owned(),
                );
                Ok(())
            }
            autonomy => {
                self.say("autonomy", "-", format!("`{autonomy}`"));
                Ok(())
            }
        }
    }

    fn hear_rules(&mut self) -> Result<(), Reason> {
        for (position, rule) in self.rules.clone().into_iter().enumerate() {
            let what = match self.fit(rule) {
                Fit::None => continue,
                Fit::Clear => rule.described(),
                Fit::Unclear(why) => format!("{} ({why})", rule.described()),
            };
            let (quorum, place) = (rule.quorum, Some(rule.place.as_str()));
            match rule.effect {
                RuleEffect::Approve => {
                    self.say_at(place, "rule", "-", format!("{what} approves what can be waived"));
                }
                RuleEffect::Budget(_) => self.hear_rule_budget(position, rule, &what),
                RuleEffect::Prompt => {
                    self.quorum = self.quorum.max(quorum);
                    let people = if quorum > 1 { format!(" {quorum} people") } else { String::new() };
                    self.ask_at(place, "rule", format!("{what} asks{people}"));
                }
                RuleEffect::Deny => {
                    return self.deny_at(place, "rule", Reason::denied_by_rule(format!("{what} denies")));
                }
            }
        }
        Ok(())
    }

    /// What rules in Cedar forbid, or have people asked about.
    ///
    /// INVARIANT(cedar-restricts): it can deny and ask, and nothing that it says is an allow.
    fn hear_cedar(&mut self, agent: &Agent) -> Result<(), Reason> {
        let (call, rules) = (self.call, std::mem::take(&mut self.cedar));
        if rules.is_empty() {
            return Ok(());
        }
        let cost = quote(call, self.settings).unwrap_or(Amount::ZERO);
        let circumstances = Circumstances { now: self.facts.now, cost, spend: self.books.spend() };
        let shown = Shown::of(call, agent, &circumstances, &self.settings.argument_types);
        let mut matching = 0_usize;
        for rule in &rules {
            let says = match &shown {
                Ok(shown) => shown.to(rule),
                Err(why) => CedarSays::Fails(why.clone()),
            };
            let (what, place) = (rule.described(), Some(rule.place.as_str()));
            match (says, rule.effect) {
                (CedarSays::Nothing, _) => continue,
                // INVARIANT(cedar-error-denies)
                (CedarSays::Fails(why), _) => {
                    let hint = shown.as_ref().ok().and_then(|shown| shown.hint_for(rule, &why));
                    let why = format!("{what} (cannot be evaluated for this call, so it denies: {why})");
                    let reason = Reason::rule_failed(why);
                    let reason = match hint {
                        Some(hint) => reason.with_hint(hint),
                        None => reason,
                    };
                    return self.deny_at(place, "cedar", reason);
                }
                (CedarSays::Matches, CedarEffect::Forbid) => {
                    let reason = Reason::denied_by_rule(format!("{what} (forbids)"));
                    return self.deny_at(place, "cedar", reason.with_hint(CEDAR_HINT));
                }
                (CedarSays::Matches, CedarEffect::Ask { people }) => {
                    self.quorum = self.quorum.max(people);
                    let people = if people > 1 { format!(" {people} people") } else { String::new() };
                    let why = format!("{what} (asks{people})");
                    self.asked_by_cedar.push(why.clone());
                    self.ask_at(place, "cedar", why);
                }
            }
            matching += 1;
        }
        if matching == 0 {
            let none = match rules.len() {
                1 => "the one rule is not about the call".to_owned(),
                count => format!("none of {count} rules is about the call"),
            };
            self.say("cedar", "-", none);
        }
        Ok(())
    }

    fn hear_registry(&mut self) {
        let (tool, facets) = (&self.call.tool, &self.call.facets);
        // INVARIANT(outside-is-asked): the database demands it of every tool that can change something outside. It is meant
        // for those calls that would; a rule can demand it of others.
        let is_meant = tool.egress < EgressClass::Write || facets.egress == EgressClass::Write;
        if tool.requires_approval && is_meant {
            self.ask("registry", "the registry requires approval for this tool".to_owned());
        }
        if !matches!(self.call.tool.trust, TrustLabel::Internal | TrustLabel::Pinned) {
            self.ask("registry", format!("the tool is `{}`", self.call.tool.trust));
        }
    }

    fn conclude(&mut self) -> Verdict {
        if self.asks.is_empty() {
            return Verdict::Allow(self.grant(None));
        }
        // ATTACK(standing-for-another-host): who is asked is shown the places, and a yes is one to these alone.
        let reached = self.places.listed.iter();
        let reached =
            reached.map(|target| format!("it would reach `{target}`{}", self.with_credential(target)));
        let reaches_more = self.call.facets.is_networked() || !self.call.facets.reaches.is_empty();
        let others = self.places.told_of_others().filter(|_| reaches_more);
        let reached: Vec<String> = reached.chain(others).collect();
        self.asks.extend(reached);
        match &self.facts.consent {
            Some(consent) => match self.why_not_good(consent) {
                None => {
                    let by: Vec<&str> = consent.by.iter().map(contract::OperatorName::as_str).collect();
                    let why = format!("approved by {}", by.join(", "));
                    self.say("approval", "allow", why);
                    return Verdict::Allow(self.grant(Some(&consent.approval)));
                }
                Some(why) => self.say("approval", "-", why.to_owned()),
            },
            None => {
                if let Some(approval) = self.standing() {
                    return Verdict::Allow(self.grant(Some(&approval)));
                }
            }
        }
        // What nobody can answer is not asked.
        if self.facts.operators < self.quorum {
            let people =
                if self.quorum == 1 { "one person".to_owned() } else { format!("{} people", self.quorum) };
            let why = format!("{people} must approve this, and {} could", self.facts.operators);
            self.say("quorum", "deny", why.clone());
            return Verdict::Deny(hinted(Reason::no_operator(why), &self.call.agent, &self.call.tool.name));
        }
        Verdict::Ask(self.question())
    }

    /// An earlier yes that covers this call, too.
    fn standing(&mut self) -> Option<ApprovalId> {
        // ATTACK(standing-beyond-a-budget)
        if self.books.has_exceeded() {
            return None;
        }
        for standing in &self.facts.standing {
            let id = standing.approval.short();
            let why_not =
                standing.why_not(self.call, self.facts, self.policy.hash(), &self.asks, self.quorum);
            let Some(why_not) = why_not else {
                let by: Vec<&str> = standing.by.iter().map(contract::OperatorName::as_str).collect();
                let why = format!("approval {id} by {} covers it, for its {}", by.join(", "), standing.scope);
                self.say("standing", "allow", why);
                return Some(standing.approval.clone());
            };
            self.say("standing", "-", format!("approval {id} does not cover it: {why_not}"));
        }
        None
    }

    /// A consent is good for the very call it was given to, and no other.
    fn why_not_good(&self, consent: &Consent) -> Option<&'static str> {
        let call = self.call;
        if consent.agent != call.agent || consent.arguments != call.arguments {
            return Some("the approval was given to another call");
        }
        // ATTACK(swapped-while-pending): a yes to other files than these is none.
        if consent.operands != call.operands {
            return Some("the approval was given to other files");
        }
        if consent.contract != call.tool.hash {
            return Some("the tool has changed since it was approved");
        }
        if consent.policy != self.policy.hash() {
            return Some("the policy has changed since it was approved");
        }
        if consent.expires_at <= self.facts.now {
            return Some("the approval has expired");
        }
        if consent.by.len() < self.quorum {
            return Some("more people must approve");
        }
        // ATTACK(yes-before-the-rule-asked): what a rule asks about may be true only since.
        if !self.asked_by_cedar.iter().all(|asked| consent.why.contains(asked)) {
            return Some("nobody was asked what a rule asks now");
        }
        // ATTACK(yes-before-the-budget-was-spent)
        if !self.books.is_asked_in(&consent.why, &self.settings.prices.currency) {
            return Some("nobody was asked whether it may exceed a budget");
        }
        None
    }

    fn question(&self) -> Question {
        let of_class = self.settings.asking.deny_after.get(&self.call.facets.safety);
        let ask_for = of_class.copied().unwrap_or(self.facts.ask_for);
        Question {
            why: self.asks.clone(),
            quorum: self.quorum,
            expires_at: self.facts.now.saturating_add(ask_for),
        }
    }

    /// What was asked for, within the limits of the contract.
    fn grant(&self, approval: Option<&ApprovalId>) -> Grant {
        let call = self.call;
        // INVARIANT(limits-only-lowered)
        let limits = limits_for(&call.tool.name, call.tool.limits, &self.settings.resources);
        let milliseconds = i64::try_from(limits.timeout.as_millis()).unwrap_or(i64::MAX);
        let authority = Authority {
            call: call.call.clone(),
            tool: call.tool.name.clone(),
            contract: call.tool.hash,
            arguments: call.arguments,
            policy: self.policy.hash(),
            approval: approval.cloned(),
            operands: call.operands,
            workspace: self.facts.workspace.clone(),
            access: call.facets.access,
            profile: call.facets.profile,
            egress: call.facets.egress,
            hosts: self.places.granted.clone(),
            named: self.places.named().cloned().collect(),
            by_pattern: self.places.by_pattern.clone(),
            blocked: self.places.blocked.clone(),
            limits,
            // A minute for everything around the run itself.
            expires_at: self.facts.now.saturating_add(milliseconds).saturating_add(60_000),
        };
        Grant::new(authority, self.charge())
    }

    pub(crate) fn say(&mut self, layer: &'static str, says: &'static str, why: String) {
        self.say_at(None, layer, says, why);
    }

    pub(crate) fn ask(&mut self, layer: &'static str, why: String) {
        self.ask_at(None, layer, why);
    }

    pub(crate) fn deny<T>(&mut self, layer: &'static str, reason: Reason) -> Result<T, Reason> {
        self.deny_at(None, layer, reason)
    }

    /// A say, and the line of the configuration that is behind it.
    pub(crate) fn say_at(
        &mut self,
        place: Option<&str>,
        layer: &'static str,
        says: &'static str,
        why: String,
    ) {
        self.trace.push(Step { layer, says, why, place: place.map(str::to_owned) });
    }

    pub(crate) fn ask_at(&mut self, place: Option<&str>, layer: &'static str, why: String) {
        self.asks.push(why.clone());
        self.say_at(place, layer, "ask", why);
    }

    pub(crate) fn deny_at<T>(
        &mut self,
        place: Option<&str>,
        layer: &'static str,
        reason: Reason,
    ) -> Result<T, Reason> {
        self.say_at(place, layer, "deny", reason.message.clone());
        Err(hinted(reason, &self.call.agent, &self.call.tool.name))
    }
}

/// Which layer has refused a call before it was decided about.
pub fn layer_before(reason: &Reason) -> &'static str {
    match layer_of(reason) {
        "permission" => "admit",
        own => own,
    }
}

/// Which layer it is that hides a tool.
fn layer_of(reason: &Reason) -> &'static str {
    match reason.code {
        Code::NotInRole => "role",
        Code::Locked => "autonomy",
        _ => "permission",
    }
}

/// What may leave the machine on behalf of a repository.
fn most_egress(git: Git) -> EgressClass {
    match git {
        Git::LocalOnly => EgressClass::None,
        Git::ReadAndBranch => EgressClass::ReadOnly,
        Git::Full => EgressClass::Write,
    }
}

/// The table of the first ten minutes: what is free for an agent that asks for what cannot be undone.
fn default_for(action: &Action, call: &Admitted) -> Default {
    match is_free(action.as_str()) && call.facets.egress <= EgressClass::ReadOnly {
        true => Default::Free,
        false => Default::Ask,
    }
}

/// Whether an action is free by default, where it changes nothing outside.
pub(crate) fn is_free(action: &str) -> bool {
    matches!(
        action,
        "code:read"
            | "code:write"
            | "code:create"
            | "code:refactor"
            | "docs:write"
            | "test:write"
            | "test:run"
            | "exec:inspect"
            | "exec:build"
            | "exec:code"
            | "vcs:read"
            | "vcs:commit"
            | "vcs:branch"
            | "memory:read"
            | "memory:write"
            | "db:query"
            | "web:read"
            // Classed up when it was imported, so nothing but what an operator has lowered is no question.
            | "mcp:call"
    )
}

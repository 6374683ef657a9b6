//! Finds rules that do nothing, or not what their author thinks.
//!
//! Says only what can be told for sure from the rules and the tools that are known; what it is silent about may still be wrong.
//!
//! # Invariants
//! - Without a rule that is called shadowed, unreachable or never matching, every call of a known tool has the same verdict.

mod approval;
mod cedar;

use contract::{EgressClass, SafetyClass};
use serde::Serialize;

use crate::cedar::CedarSchema;
use crate::facts::ToolFacts;
use crate::settings::{Agent, Settings, ToolGlob};
use crate::sight::Sight;

/// One rule that somebody should look at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is found.
    pub kind: FindingKind,
    /// Where the rule stands: file and line.
    pub place: String,
    /// Its name, or what it is about.
    pub rule: String,
    /// Why.
    pub why: String,
    /// What to do about it.
    pub advice: String,
}

/// What is found about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Another rule says as much, or more, about all that it is about.
    Shadowed,
    /// No call comes as far as to it, or it can change nothing about those that do.
    Unreachable,
    /// It can be about no call.
    NeverMatches,
    /// It is about more calls than its author seems to think.
    AlwaysApplies,
    /// It says nothing about calls of which cannot be told what it looks for.
    LetsUntoldBy,
    /// It looks at money where nothing costs any.
    NoPrices,
    /// Nothing shows what it is meant to do.
    NoExamples,
    /// Nothing shows a call that it is about.
    NoPositiveExample,
}

impl FindingKind {
    /// In one word.
    pub fn as_str(self) -> &'static str {
        match self {
            FindingKind::Shadowed => "shadowed",
            FindingKind::Unreachable => "unreachable",
            FindingKind::NeverMatches => "never_matches",
            FindingKind::AlwaysApplies => "always_applies",
            FindingKind::LetsUntoldBy => "lets_untold_by",
            FindingKind::NoPrices => "no_prices",
            FindingKind::NoExamples => "no_examples",
            FindingKind::NoPositiveExample => "no_positive_example",
        }
    }

    /// Whether the rule could be taken out, and no verdict about a known tool would change.
    pub fn is_idle(self) -> bool {
        matches!(self, FindingKind::Shadowed | FindingKind::Unreachable | FindingKind::NeverMatches)
    }
}

/// What is found about the rules of some settings, in their order.
pub fn lint(settings: &Settings, known: &CedarSchema) -> Vec<Finding> {
    let mut found = approval::findings(settings, known);
    found.extend(cedar::findings(settings, known));
    found
}

/// Whether any of the agents may use a tool at all.
fn is_used<'a>(
    tool: &ToolFacts,
    settings: &'a Settings,
    mut agents: impl Iterator<Item = &'a Agent>,
) -> bool {
    agents.any(|agent| Sight::of(agent, settings).sees(tool))
}

/// Why no agent may use a tool.
fn why_unused(tool: &ToolFacts, settings: &Settings) -> String {
    let name = &tool.name;
    match settings.disabled.iter().any(|glob| glob.matches(name)) {
        true => format!("`{name}` is switched off"),
        false => format!("no agent may use `{name}`"),
    }
}

impl ToolGlob {
    /// Whether it surely fits every name that another fits.
    pub(crate) fn covers(&self, other: &ToolGlob) -> bool {
        if self.as_str() == other.as_str() || self.as_str() == "*" {
            return true;
        }
        if let Some(name) = other.name() {
            return self.matches(&name);
        }
        let begins = self.as_str().strip_suffix('*').filter(|before| *before == self.beginning());
        begins.is_some_and(|before| other.beginning().starts_with(before))
    }

    /// The one tool that it is about, if it is about one.
    pub(crate) fn name(&self) -> Option<contract::ToolName> {
        (self.beginning() == self.as_str()).then(|| contract::ToolName::parse(self.as_str()).ok())?
    }

    /// Whether tools that are imported later might be meant: their names begin in one way.
    pub(crate) fn may_mean_imported(&self) -> bool {
        const IMPORTED: &str = "mcp_";
        self.beginning().starts_with(IMPORTED) || IMPORTED.starts_with(self.beginning())
    }
}

/// Whether a call of such a kind could be freed by a rule that approves.
fn can_be_waived(safety: SafetyClass, egress: EgressClass) -> bool {
    safety <= SafetyClass::Write && egress == EgressClass::None
}

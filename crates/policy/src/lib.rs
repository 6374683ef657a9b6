//! Decides whether one call may run, and with what authority.
//!
//! Pure: no clock, no disk, no network. Time and history arrive in [`Facts`], configuration in a [`Policy`].
//!
//! # Invariants
//! - What nothing permits is denied, and what nothing frees is asked; an empty list means none, never all.
//! - A budget of which nobody knows what was spent has nothing left.
//! - A rule in Cedar only restricts, and one that cannot be evaluated denies.
//! - A [`Grant`] is made only here, and never exceeds the tool's contract.
#![forbid(unsafe_code)]

mod budget;
mod cedar;
mod decide;
mod disclosure;
mod egress;
mod facts;
mod grant;
mod hint;
mod hook;
mod index;
mod level;
mod lint;
mod money;
mod nearest;
mod origins;
mod past;
mod period;
mod places;
mod preset;
mod price;
mod rates;
mod resources;
mod role;
mod rule;
mod settings;
mod sight;
mod spelling;
mod standing;
mod upstream;
mod verdict;
mod wildcard;

pub use budget::{Account, Against, Budget, BudgetLimit, Charge, Over, Per, RuleBudget, budgets_of, quote};
pub use cedar::{
    ArgumentTypes, CedarChecks, CedarEffect, CedarProblem, CedarRule, CedarSays, CedarSchema, CedarTool,
    Checked, Circumstances, Kind, Member, Named, Reads, Spend,
};
pub use decide::{accounts, after_spending, cedar_says, decide, layer_before, unspent};
pub use disclosure::DisclosureSettings;
pub use egress::{
    Credential, CredentialForm, EgressLimits, EgressSettings, HeaderSettings, HttpSettings, SecretSource,
    SignInGrant, SignInSettings, ToolPlaces, VaultSettings,
};
pub use facts::{Admitted, Command, Consent, Facets, Facts, ToolFacts};
pub use grant::{Authority, Grant, GrantLimits, WorkspaceAccess};
pub use hint::hinted;
pub use hook::{HookSettings, HookTime};
pub use level::{Constraints, FileSystem, Git, Network, Overrides, Terminal, categories_of};
pub use lint::{Finding, FindingKind, lint};
pub use money::asks_to_exceed;
pub use nearest::{Change, Nearest, nearest};
pub use origins::{Dimension, Origins, Setting};
pub use past::{
    Answer, Calls, Compared, Drifted, Flip, Flipped, Left, MOST_GROUPS, NotDecided, PastCall, Says, Side,
    Simulation, Tally, Word, answer, compare, unheard,
};
pub use period::{Period, day_of};
pub use places::{NamedPlace, named_places};
pub use preset::Preset;
pub use price::{Price, PriceSettings, ToolPrice, Used, most_processor_time};
pub use rates::{Counted, LONGEST_WINDOW_MS, RateSettings, ToolRate};
pub use resources::{Resources, ToolResources};
pub use role::{Role, Seniority};
pub use rule::{
    AmountLimit, Amounts, ApprovalRule, ArgumentPath, ArgumentPathError, Conditions, Pattern, RuleEffect,
};
pub use settings::{
    Agent, Asking, Escalation, FileSettings, Policy, Settings, ShellSettings, ToolGlob, ToolGlobError,
};
pub use sight::{Sight, may_see};
pub use spelling::TextPattern;
pub use standing::Standing;
pub use upstream::{Era, NamePrefix, Passed, UpstreamSettings, UpstreamWay};
pub use verdict::{Question, Ruling, Step, Verdict, with_place};

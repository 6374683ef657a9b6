//! Everything a decision may rest on, gathered by others.

use std::path::PathBuf;
use std::sync::Arc;

use contract::{
    Action, AgentName, ApprovalId, CallId, Category, Digest, EgressClass, OperatorName, Profile, Reach,
    Reason, SafetyClass, Tally, Target, TaskName, ToolName, ToolStatus, TrustLabel,
};
use serde_json::Value;

use crate::grant::{GrantLimits, WorkspaceAccess};
use crate::standing::Standing;

/// A request whose tool is known and whose arguments fit.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// Which call.
    pub call: CallId,
    /// Who asks.
    pub agent: AgentName,
    /// For which task.
    pub task: Option<TaskName>,
    /// The tool, as it is registered.
    pub tool: ToolFacts,
    /// What this call would do.
    pub facets: Facets,
    /// The digest of the canonical arguments.
    pub arguments: Digest,
    /// The digest of the files that it names, as it would get them; nothing before they were looked at.
    pub operands: Option<Digest>,
    /// The arguments themselves, for rules about what stands in them.
    pub values: Arc<Value>,
    /// When it was admitted, in milliseconds since 1970.
    pub asked_at: i64,
}

/// A tool, as the registry has it.
#[derive(Clone, Debug)]
pub struct ToolFacts {
    /// Its name.
    pub name: ToolName,
    /// The hash of its contract.
    pub hash: Digest,
    /// What it works on.
    pub category: Category,
    /// How dangerous its contract says that it is at most.
    pub safety: SafetyClass,
    /// How dangerous the least of its calls is.
    pub least: SafetyClass,
    /// What its contract says that leaves the machine at most.
    pub egress: EgressClass,
    /// Whether it may be called.
    pub status: ToolStatus,
    /// Where it comes from.
    pub trust: TrustLabel,
    /// Whether the registry demands approval; no setting waives that.
    pub requires_approval: bool,
    /// The most a call of it may use.
    pub limits: GrantLimits,
}

/// What a call would do, read from its arguments by the tool's own code.
#[derive(Clone, Debug)]
pub struct Facets {
    /// The kind of action.
    pub action: Action,
    /// How dangerous it is.
    pub safety: SafetyClass,
    /// What leaves the machine.
    pub egress: EgressClass,
    /// What it needs to do in the workspace.
    pub access: WorkspaceAccess,
    /// For commands: the profile asked for.
    pub profile: Option<Profile>,
    /// For commands: every program that would be started.
    pub commands: Vec<Command>,
    /// Arguments that name a directory and mean everything beneath it, as they were written.
    pub trees: Vec<String>,
    /// Places that its arguments name, in their one spelling.
    pub hosts: Vec<Target>,
    /// Places that whoever runs this gate has listed for what makes the call: for an upstream server, those that it may reach
    /// while it answers.
    pub reaches: Vec<Reach>,
}

impl Facets {
    /// Whether the call reaches out, or is a command that can.
    pub(crate) fn reaches_out(&self) -> bool {
        self.egress != EgressClass::None || self.is_networked()
    }

    /// Whether it is a command with a network: where it goes cannot be told from its words.
    pub(crate) fn is_networked(&self) -> bool {
        self.profile == Some(Profile::Networked)
    }
}

/// One program that would be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// As it was named.
    pub name: String,
    /// Why it is none of the profile's own, if it is not.
    pub unlisted: Option<Reason>,
    /// Other programs that it may start, or be, by the words of the call: all that could be meant.
    pub starts: Vec<String>,
    /// Why it cannot be told from those words what it starts, if it cannot.
    pub untold: Option<&'static str>,
}

impl Command {
    /// A program of this name, of which nothing else is known.
    pub fn named(name: impl Into<String>) -> Command {
        Command { name: name.into(), unlisted: None, starts: Vec::new(), untold: None }
    }

    /// It, and what it may start.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        [&self.name].into_iter().chain(&self.starts).map(String::as_str)
    }
}

/// The name of a program without the directory it is in.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// What is true at the moment of deciding.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Milliseconds since 1970.
    pub now: i64,
    /// The agent's workspace on this host.
    pub workspace: PathBuf,
    /// How many could approve: operators who may, and are not the proposer.
    pub operators: usize,
    /// Whether this gate can give a sandbox a network.
    pub egress: bool,
    /// How long a question waits, in milliseconds.
    pub ask_for: i64,
    /// The yes that people have given to this very call, if they have.
    pub consent: Option<Consent>,
    /// What they have said yes to before that may cover this call, too.
    pub standing: Vec<Standing>,
    /// What the files are that the arguments name; nothing if that cannot be told.
    pub content: Option<Digest>,
    /// What was spent of the budgets that the call counts against, in the order of [`crate::accounts`].
    pub tallies: Vec<Tally>,
}

/// A yes, and what it was a yes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Which question.
    pub approval: ApprovalId,
    /// Who said so.
    pub by: Vec<OperatorName>,
    /// The agent that asked.
    pub agent: AgentName,
    /// The contract it was about.
    pub contract: Digest,
    /// The arguments it was about.
    pub arguments: Digest,
    /// The files it was about, if any were looked at.
    pub operands: Option<Digest>,
    /// The policy under which it was asked.
    pub policy: Digest,
    /// Why it was asked, in the words of the question.
    pub why: Vec<String>,
    /// Until when it is good, in milliseconds since 1970.
    pub expires_at: i64,
}

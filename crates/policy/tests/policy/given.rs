//! An agent, a tool, a call and facts to begin with: a test changes what it is about.
#![expect(clippy::unwrap_used, reason = "names in tests are valid")]

use std::path::PathBuf;
use std::sync::Arc;

use contract::{
    Actions, AgentName, CallId, Category, Digest, EgressClass, Reach, SafetyClass, ToolName, ToolStatus,
    TrustLabel,
};
use policy::{Admitted, Agent, Facets, Facts, GrantLimits, Settings, ToolFacts, WorkspaceAccess};

/// Whose calls these are.
pub(crate) fn agent() -> AgentName {
    AgentName::parse("default").unwrap()
}

/// With one agent.
pub(crate) fn settings(of: Agent) -> Settings {
    Settings { agents: [(agent(), of)].into(), ..Settings::default() }
}

pub(crate) fn reaches(texts: &[&str]) -> Vec<Reach> {
    texts.iter().map(|text| Reach::parse(text).unwrap()).collect()
}

/// One of ours that can be called, some of whose calls only look.
pub(crate) fn tool(name: &str, category: Category, safety: SafetyClass) -> ToolFacts {
    ToolFacts {
        name: ToolName::parse(name).unwrap(),
        hash: Digest::of(name.as_bytes()),
        category,
        safety,
        least: SafetyClass::Read,
        egress: EgressClass::None,
        status: ToolStatus::Active,
        trust: TrustLabel::Internal,
        requires_approval: false,
        limits: GrantLimits::default(),
    }
}

/// What stays in the workspace, and may write there.
pub(crate) fn facets(action: &str, safety: SafetyClass) -> Facets {
    Facets {
        action: Actions::default().parse(action).unwrap(),
        safety,
        egress: EgressClass::None,
        access: WorkspaceAccess::Write,
        profile: None,
        commands: Vec::new(),
        trees: Vec::new(),
        reaches: Vec::new(),
        hosts: Vec::new(),
    }
}

pub(crate) fn call(tool: ToolFacts, facets: Facets) -> Admitted {
    Admitted {
        call: CallId::from_random([1; 16]),
        agent: agent(),
        task: None,
        tool,
        facets,
        arguments: Digest::of(b"arguments"),
        operands: None,
        values: Arc::default(),
        asked_at: 1_000,
    }
}

/// Two people could approve, and nobody has said anything yet.
pub(crate) fn facts() -> Facts {
    Facts {
        now: 1_000,
        workspace: PathBuf::from("/work/project"),
        operators: 2,
        egress: true,
        ask_for: 300_000,
        consent: None,
        standing: Vec::new(),
        content: Some(Digest::of(b"files")),
        tallies: Vec::new(),
    }
}

//! The trees of other systems load as they are, and mean what they say or something stricter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use contract::{
    Action, Actions, AgentName, Autonomy, Category, Digest, HostPattern, Level, Rate, Reach, ToolName,
    ToolStatus, TrustLabel,
};
use policy::{
    Agent, ApprovalRule, BudgetLimit, EgressSettings, FileSettings, FileSystem, Git, GrantLimits, Network,
    Overrides, Period, RateSettings, RuleBudget, RuleEffect, Settings, ShellSettings, Terminal, ToolFacts,
    ToolGlob, ToolPlaces, ToolRate, may_see,
};
use sandbox::BackendName;
use tools::{KeptFor, Lifecycle};

use super::super::{Loaded, Meaning, Records, load};
use super::loaded;

const SANDBOXING: &str = include_str!("../../../tests/examples/sandboxing.yaml");
const SYSTEM_TOOLS: &str = include_str!("../../../tests/examples/system-tools.json");
const TOOL_ACCESS: &str = include_str!("../../../tests/examples/tool_access.yaml");
const TRUST: [&str; 3] = [
    include_str!("../../../tests/examples/trust-milestone.yaml"),
    include_str!("../../../tests/examples/trust-per-category.yaml"),
    include_str!("../../../tests/examples/trust-weighted.yaml"),
];

#[test]
fn levels_are_what_the_file_says_where_it_says_something() {
    let Loaded { meaning, warnings, .. } = loaded(TOOL_ACCESS);
    let not_yet = ["11:20: `file_system` is read but not in force yet: every tool keeps to the workspace"];
    assert_eq!(warnings, not_yet.map(|warning| format!("/etc/toolgate/toolgate.yaml:{warning}")));
    let level = |file_system, network, git| Overrides {
        file_system: Some(file_system),
        network: Some(network),
        git: Some(git),
        ..Overrides::default()
    };
    let expected = BTreeMap::from([
        (Level::Sandboxed, level(FileSystem::WorkspaceOnly, Network::None, Git::LocalOnly)),
        (
            Level::Restricted,
            Overrides {
                requires_approval: Some(actions(&["deploy", "db:mutate", "db:admin"])),
                ..level(FileSystem::ProjectDirectory, Network::AllowlistOnly, Git::ReadAndBranch)
            },
        ),
        (
            Level::Standard,
            Overrides {
                terminal: Some(Terminal::RestrictedCommands),
                ..level(FileSystem::ProjectDirectory, Network::Open, Git::Full)
            },
        ),
        (
            Level::Elevated,
            Overrides {
                terminal: Some(Terminal::Full),
                deployment: Some(true),
                ..level(FileSystem::Full, Network::Open, Git::Full)
            },
        ),
    ]);
    assert_eq!(
        meaning,
        Meaning { settings: Settings { levels: expected, ..defaults() }, ..Meaning::default() }
    );
}

#[test]
fn tools_commands_and_rules_are_what_the_file_says() {
    let Loaded { meaning, warnings, .. } = json(SYSTEM_TOOLS);
    let rule = |tool, effect, line: u32| {
        ApprovalRule::about(ToolGlob::parse(tool).unwrap(), effect, format!("toolgate.json:{line}"))
    };
    let limit = |tools, max_calls, line| ToolRate {
        tools: ToolGlob::parse(tools).unwrap(),
        rate: Rate { max_calls, window_ms: 60_000 },
        place: format!("toolgate.json:{line}"),
    };
    let places = |tool, allow: &[&str], block: &[&str]| ToolPlaces {
        tool: ToolGlob::parse(tool).unwrap(),
        allow: Some(allow.iter().map(|place| Reach::parse(place).unwrap()).collect()),
        block: block.iter().map(|host| HostPattern::parse(host).unwrap()).collect(),
    };
    let hundred_a_day = RuleBudget { limit: BudgetLimit::Calls(100), period: Period::Daily };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
    let expected = Settings {
        rules: vec![
            rule("shell", RuleEffect::Prompt, 12),
            rule("fs.*", RuleEffect::Budget(hundred_a_day), 13),
            rule("http.*", RuleEffect::Approve, 14),
        ],
        shell: ShellSettings {
            allowed: Some(words(&["ls", "cat", "grep", "git"])),
            denied: words(&["rm", "sudo"]),
        },
        files: FileSettings { max_bytes: 10_485_760, ..FileSettings::default() },
        egress: EgressSettings {
            by_tool: vec![
                places(
                    "http.*",
                    &["api.github.com:80", "api.github.com:443", "docs.solana.com:80", "docs.solana.com:443"],
                    &["localhost", "127.0.0.1"],
                ),
                ToolPlaces {
                    allow: Some(EgressSettings::default().any_public_host().collect()),
                    ..places("browser.*", &[], &[])
                },
            ],
            ..EgressSettings::default()
        },
        rates: RateSettings {
            tools: vec![limit("shell", 10, 19), limit("fs.*", 50, 20)],
            ..RateSettings::default()
        },
        ..defaults()
    };
    assert_eq!(meaning.settings, expected);
    assert_eq!(meaning.shell_directories, Some(vec![PathBuf::from("/home/user/projects")]));
    assert_eq!(
        meaning.file_directories,
        Some(vec![PathBuf::from("/home/user/projects"), PathBuf::from("/tmp")])
    );
    assert_eq!(meaning.timeouts, BTreeMap::from([(Category::Terminal, 30_000), (Category::Web, 30_000)]));
    // `sandbox.enabled: false` switches containers off, and never the native walls.
    assert_eq!(meaning.backends, Meaning::default().backends);
    assert_eq!(
        warnings,
        ["7:16: `tools.browser` is read, but this version has no such tools"]
            .map(|warning| format!("/etc/toolgate/toolgate.json:{warning}"))
    );
}

#[test]
fn an_agent_outside_of_the_allowed_directories_lacks_the_tool() {
    let meaning = json(SYSTEM_TOOLS).meaning;
    let denied = |here: &str| {
        let (settings, warnings) = meaning.settings_in(Path::new(here));
        let agent = settings.agents.values().next().unwrap().clone();
        let denied: Vec<String> = agent.denied.iter().map(|glob| glob.as_str().to_owned()).collect();
        assert_eq!(denied.len(), warnings.len());
        denied
    };
    assert_eq!(denied("/home/user/projects/one"), Vec::<String>::new());
    assert_eq!(denied("/tmp"), ["shell"]);
    assert_eq!(denied("/home/user/projects-evil"), ["fs.*", "shell"]);
}

#[test]
fn categories_whose_backend_is_missing_are_refused() {
    let Loaded { meaning, warnings, .. } = loaded(SANDBOXING);
    let refused = [Category::CodeExecution, Category::Web, Category::Database, Category::Terminal];
    for (category, backend) in &meaning.backends {
        let expected = match category {
            category if refused.contains(category) => BackendName::Deny,
            // What may run as a plain process where there is nothing better.
            Category::FileSystem
            | Category::VersionControl
            | Category::Memory
            | Category::Design
            | Category::Analytics => BackendName::Subprocess,
            _ => BackendName::Native,
        };
        assert_eq!(*backend, expected, "{category}");
    }
    assert_eq!(meaning.settings.unavailable.keys().copied().collect::<Vec<_>>(), refused);
    let agent = Agent::default();
    let reason = may_see(&agent, &tool("shell", Category::Terminal), &meaning.settings).unwrap_err();
    assert_eq!(
        (reason.code.as_str(), reason.message.as_str()),
        ("cannot_enforce", "the configuration runs `terminal` in `docker`, which this version does not have")
    );
    assert!(may_see(&agent, &tool("shell", Category::Terminal), &Settings::default()).is_ok(), "else it may");
    assert_eq!(
        warnings,
        [
            "6:10: `web` is refused: this version has no backend `docker`",
            "7:21: `code_execution` is refused: this version has no backend `docker`",
            "8:15: `terminal` is refused: this version has no backend `docker`",
            "9:15: `database` is refused: this version has no backend `docker`",
            "15:5: `sandboxing.docker` is read but not in force yet",
            "31:5: `sandboxing.k8s` is read but not in force yet",
        ]
        .map(|warning| format!("/etc/toolgate/toolgate.yaml:{warning}"))
    );
    assert_eq!(meaning.timeouts.get(&Category::FileSystem), Some(&30_000));
    // A bridge without allowed hosts leads nowhere, and no network does not either.
    let nowhere = refused.map(|category| (category, Vec::new()));
    assert_eq!(meaning.settings.egress.by_category, nowhere.into());
}

#[test]
fn a_lifecycle_says_whom_workers_are_kept_for_and_how_long() {
    let of = |text: &str| loaded(text).meaning.lifecycle;
    assert_eq!(of("listen: 127.0.0.1:7433"), Lifecycle::default());
    let seconds = Duration::from_secs;
    assert_eq!(
        of(
            "sandboxing: { native: { lifecycle: { strategy: per-agent, idle_seconds: 60, health_seconds: 3, most: 2 } } }"
        ),
        Lifecycle {
            strategy: KeptFor::Agent,
            idle: seconds(60),
            health: seconds(3),
            most: 2,
            ..Lifecycle::default()
        }
    );
    assert_eq!(
        of("sandboxing: { native: { lifecycle: { strategy: per-task, graceSeconds: 9 } } }"),
        Lifecycle { strategy: KeptFor::Task, grace: seconds(9), ..Lifecycle::default() }
    );
    assert_eq!(of("sandboxing: { native: { lifecycle: { strategy: per-call } } }").strategy, KeptFor::Call);
}

#[test]
fn a_default_backend_that_is_missing_refuses_everything() {
    let meaning = loaded("sandboxing: { default_backend: k8s, overrides: { memory: native } }").meaning;
    let all_but_memory = Category::ALL.iter().copied().filter(|category| *category != Category::Memory);
    assert_eq!(
        meaning.settings.unavailable.keys().copied().collect::<Vec<_>>(),
        all_but_memory.collect::<Vec<_>>()
    );
    let meaning = loaded("tools: { sandbox: { enabled: true } }").meaning;
    assert_eq!(meaning.settings.unavailable.keys().collect::<Vec<_>>(), [&Category::CodeExecution]);
}

#[test]
fn agents_that_would_have_to_earn_trust_begin_low_and_stay_there() {
    for text in TRUST {
        let Loaded { meaning, warnings, .. } = loaded(text);
        let low = Agent { level: Level::Sandboxed, ..Agent::default() };
        let expected = Settings { agents: BTreeMap::from([(name("default"), low)]), ..Settings::default() };
        assert_eq!(meaning.settings, expected);
        let said = "2:3: `trust` is read but not in force yet: agents without a level of their own stay at `sandboxed`";
        assert_eq!(warnings, [format!("/etc/toolgate/toolgate.yaml:{said}")]);
    }
    let own = loaded("trust: { strategy: weighted }\nagents: { a: { level: restricted } }").meaning;
    assert_eq!(own.settings.agents[&name("a")].level, Level::Restricted);
    let off = loaded("trust: { strategy: disabled, initial_level: sandboxed }").meaning;
    assert_eq!(off.settings, defaults());
}

#[test]
fn an_agent_is_what_the_file_says() {
    let text = "actions: [\"payments:refund\"]\nagents:\n  coder:\n    level: standard\n    autonomy: full\n    \
        denied_tools: [\"deploy.*\"]\n    auto_approve: [\"exec:mutate\", \"payments:refund\"]\n    \
        human_approval: [vcs]\n    overrides: { categories: [git] }\n    workspace: work/coder\n";
    let meaning = loaded(text).meaning;
    let coder = Agent {
        level: Level::Standard,
        autonomy: Autonomy::Full,
        allowed: Vec::new(),
        denied: vec![ToolGlob::parse("deploy.*").unwrap()],
        auto_approve: actions(&["exec:mutate", "payments:refund"]),
        human_approval: actions(&["vcs"]),
        overrides: Overrides {
            categories: Some(BTreeSet::from([Category::VersionControl])),
            ..Overrides::default()
        },
        ..Agent::default()
    };
    let agents = BTreeMap::from([(name("coder"), coder), (name("default"), Agent::default())]);
    assert_eq!(meaning.settings.agents, agents);
    assert_eq!(
        meaning.workspace_of(&name("coder"), Path::new("/here")),
        Path::new("/etc/toolgate/work/coder")
    );
    assert_eq!(meaning.workspace_of(&name("default"), Path::new("/here")), Path::new("/here"));
}

#[test]
fn the_default_agent_can_be_defined_and_nothing_said_is_what_is_built_in() {
    assert_eq!(loaded("{}").meaning, Meaning::default());
    let meaning = loaded("agents: { default: { autonomy: locked } }").meaning;
    let locked = Agent { autonomy: Autonomy::Locked, ..Agent::default() };
    assert_eq!(meaning.settings.agents, BTreeMap::from([(name("default"), locked)]));
}

#[test]
fn an_empty_list_is_none_and_so_is_one_whose_entries_are_commented_out() {
    for list in ["[]", "\n      # - ls\n"] {
        let meaning = loaded(&format!("tools:\n  bash:\n    allowed_commands: {list}")).meaning;
        assert_eq!(meaning.settings.shell.allowed, Some(BTreeSet::new()));
    }
    assert_eq!(loaded("tools: { bash: {} }").meaning.settings.shell.allowed, None);
}

#[test]
fn tools_that_are_switched_off_are_off_and_need_no_warning() {
    let text = "tools: { shell: { enabled: false }, fs: { enabled: false }, http: { enabled: false }, \
        browser: { enabled: false } }";
    let Loaded { meaning, warnings, .. } = loaded(text);
    let off: Vec<&str> = meaning.settings.disabled.iter().map(ToolGlob::as_str).collect();
    assert_eq!((off, warnings), (vec!["shell", "fs.*", "http.*", "browser.*"], vec![]));
}

#[test]
fn what_has_no_effect_or_cannot_be_switched_off_is_said() {
    let warned = |text: &str| {
        let first = loaded(text).warnings.into_iter().next().unwrap();
        first.strip_prefix("/etc/toolgate/toolgate.yaml:").unwrap().to_owned()
    };
    assert_eq!(
        warned("tool_access: { levels: { sandboxed: { terminal: full } } }"),
        "1:49: `terminal` has no effect: level `sandboxed` does not include it; name it under `categories`"
    );
    assert_eq!(
        warned("sandboxing: { subprocess: { workspace_only: false } }"),
        "1:45: `workspace_only` cannot be switched off"
    );
    assert_eq!(
        warned("agents: { a: { allowed_tools: [payments.refund] } }"),
        "1:32: `payments.refund` is no built-in tool; it means one that is added later"
    );
    assert_eq!(
        warned("approval: { rules: [{ tool: browser.open, action: deny }] }"),
        "1:29: `browser.open` is read, but this version has no such tool"
    );
    assert_eq!(
        loaded("approval: { rules: [{ tool: \"fs.*\", action: deny }] }").warnings,
        Vec::<String>::new()
    );
}

#[test]
fn records_where_an_agent_works_are_said_to_be_in_danger() {
    let meaning = loaded("store: \"sqlite:work/records.db\"").meaning;
    assert_eq!(meaning.store, Some(Records::File(PathBuf::from("/etc/toolgate/work/records.db"))));
    let warnings = |here: &str| meaning.settings_in(Path::new(here)).1;
    assert_eq!(
        warnings("/etc/toolgate"),
        ["agent `default` could change the records: `store` is in its workspace; keep it elsewhere"]
    );
    assert_eq!(warnings("/etc/toolgate/other"), Vec::<String>::new());
}

#[test]
fn a_link_in_a_workspace_says_nothing_about_where_an_agent_works() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().canonicalize().unwrap().join("work");
    std::fs::create_dir(&here).unwrap();
    let text = format!("tools: {{ bash: {{ allowed_directories: [\"{}/scripts\"] }} }}", here.display());
    let denied = || {
        let (settings, _) = loaded(&text).meaning.settings_in(&here);
        settings.agents.values().any(|agent| agent.denied.iter().any(|glob| glob.as_str() == "shell"))
    };
    assert!(denied());
    std::os::unix::fs::symlink("/", here.join("scripts")).unwrap();
    assert!(denied(), "an agent can make such a link");
    // One outside of every workspace is the operator's own.
    std::os::unix::fs::symlink(&here, folder.path().join("here")).unwrap();
    let text =
        format!("tools: {{ bash: {{ allowed_directories: [\"{}/here\"] }} }}", folder.path().display());
    let (settings, _) = loaded(&text).meaning.settings_in(&here);
    assert!(settings.agents.values().all(|agent| agent.denied.is_empty()));
}

#[test]
fn records_can_be_kept_by_a_server_or_where_a_variable_says() {
    let url = "postgres://me@db.example:5433/gate?sslmode=verify-full";
    let store = |text: &str| loaded(&format!("store: \"{text}\"")).meaning.store;
    assert_eq!(store(url), Some(Records::Server(url.to_owned())));
    assert_eq!(store("env:GATE_STORE"), Some(Records::Variable("GATE_STORE".to_owned())));
    for written in [url, "env:GATE_STORE", "sqlite:/srv/records.db"] {
        assert_eq!(store(written).map(|store| store.to_string()).as_deref(), Some(written));
    }
}

#[test]
fn a_file_named_and_not_there_is_an_error_not_the_defaults() {
    let error = load(Some(Path::new("/no/such/toolgate.yaml"))).unwrap_err();
    assert_eq!(error.to_string(), "cannot read `/no/such/toolgate.yaml`");
}

fn json(text: &str) -> Loaded {
    super::load("toolgate.json", text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn defaults() -> Settings {
    Meaning::default().settings
}

fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

fn actions(texts: &[&str]) -> BTreeSet<Action> {
    let mut known = Actions::default();
    known.register("payments:refund").unwrap();
    texts.iter().flat_map(|text| known.expand(text).unwrap()).collect()
}

fn tool(name: &str, category: Category) -> ToolFacts {
    ToolFacts {
        name: ToolName::parse(name).unwrap(),
        hash: Digest::of(b""),
        category,
        safety: contract::SafetyClass::Privileged,
        least: contract::SafetyClass::Read,
        egress: contract::EgressClass::Write,
        status: ToolStatus::Active,
        trust: TrustLabel::Internal,
        requires_approval: false,
        limits: GrantLimits::default(),
    }
}

#[test]
fn who_is_asked_and_how_long_is_what_the_file_says() {
    let text = "\
agents:
  builder: { operator: alice }
approval:
  wait_seconds: 20
  timeout_seconds: 600
  timeout_seconds_by_class: { financial: 3600, privileged: 60 }
  standing_max_seconds: 7200
  escalation:
    - { after_seconds: 60, to: [lead] }
    - { after_seconds: 180, to: [boss, cfo] }
  rules:
    - { tool: shell, action: prompt, quorum: 2, arguments: { command: \"git*\", force: true, depth: 3 } }
    - { tool: fs.write, action: approve, amount: { argument: payment.amount, up_to: 9.5 } }
";
    let loaded = loaded(text);
    let settings = &loaded.meaning.settings;
    let name = |name: &str| contract::OperatorName::parse(name).unwrap();
    assert_eq!(
        settings.agents[&contract::AgentName::parse("builder").unwrap()].operator,
        Some(name("alice"))
    );
    assert_eq!(settings.ask_for, 600_000);
    let expected = policy::Asking {
        wait_for: 20_000,
        deny_after: [
            (contract::SafetyClass::Financial, 3_600_000),
            (contract::SafetyClass::Privileged, 60_000),
        ]
        .into(),
        escalation: vec![
            policy::Escalation { after: 60_000, to: vec![name("lead")] },
            policy::Escalation { after: 180_000, to: vec![name("boss"), name("cfo")] },
        ],
        longest_standing: 7_200_000,
    };
    assert_eq!(settings.asking, expected);
    let shown = serde_json::to_value(&settings.rules).unwrap();
    let rules = serde_json::json!([
        {
            "tool": "shell",
            "when": { "arguments": { "command": "git*", "force": true, "depth": 3.0 }, "amount": null },
            "effect": "prompt",
            "quorum": 2,
            "place": "toolgate.yaml:12",
        },
        {
            "tool": "fs.write",
            "when": { "arguments": {}, "amount": { "argument": "payment.amount", "up_to": "9.5" } },
            "effect": "approve",
            "quorum": 1,
            "place": "toolgate.yaml:13",
        },
    ]);
    assert_eq!(shown, rules);
}

//! What the trees of other systems come to, call by call: verdict, reason, limits, hosts.
//!
//! How they are read is `examples`' matter; here real calls of the built-in tools are decided under them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contract::{AgentName, CallId, Canonical, Category, ToolStatus};
use policy::{
    Admitted, Authority, Facts, GrantLimits, Policy, Settings, ToolFacts, ToolGlob, Verdict, decide, unspent,
};
use serde_json::{Value, json};
use store::ToolRow;

use super::super::{Loaded, Meaning};
use super::load;

const SANDBOXING: &str = include_str!("../../../tests/examples/sandboxing.yaml");
const SYSTEM_TOOLS: &str = include_str!("../../../tests/examples/system-tools.json");
const TOOL_ACCESS: &str = include_str!("../../../tests/examples/tool_access.yaml");
const TRUST: [&str; 3] = [
    include_str!("../../../tests/examples/trust-milestone.yaml"),
    include_str!("../../../tests/examples/trust-per-category.yaml"),
    include_str!("../../../tests/examples/trust-weighted.yaml"),
];

#[test]
fn commands_are_those_of_the_list_and_each_is_asked_about() {
    let tools = System::read();
    for command in [json!("ls"), json!("cat"), json!("grep")] {
        let call = json!({ "command": command, "args": ["x"] });
        assert_eq!(tools.verdict("shell", call), "ask: toolgate.json:12: `shell` asks", "{command}");
    }
    let log = json!({ "command": "git", "args": ["log"] });
    assert_eq!(tools.verdict("shell", log), "ask: toolgate.json:12: `shell` asks");
    for (command, arguments) in [("rm", json!(["x"])), ("sudo", json!(["ls"])), ("/usr/bin/rm", json!(["x"]))]
    {
        for profile in ["build", "mutate"] {
            let call = json!({ "command": command, "args": arguments, "profile": profile });
            let said = tools.verdict("shell", call);
            assert!(said.starts_with("deny: command_not_allowed"), "{command}: {said}");
        }
    }
    for command in ["head", "find", "make", "python3", "sh", "env"] {
        let call = json!({ "command": command, "args": ["x"], "profile": "build" });
        let said = tools.verdict("shell", call);
        assert!(said.starts_with("deny: command_not_allowed"), "{command}: {said}");
    }
    assert_eq!(
        tools.authority_after_a_yes("shell", json!({ "command": "ls" })).limits.timeout,
        Duration::from_secs(30)
    );
}

#[test]
fn commands_and_files_are_for_agents_in_the_allowed_directories() {
    let list = || json!({ "path": "." });
    let look = || json!({ "command": "ls" });
    let at = |here: &str| {
        let mut tools = System::read();
        tools.here = PathBuf::from(here);
        // How a budget is counted is another matter.
        tools.meaning.settings.rules.retain(|rule| rule.tool.as_str() != "fs.*");
        (tools.verdict("fs.list", list()), tools.verdict("shell", look()))
    };
    let lacks = |tool: &str| format!("deny: denied_by_list: the agent's denied list has `{tool}`");
    let asks = "ask: toolgate.json:12: `shell` asks".to_owned();
    assert_eq!(at("/home/user/projects/one"), ("allow".to_owned(), asks));
    assert_eq!(at("/tmp/one"), ("allow".to_owned(), lacks("shell")));
    assert_eq!(at("/srv/elsewhere"), (lacks("fs.*"), lacks("shell")));
    assert_eq!(System::read().meaning.settings.files.max_bytes, 10 << 20);
}

#[test]
fn the_web_is_the_listed_domains_and_never_this_machine() {
    let tools = System::read();
    for host in ["api.github.com", "docs.solana.com"] {
        for scheme in ["https", "http"] {
            let call = json!({ "url": format!("{scheme}://{host}/x") });
            assert_eq!(tools.verdict("http.request", call), "allow", "{scheme} {host}");
        }
    }
    let granted = tools.authority("http.request", json!({ "url": "https://api.github.com/x" }));
    let hosts: Vec<String> = granted.hosts.iter().map(ToString::to_string).collect();
    assert_eq!(
        hosts,
        ["api.github.com:80", "api.github.com:443", "docs.solana.com:80", "docs.solana.com:443"]
    );
    let blocked: Vec<String> = granted.blocked.iter().map(ToString::to_string).collect();
    assert_eq!(blocked, ["localhost", "127.0.0.1"]);
    assert_eq!(granted.limits.timeout, Duration::from_secs(30));
    // The rule that approves waives no question about what is not listed, nor about what changes something outside.
    for call in [
        json!({ "url": "https://example.com/" }),
        json!({ "url": "https://evil.api.github.com/" }),
        json!({ "url": "https://api.github.com:8443/" }),
        json!({ "url": "https://api.github.com/x", "method": "POST", "body": "x" }),
    ] {
        assert!(tools.verdict("http.request", call.clone()).starts_with("ask"), "{call}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]", "169.254.169.254", "LOCALHOST."] {
        let said = tools.verdict("http.request", json!({ "url": format!("http://{host}/") }));
        assert!(said.starts_with("deny: host_not_allowed"), "{host}: {said}");
    }
}

#[test]
fn categories_that_ask_for_containers_are_refused_and_others_have_their_time() {
    let tools = System::of(load("toolgate.yaml", SANDBOXING.as_bytes()).unwrap());
    for (tool, call, category) in [
        ("shell", json!({ "command": "ls" }), "terminal"),
        ("http.request", json!({ "url": "https://example.com/" }), "web"),
    ] {
        let expected = format!(
            "deny: cannot_enforce: the configuration runs `{category}` in `docker`, which this version does not have"
        );
        assert_eq!(tools.verdict(tool, call), expected);
    }
    for (tool, call) in [("fs.read", json!({ "path": "a" })), ("git.status", json!({}))] {
        let granted = tools.authority(tool, call);
        assert_eq!((granted.limits.timeout, granted.hosts.len()), (Duration::from_secs(30), 0), "{tool}");
    }
    // Were its containers there, a bridge without allowed hosts would lead nowhere: nobody is even asked.
    let mut without_walls = tools;
    without_walls.meaning.settings.unavailable.clear();
    let said = without_walls.verdict("http.request", json!({ "url": "https://example.com/" }));
    assert!(said.starts_with("deny: host_not_allowed"), "{said}");
}

#[test]
fn each_level_is_what_the_file_says_of_it() {
    let levels = ["sandboxed", "restricted", "standard", "elevated", "custom"];
    let agents: String = levels.iter().map(|level| format!("  {level}: {{ level: {level} }}\n")).collect();
    let text = format!("{TOOL_ACCESS}agents:\n{agents}");
    let loaded = load("toolgate.yaml", text.as_bytes()).unwrap();
    let mut tools = System::of(loaded);
    let mut row = |tool: &str, call: Value| {
        levels.map(|level| {
            tools.agent = AgentName::parse(level).unwrap();
            let said = tools.verdict(tool, call.clone());
            said.splitn(3, ": ").take(2).collect::<Vec<_>>().join(": ")
        })
    };
    let no = |code: &str| format!("deny: {code}");
    let (free, outside) = ("allow".to_owned(), no("not_in_level"));
    // file_system and code_execution: every level works in its workspace, behind walls.
    let read = json!({ "path": "a" });
    assert_eq!(row("fs.read", read), [&free, &free, &free, &free, &outside].map(Clone::clone));
    // network: none, allowlist_only (asked for by name), open, open.
    let page = json!({ "url": "https://example.com/" });
    let asks = "ask: `example.com:443` is on no list of hosts; a yes lets this call reach it".to_owned();
    assert_eq!(
        row("http.request", page),
        [outside.clone(), asks, free.clone(), free.clone(), outside.clone()]
    );
    // git: local_only, read_and_branch, full, full.
    let commit = json!({ "message": "x", "all": true });
    assert_eq!(row("git.commit", commit), [&free, &free, &free, &free, &outside].map(Clone::clone));
    let url = "https://git.example.com/x";
    let fetched = row("git.fetch", json!({ "url": url }));
    assert_eq!(fetched[0], no("constrained"));
    assert!(fetched[1].starts_with("ask:"), "{fetched:?}");
    assert_eq!([&fetched[2], &fetched[3]], [&free, &free]);
    let pushed = row("git.push", json!({ "url": url, "branch": "main" }));
    assert_eq!([&pushed[0], &pushed[1]], [&no("constrained"), &no("constrained")]);
    assert!(pushed[2].starts_with("ask") && pushed[3].starts_with("ask"), "{pushed:?}");
    // terminal: none, none, restricted_commands, full.
    let unlisted = json!({ "command": "nonesuch", "profile": "build" });
    let listed = json!({ "command": "ls" });
    assert_eq!(row("shell", listed), [&outside, &outside, &free, &free, &outside].map(Clone::clone));
    let refused = no("command_not_allowed");
    assert_eq!(row("shell", unlisted), [&outside, &outside, &refused, &free, &outside].map(Clone::clone));
}

#[test]
fn trust_is_kept_as_it_was_written_and_agents_have_what_they_begin_with() {
    for text in TRUST {
        let tools = System::of(load("toolgate.yaml", text.as_bytes()).unwrap());
        assert_eq!(tools.verdict("fs.write", json!({ "path": "a", "content": "b" })), "allow");
        for (tool, call) in [
            ("shell", json!({ "command": "ls" })),
            ("http.request", json!({ "url": "https://example.com/" })),
        ] {
            assert!(tools.verdict(tool, call).starts_with("deny: not_in_level: level `sandboxed`"), "{tool}");
        }
        let clone = json!({ "url": "https://git.example.com/x", "directory": "x" });
        assert!(tools.verdict("git.clone", clone).starts_with("deny: constrained"));
    }
    let kept = |text: &str| load("toolgate.yaml", text.as_bytes()).unwrap().meaning.kept["trust"].clone();
    let [milestone, per_category, weighted] = TRUST.map(kept);
    assert_eq!(milestone["strategy"], "milestone");
    assert_eq!(
        milestone["milestones"]["restricted_to_standard"],
        json!({ "tasks_completed": 20, "quality_score_min": 8.0, "time_active_days": 7, "auto_promote": true })
    );
    assert_eq!(
        milestone["re_verification"],
        json!({ "enabled": true, "interval_days": 90, "decay_on_idle_days": 30, "decay_on_error_rate": 0.15 })
    );
    assert_eq!(per_category["initial_levels"]["file_system"], "restricted");
    assert_eq!(per_category["initial_levels"]["version_control"], "restricted");
    assert_eq!(
        per_category["promotion_criteria"]["deployment"]["sandboxed_to_restricted"],
        json!({ "tasks_completed": 20, "quality_score_min": 8.5, "requires_human_approval": true })
    );
    assert_eq!(
        weighted["weights"],
        json!({ "task_difficulty": 0.3, "completion_rate": 0.25, "error_rate": 0.25, "human_feedback": 0.2 })
    );
    assert_eq!(
        weighted["promotion_thresholds"]["standard_to_elevated"],
        json!({ "score": 0.8, "requires_human_approval": true })
    );
}

/// In the place of keys these are values, and have one spelling.
const CATEGORIES: [&str; 2] = ["file_system", "code_execution"];

#[test]
fn each_means_the_same_in_its_other_spelling() {
    let [milestone, per_category, weighted] = TRUST;
    for (name, text, keep) in [
        ("toolgate.yaml", SANDBOXING, &CATEGORIES[..]),
        ("toolgate.json", SYSTEM_TOOLS, &[]),
        ("toolgate.yaml", TOOL_ACCESS, &[]),
        ("toolgate.yaml", milestone, &[]),
        ("toolgate.yaml", per_category, &CATEGORIES[..]),
        ("toolgate.yaml", weighted, &[]),
    ] {
        let other = respelt(text, keep);
        assert_ne!(other, text);
        let [first, second] = [text, other.as_str()].map(|text| {
            load(name, text.as_bytes()).unwrap_or_else(|problems| panic!("{problems}\n{text}")).meaning
        });
        assert_eq!(first.settings.hash().unwrap(), second.settings.hash().unwrap(), "{other}");
        assert_eq!(first, second, "{other}");
    }
}

/// The same text with every key in its other spelling.
fn respelt(text: &str, keep: &[&str]) -> String {
    let is_of_a_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut out, mut rest) = (String::new(), text);
    while let Some(begin) = rest.find(is_of_a_word) {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|c| !is_of_a_word(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let is_key = after.strip_prefix('"').unwrap_or(after).starts_with(':');
        out.push_str(before);
        out.push_str(&if is_key && !keep.contains(&word) { other(word) } else { word.to_owned() });
        rest = after;
    }
    out + rest
}

fn other(word: &str) -> String {
    if word.contains('_') {
        return super::super::schema::camel_case(word);
    }
    let mut snake = String::new();
    for letter in word.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

/// A configuration, and who calls under it from where.
struct System {
    meaning: Meaning,
    agent: AgentName,
    here: PathBuf,
}

impl System {
    /// The tree of tools.
    fn read() -> System {
        System::of(load("toolgate.json", SYSTEM_TOOLS.as_bytes()).unwrap())
    }

    fn of(loaded: Loaded) -> System {
        let here = PathBuf::from("/home/user/projects/one");
        System { meaning: loaded.meaning, agent: AgentName::parse("default").unwrap(), here }
    }

    /// In words: `allow`, `ask: WHY` or `deny: CODE: WHY`.
    fn verdict(&self, tool: &str, arguments: Value) -> String {
        match self.decided(tool, arguments, |_| ()) {
            Verdict::Allow(_) => "allow".to_owned(),
            Verdict::Ask(question) => format!("ask: {}", question.why.first().cloned().unwrap_or_default()),
            Verdict::Deny(reason) => format!("deny: {}: {}", reason.code, reason.message),
        }
    }

    /// What is granted at once.
    fn authority(&self, tool: &str, arguments: Value) -> Authority {
        match self.decided(tool, arguments, |_| ()) {
            Verdict::Allow(grant) => grant.authority().clone(),
            other => panic!("{other:?}"),
        }
    }

    /// What is granted where no rule asks.
    fn authority_after_a_yes(&self, tool: &str, arguments: Value) -> Authority {
        match self.decided(tool, arguments, |settings| settings.rules.clear()) {
            Verdict::Allow(grant) => grant.authority().clone(),
            other => panic!("{other:?}"),
        }
    }

    fn decided(&self, name: &str, arguments: Value, change: impl Fn(&mut Settings)) -> Verdict {
        let (mut settings, _) = self.meaning.settings_in(&self.here);
        change(&mut settings);
        let tools = tools::built_in(&settings).unwrap();
        let tool = tools.iter().find(|tool| tool.contract().name().as_str() == name).unwrap();
        let (contract, definition) = (tool.contract(), tool.contract().definition());
        let arguments = Canonical::of(arguments).unwrap();
        assert_eq!(contract.input().problems(arguments.value()), Vec::<String>::new());
        let facets = match tool.facets(arguments.value(), &settings) {
            Ok(facets) => facets,
            Err(reason) => return Verdict::Deny(reason),
        };
        let call = Admitted {
            call: CallId::from_random([1; 16]),
            agent: self.agent.clone(),
            task: None,
            tool: ToolFacts {
                name: contract.name().clone(),
                hash: contract.hash(),
                category: definition.category,
                safety: definition.safety,
                least: tool.least_safety(),
                egress: definition.egress,
                status: ToolStatus::Active,
                trust: contract.trust(),
                requires_approval: ToolRow::of(contract).requires_approval,
                limits: self.limits(definition.category, contract.timeout()),
            },
            facets,
            arguments: arguments.digest(),
            operands: None,
            values: Arc::new(arguments.value().clone()),
            asked_at: 0,
        };
        let facts = Facts {
            now: 0,
            workspace: self.here.clone(),
            operators: 2,
            egress: true,
            ask_for: 300_000,
            consent: None,
            standing: Vec::new(),
            content: None,
            tallies: Vec::new(),
        };
        let policy = Policy::of(settings).unwrap();
        let tallies = unspent(&call, &facts, &policy);
        decide(&call, &Facts { tallies, ..facts }, &policy).verdict
    }

    /// As the gate lowers them.
    fn limits(&self, category: Category, own: Duration) -> GrantLimits {
        let most = self.meaning.timeouts.get(&category).map(|most| Duration::from_millis(*most));
        GrantLimits { timeout: most.map_or(own, |most| own.min(most)), ..GrantLimits::default() }
    }
}

#[test]
fn what_the_file_says_of_tools_that_this_version_does_not_have_is_kept() {
    let Loaded { meaning, .. } = load("toolgate.json", SYSTEM_TOOLS.as_bytes()).unwrap();
    assert_eq!(meaning.kept["browser"]["allowed_domains"], json!(["*"]));
    let browser = ToolGlob::parse("browser.*").unwrap();
    let listed = meaning.settings.egress.by_tool.iter().find(|places| places.tool == browser).unwrap();
    let hosts: Vec<String> = listed.allow.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(
        hosts,
        ["*:80", "*:443"],
        "any public host, and special addresses are refused by what they are"
    );
    // Containers are switched off, which leaves the walls.
    assert_eq!(meaning.kept["sandbox"]["enabled"], json!(false));
    assert_eq!(meaning.backends, Meaning::default().backends);
    assert_eq!(meaning.workspace_of(&AgentName::parse("default").unwrap(), Path::new("/x")), Path::new("/x"));
}

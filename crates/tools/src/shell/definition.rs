//! What `shell` promises.

use contract::{Category, CostTier, Definition, EgressClass, Example, Idempotency, SafetyClass};
use serde_json::json;

use super::MAX_TIMEOUT;
use super::types::{ShellInput, ShellOutput};

/// The contract's definition.
pub(super) fn definition() -> Definition {
    Definition {
        title: "Run a command".into(),
        description: "Runs a program in the workspace, in a sandbox without network unless it was granted one. There is no shell: `command` is a \
            program's name, `args` are its arguments exactly as they are (no quoting, globs or variables), `stages` \
            are more programs, each reading what the one before wrote. Make one call for each command instead of \
            `&&`. The profile says what it may do: `inspect` looks and cannot write; `build` writes in the workspace \
            (compilers, tests, scripts; `sh` and `bash` too); `mutate` adds `cp`, `mv`, `rm` and the like and may \
            have to be approved; `networked` reaches the hosts that it was granted, as if nothing stood between, and no others; it has to be approved. HOME and /tmp are empty at \
            the start and gone at the end. Secrets in the tree are hidden, and `.git/hooks` and `.git/config` cannot \
            be written. Of long output the beginning and the end are shown; the whole is in the artifacts."
            .into(),
        category: Category::Terminal,
        action: "exec:inspect".into(),
        // Of the worst it can be asked for; what a call is says its profile.
        safety: SafetyClass::Network,
        egress: EgressClass::Write,
        idempotency: Idempotency::Optional,
        cost: CostTier::Low,
        timeout_seconds: MAX_TIMEOUT,
        examples: vec![
            Example::of("look at the history", json!({ "command": "git", "args": ["log", "--oneline", "-n", "20"] })),
            Example::of(
                "a pipeline",
                json!({ "command": "grep", "args": ["-rn", "TODO", "src"], "stages": [{ "command": "wc", "args": ["-l"] }] }),
            ),
            Example::of(
                "run the tests",
                json!({ "command": "cargo", "args": ["test", "--offline"], "profile": "build", "timeout": 600 }),
            ),
            Example::of(
                "delete what was built",
                json!({ "command": "rm", "args": ["-r", "build"], "profile": "mutate", "purpose": "clean" }),
            ),
        ],
        failure_modes: vec![
            "shell_syntax: `command` holds spaces, or `&&`, `|`, `;`, `>` and the like; use `args` and `stages`".into(),
            "command_not_allowed: the profile does not have this command; the hint names one that does".into(),
            "constrained: a variable in `env` is a secret by its name, or changes where programs are found".into(),
            "timeout: it took too long, and every process of it was killed; what it wrote until then is kept".into(),
            "cannot_enforce: this host cannot build the sandbox; nothing was run".into(),
            "host_not_allowed: `networked` without a list of hosts, or for one that is blocked or not on the outside".into(),
            "`refused: HOST: …` after the output: the program tried to reach somebody that the call was not granted".into(),
            "tool_failed: no such program in the sandbox, or it went past a limit".into(),
            "an exit code other than 0 is an answer, not a failure of the call".into(),
        ],
        ..Definition::of::<ShellInput, ShellOutput>("shell")
    }
}

//! Help as people see it, whole. To accept a change, write it to the file: `toolgate run --help > run.txt`.

use crate::toolgate::{Gate, Ran, finish, ran, start};

#[test]
fn help_is_as_kept() {
    let cases: [(&[&str], &str); 30] = [
        (&["--help"], include_str!("help/toolgate.txt")),
        (&["-h"], include_str!("help/toolgate.txt")),
        (&["run", "--help"], include_str!("help/run.txt")),
        (&["run", "-h"], include_str!("help/run.txt")),
        (&["doctor", "--help"], include_str!("help/doctor.txt")),
        (&["scan", "--help"], include_str!("help/scan.txt")),
        (&["config", "--help"], include_str!("help/config.txt")),
        (&["config", "check", "--help"], include_str!("help/config-check.txt")),
        (&["up", "--help"], include_str!("help/up.txt")),
        (&["mcp", "--help"], include_str!("help/mcp.txt")),
        (&["call", "--help"], include_str!("help/call.txt")),
        (&["tools", "--help"], include_str!("help/tools.txt")),
        (&["agents", "--help"], include_str!("help/agents.txt")),
        (&["budgets", "--help"], include_str!("help/budgets.txt")),
        (&["explain", "--help"], include_str!("help/explain.txt")),
        (&["approvals", "--help"], include_str!("help/approvals.txt")),
        (&["approve", "--help"], include_str!("help/approve.txt")),
        (&["deny", "--help"], include_str!("help/deny.txt")),
        (&["calls", "--help"], include_str!("help/calls.txt")),
        (&["reconcile", "--help"], include_str!("help/reconcile.txt")),
        (&["revoke", "--help"], include_str!("help/revoke.txt")),
        (&["answer", "--help"], include_str!("help/answer.txt")),
        (&["operators", "--help"], include_str!("help/operators.txt")),
        (&["operators", "add", "--help"], include_str!("help/operators-add.txt")),
        (&["ledger", "--help"], include_str!("help/ledger.txt")),
        (&["receipt", "--help"], include_str!("help/receipt.txt")),
        (&["artifact", "--help"], include_str!("help/artifact.txt")),
        (&["reveal", "--help"], include_str!("help/reveal.txt")),
        (&["erase", "--help"], include_str!("help/erase.txt")),
        (&["demo", "--help"], include_str!("help/demo.txt")),
    ];
    for (arguments, kept) in cases {
        assert!(kept.lines().all(|line| line.chars().count() <= 100), "{arguments:?} is too wide");
        let shown = toolgate(arguments);
        assert_eq!(shown, ran(0, kept, ""), "{arguments:?} shows\n{}", shown.stdout);
    }
}

#[test]
fn nothing_asked_is_a_usage_error_that_shows_help() {
    assert_eq!(toolgate(&[]), ran(2, "", include_str!("help/toolgate.txt")));
}

#[test]
fn a_command_that_does_not_exist_is_a_usage_error() {
    let said = "error: unrecognized subcommand 'nonsense'\n\nUsage: toolgate <COMMAND>\n\nFor more information, try '--help'.\n";
    assert_eq!(toolgate(&["nonsense"]), ran(2, "", said));
}

#[test]
fn the_version_is_the_packages() {
    assert_eq!(toolgate(&["--version"]), ran(0, concat!("toolgate ", env!("CARGO_PKG_VERSION"), "\n"), ""));
}

fn toolgate(arguments: &[&str]) -> Ran {
    finish(start(&mut Gate::new().command(arguments)))
}

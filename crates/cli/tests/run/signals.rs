//! Signals to toolgate reach the tool, which decides what they mean.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::toolgate::{Gate, Ran, alive, binary, finish, marker, ran, start, within_a_second};

#[test]
fn a_signal_that_the_tool_traps_is_the_tools_to_answer() {
    let Some(gate) = Gate::native() else { return };
    let signals = [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in signals {
        let script = format!("trap 'echo got {name}; exit 42' {name}; echo up; while :; do sleep 0.05; done");
        let ended = signalled_when_up(&gate, &script, signal);
        assert_eq!(ended, ran(42, format!("got {name}\n"), ""));
    }
}

#[test]
fn a_tool_may_survive_a_signal() {
    let Some(gate) = Gate::native() else { return };
    let script = "trap 'again=no' USR1; again=yes; echo up; while [ $again = yes ]; do sleep 0.05; done; echo still here";
    assert_eq!(signalled_when_up(&gate, script, Signal::USR1), ran(0, "still here\n", ""));
}

#[test]
fn a_signal_that_nobody_traps_ends_the_tool_as_it_would_outside() {
    let Some(gate) = Gate::native() else { return };
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::USR1, 138)] {
        assert_eq!(signalled_when_up(&gate, "echo up; exec sleep 20", signal), ran(code, "", ""));
    }
}

#[test]
fn a_signal_to_a_report_as_json_reaches_the_tool_too() {
    let Some(gate) = Gate::native() else { return };
    let marker = marker();
    let script = format!("trap 'echo got it; exit 42' TERM; sleep {marker} & while :; do sleep 0.05; done");
    let child = start(&mut gate.run_command(&["--json"], &["sh", "-c", &script]));
    let sleeper = format!("sleep {marker}");
    assert!(within_a_second(|| alive(&marker).iter().any(|process| process.trim_end().ends_with(&sleeper))));
    send(&child, Signal::TERM);
    let ended = finish(child);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("the report is JSON");
    assert_eq!(
        (ended.code, &report["outcome"], &report["stdout"]["text"]),
        (Some(42), &serde_json::json!({"exit": 42}), &serde_json::json!("got it\n"))
    );
}

#[test]
fn a_signal_at_any_early_moment_ends_it_and_leaves_nothing() {
    let Some(gate) = Gate::native() else { return };
    let marker = marker();
    for step in 0..60 {
        let child = start(&mut gate.run_command(&[], &["sleep", &marker]));
        thread::sleep(Duration::from_micros(250 * step));
        send(&child, Signal::TERM);
        let ended = finish(child);
        // By the signal itself, before there was a tool, or with the tool.
        assert!(matches!(ended.code, None | Some(143)), "after {step} steps: {ended:?}");
    }
    assert!(within_a_second(|| alive(&marker).is_empty()), "still alive: {:?}", alive(&marker));
}

/// Runs a script that says `up`, signals toolgate then, and returns what came after.
fn signalled_when_up(gate: &Gate, script: &str, signal: Signal) -> Ran {
    let mut child = start(&mut gate.run_command(&[], &["sh", "-c", script]));
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("it can be read");
    assert_eq!(line, "up\n");
    send(&child, signal);
    let rest = thread::spawn(move || crate::toolgate::read_all(output));
    let ended = finish(child);
    let rest = rest.join().expect("a reader does not panic");
    Ran { stdout: String::from_utf8_lossy(&rest).into_owned(), ..ended }
}

fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has an id");
    kill_process(pid, signal).expect("a child can be signalled");
}

#[test]
fn whoever_does_not_hear_of_its_children_can_start_us_all_the_same() {
    let Some(gate) = Gate::native() else { return };
    let mut command = std::process::Command::new("bash");
    let run = "trap '' CHLD; exec \"$0\" run -- sh -c 'sleep 0; echo ran'";
    command.args(["-c", run]).arg(binary());
    gate.settle(&mut command);
    assert_eq!(finish(start(&mut command)), ran(0, "ran\n", ""));
}

//! The exit code is the command's own; the few that are ours say why.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::toolgate::{Gate, alive, has, marker, ran, within_a_second};

#[test]
fn success_is_zero_and_silent() {
    let Some(gate) = Gate::native() else { return };
    assert_eq!(gate.run(&[], &["true"]), ran(0, "", ""));
}

#[test]
fn the_commands_own_code_is_passed_through() {
    let Some(gate) = Gate::native() else { return };
    for code in [1, 2, 7, 124, 255] {
        assert_eq!(gate.run(&[], &["sh", "-c", &format!("exit {code}")]), ran(code, "", ""));
    }
}

#[test]
fn a_command_that_is_not_there_is_127_with_a_hint() {
    let Some(gate) = Gate::native() else { return };
    let hint = "hint: show the directory it is in with `--ro DIR`, or use `--profile build` for toolchains in your home\n";
    for command in ["no-such-command", "/no/such/command", "./no-such-command"] {
        let said = format!("error: `{command}` is not in the sandbox\n{hint}");
        assert_eq!(gate.run(&[], &[command]), ran(127, "", said));
    }
}

#[test]
fn a_command_outside_what_is_shown_is_127() {
    let Some(gate) = Gate::native() else { return };
    let script = gate.place("home").join("script");
    write_script(&script, 0o755);
    let path = script.to_str().expect("the path is text");
    let outside = gate.run(&[], &[path]);
    assert_eq!(outside.code, Some(127));
    let shown = gate.place("home");
    assert_eq!(gate.run(&["--ro", shown.to_str().expect("text")], &[path]), ran(0, "ran\n", ""));
}

#[test]
fn a_file_that_is_not_executable_is_126() {
    let Some(gate) = Gate::native() else { return };
    write_script(&gate.work().join("script"), 0o644);
    let said = "error: `./script` cannot be executed: Permission denied (os error 13)\n";
    assert_eq!(gate.run(&[], &["./script"]), ran(126, "", said));
}

#[test]
fn a_directory_is_126() {
    let Some(gate) = Gate::native() else { return };
    let said = "error: `/usr` cannot be executed: Permission denied (os error 13)\n";
    assert_eq!(gate.run(&[], &["/usr"]), ran(126, "", said));
}

#[test]
fn a_file_in_no_known_format_is_126() {
    let Some(gate) = Gate::native() else { return };
    let program = gate.work().join("program");
    std::fs::write(&program, [0x7f, b'E', b'L', b'F', 0, 0, 0, 0]).expect("it can be written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("it can be made executable");
    let said = "error: `./program` cannot be executed: Exec format error (os error 8)\n";
    assert_eq!(gate.run(&[], &["./program"]), ran(126, "", said));
}

#[test]
fn a_signal_is_128_and_its_number() {
    let Some(gate) = Gate::native() else { return };
    for (signal, code) in [("HUP", 129), ("KILL", 137), ("SEGV", 139), ("TERM", 143)] {
        assert_eq!(gate.run(&[], &["sh", "-c", &format!("kill -{signal} $$")]), ran(code, "", ""));
    }
}

#[test]
fn a_timeout_is_124_and_everything_is_dead() {
    let Some(gate) = Gate::native() else { return };
    if !has("setsid") {
        return;
    }
    let marker = marker();
    let daemon =
        format!("trap '' TERM INT HUP; (setsid sleep {marker} &); sleep {marker} & echo up; sleep {marker}");
    let begun = Instant::now();
    let ended = gate.run(&["--timeout", "0.7"], &["sh", "-c", &daemon]);
    let took = begun.elapsed();
    assert_eq!(ended, ran(124, "up\n", "error: stopped: it ran past its time (`--timeout`)\n"));
    assert!(took >= Duration::from_millis(700), "it was stopped after {took:?}");
    assert!(within_a_second(|| alive(&marker).is_empty()), "still alive: {:?}", alive(&marker));
}

#[test]
fn a_daemon_does_not_outlive_its_command() {
    let Some(gate) = Gate::native() else { return };
    if !has("setsid") {
        return;
    }
    let marker = marker();
    let begun = Instant::now();
    let ended = gate.run(&[], &["sh", "-c", &format!("(setsid sleep {marker} &); sleep 0.1; exit 3")]);
    assert_eq!(ended, ran(3, "", ""));
    assert!(begun.elapsed() < Duration::from_secs(10), "it waited for the daemon, which holds its output");
    assert!(within_a_second(|| alive(&marker).is_empty()), "still alive: {:?}", alive(&marker));
}

#[test]
fn too_much_memory_is_137_and_says_so() {
    let Some(gate) = Gate::native() else { return };
    // It looks for the end of the last line, which never comes.
    let ended = gate.run(&["--memory", "64m"], &["tail", "/dev/zero"]);
    assert_eq!(ended, ran(137, "", "error: stopped: it went past its memory (`--memory`)\n"));
}

fn write_script(path: &std::path::Path, mode: u32) {
    std::fs::write(path, "#!/bin/sh\necho ran\n").expect("it can be written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("its mode can be set");
}

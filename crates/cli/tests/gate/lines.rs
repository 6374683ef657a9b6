//! What is said in a terminal fits into it, and breaks between words.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::place::Place;
use crate::toolgate::{PATIENCE, start, wait};

/// A rule whose name does not fit beside what it says.
const CONFIGURATION: &str = r#"policy:
  rules:
    - id: pushes-to-main-are-made-by-whoever-reviewed-them
      cedar: |
        forbid (principal, action, resource == Tool::"git.push")
        when { context.arguments.branch == "main" };
"#;

#[test]
fn an_explanation_fits_a_terminal_and_breaks_between_words() {
    let Some(place) = Place::new() else { return };
    fs::write(place.home().join("toolgate.yaml"), CONFIGURATION).expect("written");
    let explain = ["explain", "git.push", r#"{"url":"https://git.example/a.git","branch":"main"}"#];
    let whole = place.toolgate(&explain).stdout;
    let long = whole.lines().find(|line| line.contains("deny   ") && line.chars().count() > 80);
    assert!(long.is_some(), "it has a reason to break: {whole}");
    let shown = on_terminal(&place, 80, &explain);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert_eq!(words(&shown), words(&whole), "no word is broken that fits");
    // The reason goes on where it began, after the layer and what that says.
    let further = shown.lines().skip_while(|line| !line.contains("deny   ")).nth(1).expect("a line more");
    assert_eq!(further.len() - further.trim_start().len(), 20, "{shown}");
}

#[test]
fn a_hint_fits_a_terminal_and_is_one_line_for_a_program() {
    let Some(place) = Place::new() else { return };
    let call = ["call", "fs.delete", r#"{"path":"build/old.o"}"#, "--agent", "nobody", "--wait", "0"];
    let piped = place.toolgate(&call).stderr;
    let hint = piped.lines().find(|line| line.starts_with("hint: ")).expect("there is a hint");
    assert!(hint.len() > 80 && hint.ends_with("not `nobody`"), "{piped}");
    let shown = on_terminal(&place, 80, &call);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(words(&shown).join(" ").contains(hint), "{shown}");
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// What a command shows in a terminal of so many columns.
fn on_terminal(place: &Place, columns: u16, arguments: &[&str]) -> String {
    // Other tests start processes meanwhile, which must not keep ours open.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags).expect("a terminal can be made");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal can be opened");
    let name = ptsname(&master, Vec::new()).expect("a terminal has a name");
    let path = std::ffi::OsStr::from_bytes(name.as_bytes());
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let slave = openat(CWD, path, flags, Mode::empty()).expect("it can be opened");
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&master, size).expect("a terminal has a size");
    let mut command = place.command(arguments);
    let stream = |slave: &OwnedFd| Stdio::from(slave.try_clone().expect("a descriptor can be copied"));
    command.stdout(stream(&slave)).stderr(stream(&slave));
    let mut child = start(&mut command);
    // Nobody else has it open, so that the reader hears of the end.
    drop((command, slave));
    let reader = thread::spawn(move || {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = rustix::io::read(&master, &mut buffer) {
            seen.extend(buffer.iter().take(count));
        }
        seen
    });
    wait(&mut child, PATIENCE);
    let seen = reader.join().expect("a reader does not panic");
    String::from_utf8_lossy(&seen).replace("\r\n", "\n")
}

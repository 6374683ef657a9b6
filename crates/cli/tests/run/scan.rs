//! `toolgate scan`: any text comes out clean, what was found is told, and whoever waits for a line gets it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::thread;

use crate::toolgate::{Gate, Ran, finish, ran, start};

/// A credential that nobody issued, put together here so that no file holds it.
fn key() -> String {
    ["AKIA", "Z7QW3MNBV5XCLKJ2"].concat()
}

fn scan(arguments: &[&str], input: &[u8]) -> Ran {
    let gate = Gate::new();
    let mut child = start(gate.command(&[&["scan"], arguments].concat()).stdin(Stdio::piped()));
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    stdin.write_all(input).expect("it can be written");
    drop(stdin);
    finish(child)
}

#[test]
fn clean_text_passes_as_it_is_and_dirty_text_is_told_of() {
    assert_eq!(scan(&[], "plain\r\ntext é\n".as_bytes()), ran(0, "plain\r\ntext é\n", ""));
    let dirty = format!("key \u{1b}[31m{}\u{1b}[0m\n", key());
    let told = "found: 2 escape/colour (removed)\nfound: 1 secret/aws-access-key (masked)\n";
    assert_eq!(scan(&[], dirty.as_bytes()), ran(3, "key [masked:aws-access-key]\n", told));
}

#[test]
fn findings_as_json_say_where_and_never_what() {
    let ended = scan(&["--json"], format!("a \u{200b}{}", key()).as_bytes());
    let expected = concat!(
        r#"{"text":"a [masked:aws-access-key]","findings":["#,
        r#"{"category":"invisible","rule":"zero-width","start":2,"end":5,"action":"removed"},"#,
        r#"{"category":"secret","rule":"aws-access-key","start":5,"end":25,"action":"masked"}],"#,
        r#""left_out":0,"counts":{"invisible/zero-width":1,"secret/aws-access-key":1},"tainted":false}"#,
        "\n"
    );
    assert_eq!(ended, ran(3, expected, ""));
}

#[test]
fn a_line_of_a_batch_is_answered_before_the_next_is_asked() {
    let gate = Gate::new();
    let mut child = start(gate.command(&["scan", "--batch"]).stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input is a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    for (question, part) in [
        ("{\"id\":1,\"text\":\"a\\u200bb\"}\n", "\"text\":\"ab\""),
        ("nonsense\n", "\"code\":\"malformed\""),
        ("\"plain\"\n", "\"text\":\"plain\""),
    ] {
        input.write_all(question.as_bytes()).expect("it can be written");
        let mut line = String::new();
        output.read_line(&mut line).expect("it can be read");
        assert!(line.contains(part), "{question} is answered with {line}");
    }
    drop(input);
    assert_eq!(finish(child).code, Some(3));
}

#[test]
fn bytes_that_are_no_text_do_not_stop_it() {
    let ended = scan(&[], b"a\xff\xfeb\n");
    assert_eq!(ended, ran(3, "a\u{fffd}\u{fffd}b\n", "found: 2 encoding/invalid-utf8 (removed)\n"));
}

/// One line of a batch, by its number: clean, dirty, malformed, and now and then very long.
fn line(number: u64) -> String {
    match number {
        _ if number.is_multiple_of(97) => "{\"text\": 7}\n".to_owned(),
        _ if number.is_multiple_of(89) => format!("nonsense {number}\n"),
        _ if number.is_multiple_of(1009) => {
            format!("{{\"id\":{number},\"text\":\"{}\"}}\n", "long ".repeat(100_000))
        }
        _ if is_too_long(number) => format!("\"{}\"\n", "x".repeat(17 << 20)),
        _ if number.is_multiple_of(10) => format!("{{\"id\":{number},\"text\":\"a\\u001b[1m {}\"}}\n", key()),
        _ => format!("{{\"id\":{number},\"text\":\"line {number} of a log, and nothing in it\"}}\n"),
    }
}

/// Whether a line is longer than is read: often at first, so that the most memory is soon known.
fn is_too_long(number: u64) -> bool {
    number.is_multiple_of(if number < 6_500 { 1_013 } else { 50_650 })
}

/// The beginning of its answer, and something else that is in it.
fn answer(number: u64) -> (String, &'static str) {
    let malformed = [97, 89].iter().any(|of| number.is_multiple_of(*of))
        || (is_too_long(number) && !number.is_multiple_of(1009));
    let found = number.is_multiple_of(10) && !number.is_multiple_of(1009);
    match (malformed, found) {
        (true, _) => (String::new(), "\"code\":\"malformed\""),
        (_, true) => (format!("{{\"id\":{number},\"line\":{number},"), "a [masked:aws-access-key]"),
        _ => (format!("{{\"id\":{number},\"line\":{number},"), "\"findings\":[]"),
    }
}

/// The most memory a process ever had, in bytes.
fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it is running");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it has a peak");
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("it is a number");
    kilobytes * 1024
}

/// A million with `TOOLGATE_LONG=1`.
#[test]
#[expect(clippy::print_stdout, reason = "the figures are what people want to see")]
fn a_batch_of_any_length_is_answered_line_by_line_in_the_same_memory() {
    let long = std::env::var("TOOLGATE_LONG").is_ok_and(|value| value == "1");
    let (few, many) = if long { (100_000, 1_000_000) } else { (6_500, 16_000) };
    let gate = Gate::new();
    let mut child = start(gate.command(&["scan", "--batch"]).stdin(Stdio::piped()));
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    let mut input = child.stdin.take().expect("its input is a pipe");
    let mut text = String::new();
    let mut peaks = Vec::new();
    for numbers in [1..=few, few + 1..=many] {
        let asked = numbers.clone();
        let asking = thread::spawn(move || {
            for number in asked {
                input.write_all(line(number).as_bytes()).expect("it can be written");
            }
            input
        });
        for number in numbers {
            text.clear();
            output.read_line(&mut text).expect("it can be read");
            let (first, part) = answer(number);
            assert!(text.starts_with(&first) && text.contains(part), "line {number}: {text:.200}");
        }
        input = asking.join().expect("all of it is asked");
        peaks.push(peak_memory(child.id()));
    }
    drop(input);
    assert_eq!(finish(child).code, Some(3));
    println!("{few} lines: {} bytes at most; {many}: {}", peaks[0], peaks[1]);
    // In a million lines some are longer than is read, and the allocator may hold one of them more.
    let slack = if long { 24 << 20 } else { 4 << 20 };
    assert!(peaks[1] <= peaks[0] + slack, "memory grows with the lines: {peaks:?}");
    assert!(peaks[1] < 128 << 20, "a line takes more memory than it is worth: {peaks:?}");
}

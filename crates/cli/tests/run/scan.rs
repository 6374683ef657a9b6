//! `toolgate scan`: any text comes out clean, what was found is told, and whoever waits for a line gets it.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

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

//! Standard streams lead through, whole and in order; a reader or writer at the other end can hold nothing up for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use crate::toolgate::{Gate, PATIENCE, finish, ran, read_all, start, wait};

#[test]
fn output_and_complaints_are_kept_apart() {
    let Some(gate) = Gate::native() else { return };
    let script = "echo one; echo two >&2; echo three; echo four >&2";
    assert_eq!(gate.run(&[], &["sh", "-c", script]), ran(0, "one\nthree\n", "two\nfour\n"));
}

#[test]
fn the_end_of_our_input_is_the_end_of_the_tools() {
    let Some(gate) = Gate::native() else { return };
    assert_eq!(gate.run(&[], &["cat"]), ran(0, "", ""));
    let mut child = start(gate.run_command(&[], &["wc", "-c"]).stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input is a pipe");
    input.write_all(b"12345").expect("it can be written");
    drop(input);
    assert_eq!(finish(child), ran(0, "5\n", ""));
}

#[test]
fn megabytes_of_any_bytes_come_through_unchanged_both_ways() {
    let Some(gate) = Gate::native() else { return };
    let sent = noise(8 * 1024 * 1024);
    let mut child = start(gate.run_command(&[], &["cat"]).stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input is a pipe");
    let output = child.stdout.take().expect("its output is a pipe");
    let got = thread::scope(|scope| {
        let reader = scope.spawn(|| read_all(output));
        input.write_all(&sent).expect("it can be written");
        drop(input);
        reader.join().expect("a reader does not panic")
    });
    assert_eq!(finish(child), ran(0, "", ""));
    assert!(got == sent, "{} bytes were sent, {} came back, or they differ", sent.len(), got.len());
}

#[test]
fn lines_come_in_the_order_they_were_written() {
    let Some(gate) = Gate::native() else { return };
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let ended = gate.run(&[], &["seq", "1", "100000"]);
    assert!(ended == ran(0, expected, ""), "{:?} {}", ended.code, ended.stderr);
}

#[test]
fn what_was_written_is_there_before_the_tool_ends() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(gate.run_command(&[], &["cat"]).stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input is a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    for question in ["one\n", "two\n", "three\n"] {
        input.write_all(question.as_bytes()).expect("it can be written");
        let mut answer = String::new();
        output.read_line(&mut answer).expect("it can be read");
        assert_eq!(answer, question);
    }
    drop(input);
    assert_eq!(finish(child), ran(0, "", ""));
}

#[test]
fn files_serve_as_streams() {
    let Some(gate) = Gate::native() else { return };
    let sent = noise(300_000);
    let (from, to) = (gate.place("home").join("from"), gate.place("home").join("to"));
    std::fs::write(&from, &sent).expect("it can be written");
    let mut command = gate.run_command(&[], &["cat"]);
    command.stdin(std::fs::File::open(&from).expect("it can be opened"));
    command.stdout(std::fs::File::create(&to).expect("it can be made"));
    assert_eq!(finish(start(&mut command)), ran(0, "", ""));
    assert!(std::fs::read(&to).expect("it can be read") == sent, "the bytes differ");
}

#[test]
fn streams_that_are_closed_do_no_harm() {
    let Some(gate) = Gate::native() else { return };
    let mut shell = std::process::Command::new("/bin/sh");
    shell
        .args(["-c", "exec \"$0\" run -- sh -c 'cat; echo lost; exit 5' <&- >&-"])
        .arg(crate::toolgate::binary());
    gate.settle(&mut shell);
    assert_eq!(finish(start(&mut shell)), ran(5, "", ""));
}

#[test]
fn a_tool_that_does_not_read_its_input_ends_all_the_same() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(gate.run_command(&[], &["true"]).stdin(Stdio::piped()));
    let mut input = child.stdin.take().expect("its input is a pipe");
    let writer =
        thread::spawn(move || input.write_all(&noise(8 * 1024 * 1024)).map_err(|error| error.kind()));
    assert_eq!(finish(child), ran(0, "", ""));
    assert_eq!(writer.join().expect("a writer does not panic"), Err(std::io::ErrorKind::BrokenPipe));
}

#[test]
fn input_that_stays_open_and_silent_does_not_keep_a_tool_alive() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(gate.run_command(&[], &["echo", "done"]).stdin(Stdio::piped()));
    let open = child.stdin.take();
    assert_eq!(finish(child), ran(0, "done\n", ""));
    drop(open);
}

#[test]
fn a_tool_whose_reader_has_gone_gets_the_usual_signal_and_we_end() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(&mut gate.run_command(&["--timeout", "10"], &["yes"]));
    let mut output = child.stdout.take().expect("its output is a pipe");
    let mut first = [0; 4];
    output.read_exact(&mut first).expect("it can be read");
    assert_eq!(&first, b"y\ny\n");
    drop(output);
    assert_eq!(finish(child), ran(128 + 13, "", ""));
}

#[test]
fn a_tool_whose_complaints_nobody_reads_gets_the_usual_signal_too() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(&mut gate.run_command(&["--timeout", "10"], &["sh", "-c", "exec yes >&2"]));
    let mut complaints = child.stderr.take().expect("its errors are a pipe");
    let mut first = [0; 4];
    complaints.read_exact(&mut first).expect("it can be read");
    drop(complaints);
    assert_eq!(finish(child), ran(128 + 13, "", ""));
}

#[test]
fn a_reader_that_has_gone_leaves_a_tool_that_writes_no_more_alone() {
    let Some(gate) = Gate::native() else { return };
    let script = "echo first; read line; exit 6";
    let mut child = start(gate.run_command(&[], &["sh", "-c", script]).stdin(Stdio::piped()));
    let mut output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
    output.read_line(&mut String::new()).expect("it can be read");
    drop(output);
    let mut input = child.stdin.take().expect("its input is a pipe");
    input.write_all(b"go on\n").expect("it can be written");
    assert_eq!(finish(child), ran(6, "", ""));
}

#[test]
fn a_slow_reader_gets_everything() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(&mut gate.run_command(&[], &["head", "-c", "1000000", "/dev/zero"]));
    let mut output = child.stdout.take().expect("its output is a pipe");
    let (mut got, mut buffer) = (0, [0; 100_000]);
    loop {
        thread::sleep(Duration::from_millis(20));
        match output.read(&mut buffer).expect("it can be read") {
            0 => break,
            count => got += count,
        }
    }
    assert_eq!((got, finish(child)), (1_000_000, ran(0, "", "")));
}

#[test]
fn a_reader_that_stalls_does_not_defeat_the_timeout() {
    let Some(gate) = Gate::native() else { return };
    for stream in ["1", "2"] {
        let mut child =
            start(&mut gate.run_command(&["--timeout", "1"], &["sh", "-c", &format!("exec yes >&{stream}")]));
        let stalled = (child.stdout.take(), child.stderr.take());
        let begun = Instant::now();
        assert_eq!(wait(&mut child, PATIENCE), Some(124), "stream {stream}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(6), "stream {stream}: ended after {took:?}");
        drop(stalled);
    }
}

#[test]
fn what_waits_with_us_when_the_tool_has_ended_is_still_delivered() {
    let Some(gate) = Gate::native() else { return };
    // More than the reader's pipe takes, and less than that and the tool's own: the rest waits with us.
    let child = start(&mut gate.run_command(&["--timeout", "15"], &["head", "-c", "100000", "/dev/zero"]));
    thread::sleep(Duration::from_secs(1));
    let ended = finish(child);
    assert_eq!((ended.code, ended.stdout.len(), ended.stderr.as_str()), (Some(0), 100_000, ""));
}

#[test]
fn output_past_the_cap_is_dropped_aloud_and_the_tool_runs_to_its_end() {
    let Some(gate) = Gate::native() else { return };
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; echo end >&2; exit 9";
    let expected = ran(
        9,
        "x".repeat(1024),
        "end\nwarning: 998976 bytes of stdout were dropped: past the cap (`--output`)\n",
    );
    assert_eq!(gate.run(&["--output", "1k"], &["sh", "-c", script]), expected);
}

#[test]
fn a_cap_of_nothing_passes_nothing() {
    let Some(gate) = Gate::native() else { return };
    let said = "warning: 3 bytes of stdout were dropped: past the cap (`--output`)\n";
    assert_eq!(gate.run(&["--output", "0"], &["echo", "hi"]), ran(0, "", said));
}

#[test]
fn waiting_costs_no_processor_time() {
    let Some(gate) = Gate::native() else { return };
    let mut child = start(gate.run_command(&[], &["sleep", "1.5"]).stdin(Stdio::null()));
    thread::sleep(Duration::from_secs(1));
    let used = processor_time_of(child.id());
    assert_eq!(wait(&mut child, PATIENCE), Some(0));
    assert!(used < Duration::from_millis(300), "{used:?} of processor time in one second of waiting");
}

/// What a process has used so far.
pub(crate) fn processor_time_of(pid: u32) -> Duration {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is still there");
    let (_, after_name) = status.rsplit_once(") ").expect("a name in brackets");
    let fields: Vec<u64> =
        after_name.split(' ').skip(1).map(|field| field.parse().unwrap_or_default()).collect();
    // Fields 14 and 15 of the manual, in hundredths of a second.
    Duration::from_millis((fields[10] + fields[11]) * 10)
}

/// Bytes without a pattern, the same every time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

// A hung run must fail by our own patience before the sandbox's default timeout hides it.
const _: () = assert!(PATIENCE.as_secs() < 30);

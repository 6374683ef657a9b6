//! `toolgate scan`: what the gate does to a tool's output, for any text.
//!
//! Reads and writes in pieces: memory does not grow with the input.

use std::fmt;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Read, Write};

use anyhow::{Context, Error};
use clap::Args;
use engine::{Cleaner, Findings};
use serde::Serialize;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use crate::talk;

const AFTER_HELP: &str = "\
Exit codes: 0 nothing was found, 2 usage or internal, 3 something was found.

With --json the answer is one object: `text`, `findings` (category, rule, start and end in bytes of the
input, action), `left_out` (findings beyond the first 256), `counts` by category/rule, `tainted`. Findings never
hold what they are about.

With --batch every line is a JSON string or an object with `text` and any `id`; every answer is such an object
on a line, with `id` and `line`. A line that cannot be read is answered with `error`, and the rest goes on.

Examples:
  some-tool | toolgate scan
  toolgate scan --json < page.md
  jq -c '{id: .name, text: .body}' pages.jsonl | toolgate scan --batch";

/// The longest line of a batch, in bytes.
const MOST_LINE: usize = 16 << 20;
/// How much is read at once.
const PIECE: usize = 64 << 10;

const CODE_NOTHING: i32 = 0;
const CODE_BROKEN: i32 = 2;
const CODE_FOUND: i32 = 3;

/// Clean text, and tell what was found in it
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Answer with one JSON object: the text and the findings
    #[arg(long)]
    json: bool,

    /// Read JSON lines, and answer each with a line
    #[arg(long, conflicts_with = "json")]
    batch: bool,
}

pub(crate) fn run(arguments: &Arguments) -> i32 {
    let input = BufReader::with_capacity(PIECE, std::io::stdin().lock());
    let output = BufWriter::with_capacity(PIECE, std::io::stdout().lock());
    let scanned = match (arguments.batch, arguments.json) {
        (true, _) => scan_lines(input, output),
        (false, true) => scan_as_json(input, output),
        (false, false) => scan_text(input, output),
    };
    match scanned {
        Ok(code) => code,
        // Whoever stops reading has seen enough.
        Err(error) if is_broken_pipe(&error) => CODE_BROKEN,
        Err(error) => {
            talk::error(&error, None);
            CODE_BROKEN
        }
    }
}

fn is_broken_pipe(error: &Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// What is said of a text beside the text.
#[derive(Serialize)]
struct Told<'a> {
    findings: &'a [engine::Finding],
    left_out: u64,
    counts: std::collections::BTreeMap<String, u64>,
    tainted: bool,
}

impl Told<'_> {
    fn of(findings: &Findings) -> Told<'_> {
        let summary = findings.summary();
        Told {
            findings: findings.kept(),
            left_out: findings.left_out(),
            counts: summary.rules,
            tainted: summary.tainted,
        }
    }
}

fn code_of(findings: &Findings) -> i32 {
    if findings.is_empty() { CODE_NOTHING } else { CODE_FOUND }
}

/// Cleans all of the input, handing on what is clean.
fn clean_all(
    mut input: impl BufRead,
    mut hand_on: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<Findings, Error> {
    let mut cleaner = Cleaner::default();
    loop {
        let piece = input.fill_buf().context("cannot read the input")?;
        if piece.is_empty() {
            break;
        }
        cleaner.push_bytes(piece);
        let length = piece.len();
        input.consume(length);
        hand_on(&cleaner.take())?;
    }
    let (rest, findings) = cleaner.finish();
    hand_on(&rest)?;
    Ok(findings)
}

fn scan_text(input: impl BufRead, mut output: impl Write) -> Result<i32, Error> {
    let findings = clean_all(input, |text| output.write_all(text.as_bytes()))?;
    output.flush()?;
    for (category, rule, action, count) in findings.counts() {
        let done = match action {
            engine::Action::Removed => "removed",
            engine::Action::Masked => "masked",
            engine::Action::Flagged => "flagged",
        };
        talk::say(&format!("found: {count} {}/{rule} ({done})", category.as_str()));
    }
    Ok(code_of(&findings))
}

fn scan_as_json(input: impl BufRead, mut output: impl Write) -> Result<i32, Error> {
    output.write_all(b"{\"text\":\"")?;
    let findings = clean_all(input, |text| {
        let quoted = serde_json::to_string(text)?;
        output.write_all(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().as_bytes())
    })?;
    let told = serde_json::to_string(&Told::of(&findings))?;
    // The members of one object after that of another.
    writeln!(output, "\",{}", told.get(1..).unwrap_or_default())?;
    output.flush()?;
    Ok(code_of(&findings))
}

fn scan_lines(mut input: BufReader<impl Read>, mut output: impl Write) -> Result<i32, Error> {
    let mut code = CODE_NOTHING;
    let mut line = Vec::new();
    for number in 1_u64.. {
        // Whoever waits for an answer before asking again gets it.
        if input.buffer().is_empty() {
            output.flush()?;
        }
        line.clear();
        let read = (&mut input)
            .take(MOST_LINE as u64 + 1)
            .read_until(b'\n', &mut line)
            .context("cannot read the input")?;
        if read == 0 {
            break;
        }
        let asked = if line.len() > MOST_LINE && line.last() != Some(&b'\n') {
            skip_line(&mut input)?;
            Err(format!("the line is longer than {MOST_LINE} bytes"))
        } else {
            serde_json::from_slice::<Question>(&line).map_err(|error| error.to_string())
        };
        let line_code = match asked {
            Ok(question) => answer(question, number, &mut output)?,
            Err(why) => {
                let error = json!({ "code": "malformed", "message": why });
                serde_json::to_writer(&mut output, &json!({ "id": null, "line": number, "error": error }))?;
                CODE_BROKEN
            }
        };
        output.write_all(b"\n")?;
        // What was found counts for more than what could not be read.
        code = code.max(line_code);
        if line.capacity() > 1 << 20 {
            line = Vec::new();
        }
    }
    output.flush()?;
    Ok(code)
}

/// Answers one line.
fn answer(Question { id, text }: Question, line: u64, output: impl Write) -> Result<i32, Error> {
    let mut cleaner = Cleaner::default();
    cleaner.push(&text);
    drop(text);
    let (text, findings) = cleaner.finish();
    let told = Told::of(&findings);
    serde_json::to_writer(output, &Answer { id, line, text, told })?;
    Ok(code_of(&findings))
}

#[derive(Serialize)]
struct Answer<'a> {
    id: Option<Box<RawValue>>,
    line: u64,
    text: String,
    #[serde(flatten)]
    told: Told<'a>,
}

/// What one line asks. Read without a tree of its values: that would be many times as large as the line.
struct Question {
    /// As it was written.
    id: Option<Box<RawValue>>,
    text: String,
}

impl<'de> Deserialize<'de> for Question {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Question, D::Error> {
        deserializer.deserialize_any(QuestionVisitor)
    }
}

struct QuestionVisitor;

impl<'de> Visitor<'de> for QuestionVisitor {
    type Value = Question;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string, or an object with `text`, a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Question, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Question, E> {
        Ok(Question { id: None, text })
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> Result<Question, M::Error> {
        let (mut id, mut text) = (None, None);
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "id" if id.is_some() => return Err(de::Error::duplicate_field("id")),
                "text" if text.is_some() => return Err(de::Error::duplicate_field("text")),
                "id" => id = Some(members.next_value()?),
                "text" => text = Some(members.next_value()?),
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Question { id, text: text.ok_or_else(|| de::Error::missing_field("text"))? })
    }
}

fn skip_line(input: &mut impl BufRead) -> Result<(), Error> {
    loop {
        let piece = input.fill_buf().context("cannot read the input")?;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(piece.len(), |end| end + 1);
        input.consume(length);
        if end.is_some() || length == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn batch(input: &str) -> (i32, Vec<Value>) {
        let mut output = Vec::new();
        let code = scan_lines(BufReader::new(input.as_bytes()), &mut output).unwrap();
        let lines = String::from_utf8(output).unwrap();
        (code, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    #[test]
    fn every_line_is_answered_also_those_that_cannot_be_read() {
        let (code, answers) =
            batch("\"plain\"\n{\"id\":7,\"text\":\"a\\u200bb\"}\nnonsense\n{\"id\":1}\n[1]\n\n\"last\"");
        assert_eq!(code, CODE_FOUND);
        let texts: Vec<&Value> = answers.iter().map(|answer| &answer["text"]).collect();
        assert_eq!(
            texts,
            [
                &json!("plain"),
                &json!("ab"),
                &Value::Null,
                &Value::Null,
                &Value::Null,
                &Value::Null,
                &json!("last")
            ]
        );
        assert_eq!(answers[1]["id"], json!(7));
        assert_eq!(
            answers[1]["findings"],
            json!([{ "category": "invisible", "rule": "zero-width", "start": 1, "end": 4, "action": "removed" }])
        );
        assert!(answers[2..6].iter().all(|answer| answer["error"]["code"] == "malformed"), "{answers:?}");
        assert_eq!(batch("nonsense\n").0, CODE_BROKEN);
        assert_eq!(batch("{\"text\":\"a\",\"text\":\"b\"}\n").0, CODE_BROKEN);
        let (_, answers) = batch("{\"x\":[1],\"id\":{\"b\":1.10},\"text\":\"a\"}\n");
        assert_eq!((&answers[0]["id"], &answers[0]["text"]), (&json!({ "b": 1.10 }), &json!("a")));
        assert_eq!(batch("\"plain\"\n").0, CODE_NOTHING);
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_and_the_next_is_answered() {
        let (_, answers) = batch(&format!("\"{}\"\n\"next\"\n", "x".repeat(MOST_LINE)));
        assert_eq!(answers.len(), 2);
        assert_eq!(answers[0]["error"]["code"], "malformed");
        assert_eq!(answers[1]["text"], "next");
    }

    #[test]
    fn json_of_a_text_is_one_object_whatever_is_in_it() {
        let text = "say \"hi\"\n\u{1b}[1m\\ ".repeat(10_000);
        let mut output = Vec::new();
        assert_eq!(
            scan_as_json(BufReader::with_capacity(7, text.as_bytes()), &mut output).unwrap(),
            CODE_FOUND
        );
        let told: Value = serde_json::from_slice(&output).unwrap();
        assert_eq!(told["text"], "say \"hi\"\n\\ ".repeat(10_000));
        assert_eq!(
            (&told["counts"], &told["left_out"]),
            (&json!({ "escape/colour": 10_000 }), &json!(9_744))
        );
    }
}

//! `text.count`: how long a text is.

use std::sync::Arc;

use contract::{
    Category, ContractError, CostTier, Definition, EgressClass, Example, Idempotency, Profile, Reason,
    SafetyClass,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{CommandLine, CommandOutput, CommandTool, Tool};

#[derive(Deserialize, JsonSchema)]
struct CountInput {
    /// The file, relative to the workspace.
    path: String,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct CountOutput {
    /// How many line breaks there are.
    lines: u64,
    /// How many words, as white space parts them.
    words: u64,
    /// How many bytes.
    bytes: u64,
}

/// Counts what is in a file.
pub(crate) fn count() -> Result<Arc<dyn Tool>, ContractError> {
    let definition = Definition {
        title: "Count lines, words and bytes".into(),
        description:
            "Counts the lines, words and bytes of a file of the workspace, without reading it to you.".into(),
        category: Category::FileSystem,
        action: "code:read".into(),
        safety: SafetyClass::Read,
        egress: EgressClass::None,
        idempotency: Idempotency::Optional,
        cost: CostTier::Free,
        examples: vec![Example::of("how long is it?", json!({ "path": "README.md" }))],
        failure_modes: vec![
            "outside: an absolute path, or `..`; paths are relative to the workspace".into(),
            "protected: the name usually holds credentials, such as `.env`".into(),
            "tool_failed: no such file, or it is a directory; `fs.list` shows what there is".into(),
        ],
        ..Definition::of::<CountInput, CountOutput>("text.count")
    };
    CommandTool { definition, profile: Profile::Inspect, command: wc, read: read_counts }.build()
}

fn wc(input: &CountInput) -> CommandLine {
    CommandLine::of("wc").words(["-l", "-w", "-c"]).path(&input.path)
}

/// Reads a line such as `  3  9 42 ./README.md`.
fn read_counts(output: &CommandOutput) -> Result<CountOutput, Reason> {
    let mut counts = output.success()?.split_whitespace().map_while(|word| word.parse().ok());
    match (counts.next(), counts.next(), counts.next()) {
        (Some(lines), Some(words), Some(bytes)) => Ok(CountOutput { lines, words, bytes }),
        _ => Err(Reason::bad_output("`wc` did not give three numbers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stdout: &str) -> Result<CountOutput, String> {
        let output = CommandOutput { exit_code: 0, stdout: stdout.into(), stderr: Vec::new() };
        read_counts(&output).map_err(|reason| reason.code.to_string())
    }

    #[test]
    fn three_numbers_are_the_counts_and_nothing_else_is() {
        assert_eq!(read(" 3  9 42 ./7 8"), Ok(CountOutput { lines: 3, words: 9, bytes: 42 }));
        for odd in ["", "3 9", "3 nine 42 x", "-1 2 3 x"] {
            assert_eq!(read(odd), Err("bad_output".to_owned()), "{odd}");
        }
    }
}

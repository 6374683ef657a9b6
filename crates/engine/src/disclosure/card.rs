//! What is told of one tool at each level, made once for each version of it.

use std::sync::OnceLock;

use contract::{Contract, Finding, TrustLabel};
use serde_json::Value;
use tools::Guide;

use super::level_one::{LONGEST_LINE, Line};
use super::rank::{Document, Texts};
use super::tokens::count;

/// What level 2 of one tool may cost. What is too much is left out, and said.
const MOST_TOKENS: usize = 5000;

/// One version of a tool.
pub(super) struct Card {
    pub(super) line: Line,
    pub(super) document: Document,
    level_two: OnceLock<(String, usize)>,
}

impl Card {
    pub(super) fn of(contract: &Contract) -> Card {
        let definition = contract.definition();
        let (description, line) = (contract.shown_description(), line_of(contract));
        let texts = Texts {
            name: &definition.name,
            title: &definition.title,
            line: &line,
            // Who hides instructions in a description does not get to be found by them.
            description: if is_suspicious(contract) { "" } else { &description },
            category: definition.category.as_str(),
            arguments: arguments_of(contract.input().definition()),
        };
        let document = Document::of(&texts);
        let line = Line {
            name: definition.name.clone(),
            line,
            category: definition.category.as_str(),
            cost: definition.cost.as_str(),
        };
        Card { line, document, level_two: OnceLock::new() }
    }

    /// Level 2, and how many tokens it is.
    pub(super) fn level_two(&self, contract: &Contract, guides: &[Guide]) -> &(String, usize) {
        self.level_two.get_or_init(|| {
            let mut text = String::new();
            let mut tokens = 0;
            for parts in [Parts::All, Parts::WithoutOutput, Parts::InputAlone] {
                text = level_two(contract, guides, parts);
                tokens = count(&text);
                if tokens < MOST_TOKENS {
                    break;
                }
            }
            (text, tokens)
        })
    }
}

/// What a tool does, in one line.
fn line_of(contract: &Contract) -> String {
    // ATTACK(poisoned-level-one): it stands in our own instructions, where a model believes what it reads.
    if is_suspicious(contract) {
        return "(what it says of itself is withheld: it reads like instructions)".to_owned();
    }
    let description = contract::show_hidden(&contract.shown_description());
    let first = description.split_inclusive(['.', '\n']).next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line: String = words.join(" ").trim_end_matches('.').chars().take(LONGEST_LINE).collect();
    match contract.trust() {
        TrustLabel::Internal | TrustLabel::Pinned => line,
        TrustLabel::Untrusted | TrustLabel::Imported => format!("(says of itself) {line}"),
    }
}

fn is_suspicious(contract: &Contract) -> bool {
    contract.findings().iter().any(|finding| !matches!(finding, Finding::TooLong { .. }))
}

/// The names of a tool's arguments.
fn arguments_of(input: &Value) -> Vec<&str> {
    let properties = input.get("properties").and_then(Value::as_object);
    properties.map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// How much is told at level 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    All,
    WithoutOutput,
    InputAlone,
}

fn level_two(contract: &Contract, guides: &[Guide], parts: Parts) -> String {
    let definition = contract.definition();
    let name = &definition.name;
    let mut text = format!(
        "{name} · {}\ncategory {} · cost {} · class {} · egress {} · trust {}\n",
        contract::show_hidden(&definition.title),
        definition.category,
        definition.cost,
        definition.safety,
        definition.egress,
        contract.trust(),
    );
    for finding in contract.findings() {
        text.push_str(&format!("beware: its description {finding}\n"));
    }
    text.push_str(&format!(
        "\n{}\n\ninput: {}\n",
        contract.shown_description(),
        contract.input().definition()
    ));
    if parts == Parts::All {
        text.push_str(&format!("output: {}\n", contract.output().definition()));
    }
    if parts != Parts::InputAlone {
        for example in &definition.examples {
            text.push_str(&format!("example, {}: {}\n", example.about, example.arguments));
        }
        for mode in &definition.failure_modes {
            text.push_str(&format!("fails with {mode}\n"));
        }
    }
    if parts != Parts::All {
        text.push_str("(the rest is left out: it is too long)\n");
    }
    if !guides.is_empty() {
        let names: Vec<String> = guides.iter().map(|guide| format!("`{}`", guide.name)).collect();
        text.push_str(&format!("load_tool_resource has {}\n", names.join(", ")));
    }
    text
}

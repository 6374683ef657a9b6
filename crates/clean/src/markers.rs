//! Marks by which a model tells who speaks, and text that looks like a tool's call: nothing that a tool gives has a use
//! for them.

use std::ops::Range;

use super::detect::Hit;
use super::finding::{Action, Category};

/// One mark.
#[derive(Debug)]
pub(super) struct Marker {
    pub(super) text: &'static str,
    pub(super) category: Category,
    pub(super) rule: &'static str,
    pub(super) action: Action,
    place: Place,
    letters: Letters,
}

/// Whether capitals matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letters {
    Any,
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere,
    /// Where a line begins, but for blanks and marks of quotation.
    LineStart,
}

impl Marker {
    /// What to do about the mark at a place.
    pub(super) fn find(&self, bytes: &[u8], place: &Range<usize>) -> Option<Hit> {
        let stands = match self.place {
            Place::Anywhere => true,
            Place::LineStart => is_line_start(bytes.get(..place.start)?),
        };
        let spelt = self.letters == Letters::Any || bytes.get(place.clone())? == self.text.as_bytes();
        (stands && spelt).then_some(Hit {
            start: place.start,
            end: place.end,
            category: self.category,
            rule: self.rule,
            action: self.action,
            rank: 4,
            goes_on: None,
        })
    }
}

/// Names of marks that nothing else is called: found in any letters, with anything between them, if they stand between
/// bars and brackets.
pub(super) const NAMES: [&str; 18] = [
    "im_start",
    "im_end",
    "im_sep",
    "endoftext",
    "endofprompt",
    "begin_of_text",
    "end_of_text",
    "start_header_id",
    "end_header_id",
    "eot_id",
    "eom_id",
    "fim_prefix",
    "fim_middle",
    "fim_suffix",
    "START_OF_TURN_TOKEN",
    "END_OF_TURN_TOKEN",
    "SYSTEM_TOKEN",
    "CHATBOT_TOKEN",
];

/// A mark whose name stands at a place, with all that is around it.
// ATTACK(borrowed-voice): whoever normalises a text makes a mark of what only looks like one.
pub(super) fn find_named(text: &str, name: &Range<usize>) -> Option<Hit> {
    let start = name.start - opening(text.get(..name.start)?)?;
    let end = name.end + closing(text.get(name.end..)?)?;
    Some(Hit {
        start,
        end,
        category: Category::Role,
        rule: "role-token",
        action: Action::Masked,
        rank: 4,
        goes_on: None,
    })
}

const BARS: [char; 8] = ['|', '｜', '¦', 'ǀ', '│', '┃', '∣', '❘'];
const LEFT: [&str; 11] = ["<", "＜", "﹤", "‹", "〈", "⟨", "❮", "&lt;", "&LT;", "&#60;", "&#x3c;"];
const RIGHT: [&str; 11] = [">", "＞", "﹥", "›", "〉", "⟩", "❯", "&gt;", "&GT;", "&#62;", "&#x3e;"];

/// How long a bracket and a bar are that a text ends with.
fn opening(before: &str) -> Option<usize> {
    let near = before.get(before.ceil_char_boundary(before.len().saturating_sub(32))..)?;
    let bar = near.trim_end_matches([' ', '_']).strip_suffix(BARS)?.trim_end_matches(' ');
    let rest = LEFT.iter().find_map(|bracket| strip_end(bar, bracket))?;
    Some(near.len() - rest.len())
}

/// How long a bar and a bracket are that a text begins with.
fn closing(after: &str) -> Option<usize> {
    let near = after.get(..after.floor_char_boundary(32))?;
    let marks = |character: char| matches!(character, ' ' | '_' | '\u{300}'..='\u{36f}');
    let bar = near.trim_start_matches(marks).strip_prefix(BARS)?.trim_start_matches(' ');
    let rest = RIGHT.iter().find_map(|bracket| {
        let found = bar.get(..bracket.len())?;
        found.eq_ignore_ascii_case(bracket).then(|| bar.get(bracket.len()..)).flatten()
    })?;
    Some(near.len() - rest.len())
}

fn strip_end<'a>(text: &'a str, end: &str) -> Option<&'a str> {
    let (rest, last) = text.split_at_checked(text.len().checked_sub(end.len())?)?;
    last.eq_ignore_ascii_case(end).then_some(rest)
}

fn is_line_start(before: &[u8]) -> bool {
    let mut last =
        before.iter().rev().take(16).skip_while(|byte| matches!(byte, b' ' | b'\t' | b'>' | b'#' | b'*'));
    last.next().is_none_or(|byte| *byte == b'\n')
}

const fn marker(category: Category, rule: &'static str, text: &'static str) -> Marker {
    Marker { text, category, rule, action: Action::Masked, place: Place::Anywhere, letters: Letters::Any }
}

const fn role(text: &'static str) -> Marker {
    marker(Category::Role, "role-token", text)
}

const fn block(text: &'static str) -> Marker {
    marker(Category::Role, "system-block", text)
}

const fn speaker(text: &'static str) -> Marker {
    marker(Category::Role, "speaker", text).at_line_start().exact().flag()
}

const fn call(text: &'static str) -> Marker {
    marker(Category::ToolCall, "call-token", text)
}

const fn json(text: &'static str) -> Marker {
    marker(Category::ToolCall, "call-json", text).flag()
}

pub(super) const MARKERS: &[Marker] = &[
    // ChatML and its kin
    role("<|im_start|>"),
    role("<|im_end|>"),
    role("<|im_sep|>"),
    role("<|endoftext|>"),
    role("<|endofprompt|>"),
    role("<|fim_prefix|>"),
    role("<|fim_middle|>"),
    role("<|fim_suffix|>"),
    // Harmony
    role("<|start|>system"),
    role("<|start|>assistant"),
    role("<|start|>developer"),
    role("<|channel|>"),
    role("<|message|>"),
    role("<|constrain|>"),
    // Llama
    role("<|begin_of_text|>"),
    role("<|end_of_text|>"),
    role("<|start_header_id|>"),
    role("<|end_header_id|>"),
    role("<|eot_id|>"),
    role("<|eom_id|>"),
    role("<|header_start|>"),
    role("<|header_end|>"),
    role("<<SYS>>"),
    role("<</SYS>>"),
    role("[INST]").exact(),
    role("[/INST]").exact(),
    role("[SYSTEM_PROMPT]").exact(),
    role("[/SYSTEM_PROMPT]").exact(),
    // Phi, Zephyr, GLM
    role("<|system|>"),
    role("<|user|>"),
    role("<|assistant|>"),
    role("<|observation|>"),
    // Gemma
    role("<start_of_turn>"),
    role("<end_of_turn>"),
    // Command
    role("<|START_OF_TURN_TOKEN|>"),
    role("<|END_OF_TURN_TOKEN|>"),
    role("<|SYSTEM_TOKEN|>"),
    role("<|USER_TOKEN|>"),
    role("<|CHATBOT_TOKEN|>"),
    // DeepSeek
    role("<｜User｜>"),
    role("<｜Assistant｜>"),
    role("<｜System｜>"),
    role("<｜begin▁of▁sentence｜>"),
    role("<｜end▁of▁sentence｜>"),
    // ---- blocks that claim to be the system's
    block("<system_prompt>"),
    block("</system_prompt>"),
    block("<system-prompt>"),
    block("<system_message>"),
    block("<system-message>"),
    block("<system-reminder>"),
    block("</system-reminder>"),
    block("<system_reminder>"),
    block("<system_instructions>"),
    block("<system_instruction>"),
    block("[system message]"),
    block("[system override]"),
    block("BEGIN SYSTEM PROMPT"),
    block("END SYSTEM PROMPT"),
    block("BEGIN SYSTEM MESSAGE"),
    block("<system>").at_line_start(),
    block("</system>").at_line_start(),
    block("<IMPORTANT>").flag(),
    speaker("Human:"),
    speaker("Assistant:"),
    speaker("SYSTEM:"),
    speaker("[SYSTEM]:"),
    speaker("Instruction:"),
    // ---- calls, and answers to them
    call("<tool_call>"),
    call("</tool_call>"),
    call("<tool_calls>"),
    call("<tool_use>"),
    call("</tool_use>"),
    call("<tool_result>"),
    call("</tool_result>"),
    call("<tool_response>"),
    call("</tool_response>"),
    call("<function_calls>"),
    call("</function_calls>"),
    call("<function_call>"),
    call("<function_results>"),
    call("<function_result>"),
    call("<invoke name="),
    call("<parameter name=\"command\">").flag(),
    call("<|tool_call|>"),
    call("<|tool_calls_section_begin|>"),
    call("<|tool_call_begin|>"),
    call("<|tool_response|>"),
    call("<|python_tag|>"),
    call("<|action_start|>"),
    call("<｜tool▁calls▁begin｜>"),
    call("<｜tool▁call▁begin｜>"),
    call("<｜tool▁outputs▁begin｜>"),
    call("[TOOL_CALLS]").exact(),
    call("[TOOL_RESULTS]").exact(),
    call("[AVAILABLE_TOOLS]").exact(),
    json("{\"tool_calls\":"),
    json("\"tool_calls\": [{"),
    json("\"type\":\"tool_use\""),
    json("\"type\": \"tool_use\""),
];

impl Marker {
    const fn at_line_start(self) -> Marker {
        Marker { place: Place::LineStart, ..self }
    }

    const fn exact(self) -> Marker {
        Marker { letters: Letters::Exact, ..self }
    }

    const fn flag(self) -> Marker {
        Marker { action: Action::Flagged, ..self }
    }
}

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

//! Terminal escape sequences (ECMA-48), one character at a time.
//!
//! A sequence that is never finished ends with its line at the latest, so that it swallows nothing more.

/// A sequence that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Escape {
    form: Form,
    rule: &'static str,
    /// The number that an operating system command begins with.
    number: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// After ESC.
    Begun,
    /// After ESC and an intermediate character: one more is due.
    Charset,
    /// Parameters, until a final character.
    Control,
    /// The number of an operating system command.
    Number,
    /// A string (title, hyperlink, picture), until its terminator.
    String,
    /// In a string, after ESC.
    StringEscape,
}

/// What a character does to a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    More(Escape),
    /// This was its last character.
    Done(&'static str),
    /// It ended before this character.
    Before(&'static str),
}

/// What a sequence is called that does not come to its end.
pub(super) const UNFINISHED: &str = "unfinished";

pub(super) const RULES: [&str; 11] = [
    "apc",
    "clipboard",
    "colour",
    "control-sequence",
    "dcs",
    "escape",
    "hyperlink",
    "osc",
    "pm",
    "sos",
    "title",
];

impl Escape {
    /// The sequence that a character begins, if it does.
    pub(super) fn begun_by(character: char) -> Option<Escape> {
        let at = |form, rule| Some(Escape { form, rule, number: 0 });
        match character {
            '\u{1b}' => at(Form::Begun, "escape"),
            '\u{90}' => at(Form::String, "dcs"),
            '\u{98}' => at(Form::String, "sos"),
            '\u{9b}' => at(Form::Control, "control-sequence"),
            '\u{9d}' => at(Form::Number, "osc"),
            '\u{9e}' => at(Form::String, "pm"),
            '\u{9f}' => at(Form::String, "apc"),
            _ => None,
        }
    }

    /// What findings call it, as far as its first character tells.
    pub(super) fn rule(self) -> &'static str {
        self.rule
    }

    pub(super) fn step(self, character: char) -> Step {
        let to = |form| Step::More(Escape { form, ..self });
        // CAN and SUB break any sequence off; another introducer begins a new one in its place.
        if matches!(character, '\u{18}' | '\u{1a}') {
            return Step::Done(UNFINISHED);
        }
        let in_string = matches!(self.form, Form::Number | Form::String);
        if character == '\u{1b}' && in_string {
            return to(Form::StringEscape);
        }
        if let Some(escape) = Escape::begun_by(character) {
            return Step::More(escape);
        }
        match (self.form, character) {
            (Form::Begun | Form::StringEscape, '[' | ']' | 'P' | 'X' | '^' | '_') => {
                Step::More(introduced(character))
            }
            (Form::Begun | Form::Charset, ' '..='/') => to(Form::Charset),
            (Form::Begun | Form::Charset, '0'..='~') => Step::Done(self.rule),
            (Form::Control, ' '..='?') => to(Form::Control),
            (Form::Control, 'm') => Step::Done("colour"),
            (Form::Control, '@'..='~') => Step::Done(self.rule),
            (Form::StringEscape, '\\')
            | (Form::Number | Form::String | Form::StringEscape, '\u{7}' | '\u{9c}') => Step::Done(self.rule),
            (_, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') => Step::Before(UNFINISHED),
            (Form::Number, '0'..='9') => {
                let digit =
                    character.to_digit(10).and_then(|digit| u16::try_from(digit).ok()).unwrap_or_default();
                let number = self.number.saturating_mul(10).saturating_add(digit);
                Step::More(Escape { number, ..self })
            }
            (Form::Number, _) => Step::More(Escape { form: Form::String, rule: self.command(), ..self }),
            (Form::String | Form::StringEscape, _) => to(Form::String),
            (Form::Begun | Form::Charset | Form::Control, _) => Step::Before(UNFINISHED),
        }
    }

    fn command(self) -> &'static str {
        match self.number {
            0..=2 => "title",
            8 => "hyperlink",
            52 => "clipboard",
            _ => "osc",
        }
    }
}

/// The sequence that ESC and a character begin.
fn introduced(character: char) -> Escape {
    let (form, rule) = match character {
        '[' => (Form::Control, "control-sequence"),
        ']' => (Form::Number, "osc"),
        'P' => (Form::String, "dcs"),
        'X' => (Form::String, "sos"),
        '^' => (Form::String, "pm"),
        _ => (Form::String, "apc"),
    };
    Escape { form, rule, number: 0 }
}

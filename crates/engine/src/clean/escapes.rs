//! Terminal escape sequences (ECMA-48), taken out whole.

/// Where in a sequence we are.
enum State {
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character: one more is due.
    Charset,
    /// In a control sequence: parameters, until a final character.
    Control,
    /// In a string (title, hyperlink, picture): until its terminator, or the end of the line.
    String,
    /// In a string, after ESC.
    StringEscape,
}

/// The text without escape sequences.
pub(super) fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut state = State::Text;
    for character in text.chars() {
        state = match (state, character) {
            (State::Text | State::Charset, '\u{1b}') => State::Escape,
            (State::Text, '\u{9b}') | (State::Escape, '[') => State::Control,
            (State::Text, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}')
            | (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::String,
            (State::Escape, '\u{20}'..='\u{2f}') => State::Charset,
            (State::Escape, '\u{1b}') => State::Escape,
            (State::Control, '\u{20}'..='\u{3f}') => State::Control,
            (State::Control | State::Escape | State::Charset, '\u{30}'..='\u{7e}') => State::Text,
            (State::String, '\u{1b}') => State::StringEscape,
            (State::String | State::StringEscape, '\u{7}' | '\u{9c}') | (State::StringEscape, '\\') => {
                State::Text
            }
            // A sequence that is never finished does not swallow what comes after its line.
            (_, '\n') => {
                plain.push('\n');
                State::Text
            }
            (State::String | State::StringEscape, _) => State::String,
            (State::Text | State::Control | State::Escape | State::Charset, other) => {
                plain.push(other);
                State::Text
            }
        };
    }
    plain
}

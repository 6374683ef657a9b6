//! Canonical JSON again, slowly and from the standards alone: RFC 8259 for what is JSON, RFC 7493 for what everybody
//! reads the same, RFC 8785 and ECMA-262 for how it is written. Shares no code with what is tested against it.

use std::iter::Peekable;
use std::str::Chars;

/// The largest whole number of I-JSON.
const MOST: f64 = 9_007_199_254_740_991.0;

/// As deep as the tested parser goes.
const DEEPEST: usize = 127;

enum Json {
    Plain(&'static str),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// The canonical form of a text, if it has one.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let mut reader = Reader { rest: text.chars().peekable() };
    let value = reader.value(0)?;
    reader.space();
    if reader.rest.next().is_some() {
        return None;
    }
    let mut out = String::new();
    write(&value, &mut out);
    Some(out)
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn space(&mut self) {
        while self.rest.next_if(|c| matches!(c, ' ' | '\t' | '\n' | '\r')).is_some() {}
    }

    fn word(&mut self, word: &'static str) -> Option<Json> {
        word.chars().all(|c| self.rest.next() == Some(c)).then_some(Json::Plain(word))
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.space();
        match *self.rest.peek()? {
            'n' => self.word("null"),
            't' => self.word("true"),
            'f' => self.word("false"),
            '"' => self.text().map(Json::Text),
            '[' if depth < DEEPEST => self.list(depth + 1),
            '{' if depth < DEEPEST => self.object(depth + 1),
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.rest.next();
        let mut items = Vec::new();
        self.space();
        if self.rest.next_if_eq(&']').is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth)?);
            self.space();
            match self.rest.next()? {
                ',' => {}
                ']' => return Some(Json::List(items)),
                _ => return None,
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        self.rest.next();
        let mut members: Vec<(String, Json)> = Vec::new();
        self.space();
        if self.rest.next_if_eq(&'}').is_some() {
            return Some(Json::Object(members));
        }
        loop {
            self.space();
            self.rest.peek().filter(|c| **c == '"')?;
            let key = self.text()?;
            self.space();
            self.rest.next_if_eq(&':')?;
            let value = self.value(depth)?;
            if members.iter().any(|(known, _)| *known == key) {
                return None;
            }
            members.push((key, value));
            self.space();
            match self.rest.next()? {
                ',' => {}
                '}' => return Some(Json::Object(members)),
                _ => return None,
            }
        }
    }

    fn text(&mut self) -> Option<String> {
        self.rest.next();
        let mut units: Vec<u16> = Vec::new();
        loop {
            match self.rest.next()? {
                '"' => return String::from_utf16(&units).ok(),
                '\\' => match self.rest.next()? {
                    'b' => units.push(8),
                    't' => units.push(9),
                    'n' => units.push(10),
                    'f' => units.push(12),
                    'r' => units.push(13),
                    c @ ('"' | '\\' | '/') => units.push(c as u16),
                    'u' => {
                        let mut unit = 0;
                        for _ in 0..4 {
                            unit = unit * 16 + self.rest.next()?.to_digit(16)?;
                        }
                        units.push(u16::try_from(unit).ok()?);
                    }
                    _ => return None,
                },
                c if c < ' ' => return None,
                c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let mut token = String::new();
        token.extend(self.rest.next_if_eq(&'-'));
        match self.rest.next()? {
            '0' => token.push('0'),
            first @ '1'..='9' => {
                token.push(first);
                self.digits(&mut token);
            }
            _ => return None,
        }
        if self.rest.next_if_eq(&'.').is_some() {
            token.push('.');
            self.digits(&mut token).then_some(())?;
        }
        if self.rest.next_if(|c| matches!(c, 'e' | 'E')).is_some() {
            token.push('e');
            token.extend(self.rest.next_if(|c| matches!(c, '+' | '-')));
            self.digits(&mut token).then_some(())?;
        }
        let number: f64 = token.parse().ok()?;
        (number.abs() <= MOST).then_some(Json::Number(number))
    }

    fn digits(&mut self, token: &mut String) -> bool {
        let before = token.len();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            token.push(digit);
        }
        token.len() > before
    }
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Plain(word) => out.push_str(word),
        Json::Number(number) => out.push_str(&number_text(*number)),
        Json::Text(text) => write_text(text, out),
        Json::List(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut sorted: Vec<&(String, Json)> = members.iter().collect();
            sorted.sort_by_key(|(key, _)| key.encode_utf16().collect::<Vec<u16>>());
            out.push('{');
            for (place, (key, value)) in sorted.into_iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// As ECMA-262 writes a number (Number::toString): the fewest digits that read back as the same one.
fn number_text(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let sign = if number < 0.0 { "-" } else { "" };
    let size = number.abs();
    let (digits, exponent) = (1..=17)
        .map(|count| {
            let text = format!("{size:.*e}", count - 1);
            let (digits, exponent) = text.split_once('e').expect("it has an exponent");
            (digits.replace('.', ""), exponent.parse::<i32>().expect("it is a number"))
        })
        .find(|(digits, exponent)| {
            format!("{digits}e{}", exponent + 1 - digits.len() as i32).parse() == Ok(size)
        })
        .expect("17 digits are enough");
    let digits = digits.trim_end_matches('0');
    let (k, n) = (digits.len() as i32, exponent + 1);
    let written = if k <= n && n <= 21 {
        format!("{digits}{}", "0".repeat((n - k) as usize))
    } else if 0 < n && n <= 21 {
        let (whole, part) = digits.split_at(n as usize);
        format!("{whole}.{part}")
    } else if -6 < n && n <= 0 {
        format!("0.{}{digits}", "0".repeat(-n as usize))
    } else {
        let (first, more) = digits.split_at(1);
        let part = if more.is_empty() { String::new() } else { format!(".{more}") };
        format!("{first}{part}e{}{}", if n > 0 { "+" } else { "-" }, (n - 1).abs())
    };
    format!("{sign}{written}")
}

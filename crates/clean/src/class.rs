//! Sets of bytes that credentials are made of.

/// Which bytes belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// 0-9
    Digit,
    /// 0-9 a-f
    Hex,
    /// 0-9 a-f A-F
    AnyHex,
    /// A-Z 0-9
    Upper,
    /// A-Z 2-7
    Base32,
    /// a-z 0-9
    Lower,
    /// A-Z a-z
    Letter,
    /// A-Z a-z 0-9
    Alnum,
    /// and `_`
    Word,
    /// and `_` `-`
    Slug,
    /// and `_` `-` `.`
    Dotted,
    /// A-Z a-z 0-9 `+` `/`
    Base64,
    /// and `=`
    Padded,
    /// All of the above, and `~` `%`
    Opaque,
    /// What an address is written with
    Address,
    /// The lines of a key
    Key,
}

impl Class {
    /// How many there are.
    pub(super) const COUNT: usize = Class::Key as usize + 1;

    pub(super) fn has(self, byte: u8) -> bool {
        let alnum = byte.is_ascii_alphanumeric();
        match self {
            Class::Digit => byte.is_ascii_digit(),
            Class::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Class::AnyHex => byte.is_ascii_hexdigit(),
            Class::Upper => matches!(byte, b'0'..=b'9' | b'A'..=b'Z'),
            Class::Base32 => matches!(byte, b'2'..=b'7' | b'A'..=b'Z'),
            Class::Lower => matches!(byte, b'0'..=b'9' | b'a'..=b'z'),
            Class::Letter => byte.is_ascii_alphabetic(),
            Class::Alnum => alnum,
            Class::Word => alnum || byte == b'_',
            Class::Slug => alnum || matches!(byte, b'_' | b'-'),
            Class::Dotted => alnum || matches!(byte, b'_' | b'-' | b'.'),
            Class::Base64 => alnum || matches!(byte, b'+' | b'/'),
            Class::Padded => alnum || matches!(byte, b'+' | b'/' | b'='),
            Class::Opaque => alnum || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'/' | b'=' | b'~' | b'%'),
            Class::Address => {
                byte > b' '
                    && byte < 0x7f
                    && !matches!(byte, b'"' | b'\'' | b'<' | b'>' | b'`' | b')' | b'[' | b']' | b'\\')
            }
            Class::Key => alnum || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r'),
        }
    }

    /// How many bytes at the beginning belong to it.
    pub(super) fn run(self, bytes: &[u8]) -> usize {
        bytes.iter().position(|byte| !self.has(*byte)).unwrap_or(bytes.len())
    }

    /// The same, at most so many.
    pub(super) fn run_up_to(self, bytes: &[u8], most: usize) -> usize {
        self.run(bytes.get(..most.min(bytes.len())).unwrap_or_default())
    }

    /// How many bytes at the end belong to it, at most so many.
    pub(super) fn run_back(self, bytes: &[u8], most: usize) -> usize {
        bytes.iter().rev().take(most).position(|byte| !self.has(*byte)).unwrap_or(bytes.len().min(most))
    }
}

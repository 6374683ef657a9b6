//! Makes credentials that nobody issued: right in shape and checksum, and random for the rest.

/// Numbers that are the same in every run (splitmix64).
pub(crate) struct Random(pub(crate) u64);

const DIGITS: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_-+/";

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn of(&mut self, alphabet: &[u8], count: usize) -> String {
        (0..count).map(|_| char::from(alphabet[self.below(alphabet.len())])).collect()
    }

    fn class(&mut self, class: char, count: usize) -> String {
        let alphabet: Vec<u8> = match class {
            'A' => DIGITS[..62].to_vec(),
            'a' => [&DIGITS[..10], &DIGITS[36..62]].concat(),
            'h' => b"0123456789abcdef".to_vec(),
            'H' => b"0123456789abcdefABCDEF".to_vec(),
            'd' => DIGITS[..10].to_vec(),
            'U' => DIGITS[..36].to_vec(),
            'B' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".to_vec(),
            'L' => DIGITS[10..62].to_vec(),
            'w' => DIGITS[..63].to_vec(),
            's' => DIGITS[..64].to_vec(),
            'b' => [&DIGITS[..62], b"+/"].concat(),
            other => panic!("no class {other}"),
        };
        // Letters and digits at both ends, so that where it ends is plain.
        let ends: Vec<u8> = alphabet.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
        if count < 3 {
            return self.of(&ends, count);
        }
        format!("{}{}{}", self.of(&ends, 1), self.of(&alphabet, count - 2), self.of(&ends, 1))
    }

    /// A text after a template, and the part of it that is the credential.
    pub(crate) fn fill(&mut self, template: &str) -> String {
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let blank = after.split_once('}').filter(|(name, _)| is_blank(name));
            let Some((name, after)) = blank else {
                text.push('{');
                rest = after;
                continue;
            };
            rest = after;
            let made = match name.split_once(':') {
                Some(("crc62", count)) => {
                    let body = self.class('A', count.parse().unwrap());
                    format!("{body}{}", base62(crc32(body.as_bytes())))
                }
                Some(("crchex", count)) => {
                    let body = self.class('A', count.parse().unwrap());
                    let sum = crc32(format!("{text}{body}").as_bytes());
                    format!("{body}_{sum:08x}")
                }
                Some(("pem", title)) => self.pem(title),
                None if name == "jwt" => self.jwt(),
                None if name == "basic" => base64(format!("ci:{}", self.class('A', 14)).as_bytes()),
                None if name == "encodedpem" => base64(self.pem("RSA PRIVATE KEY").as_bytes()),
                _ => self.class(name.chars().next().unwrap(), name[1..].parse().unwrap()),
            };
            text.push_str(&made);
        }
        text + rest
    }

    fn pem(&mut self, title: &str) -> String {
        let lines: String = (0..12).map(|_| format!("{}\n", self.class('b', 64))).collect();
        format!("-----BEGIN {title}-----\n{lines}{}==\n-----END {title}-----", self.class('b', 42))
    }

    fn jwt(&mut self) -> String {
        let body = format!(r#"{{"sub":"{}","iat":1700000000}}"#, self.class('d', 10));
        let encoded =
            |text: &str| base64(text.as_bytes()).replace('+', "-").replace('/', "_").replace('=', "");
        format!("{}.{}.{}", encoded(r#"{"alg":"HS256","typ":"JWT"}"#), encoded(&body), self.class('s', 43))
    }
}

/// Whether braces hold the name of something to be made, and are not braces of the text.
fn is_blank(name: &str) -> bool {
    let counted =
        name.len() > 1 && name.is_char_boundary(1) && name[1..].bytes().all(|byte| byte.is_ascii_digit());
    counted
        || name.starts_with("crc")
        || name.starts_with("pem:")
        || ["jwt", "basic", "encodedpem"].contains(&name)
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    let alphabet: Vec<u8> = [&DIGITS[10..36], &DIGITS[36..62], &DIGITS[..10], b"+/"].concat();
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let value = usize::try_from(word >> (18 - 6 * digit) & 63).unwrap();
            text.push(if digit > three.len() { '=' } else { char::from(alphabet[value]) });
        }
    }
    text
}

fn base62(mut number: u32) -> String {
    let mut digits = [b'0'; 6];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[usize::try_from(number % 62).unwrap()];
        number /= 62;
    }
    String::from_utf8(digits.to_vec()).unwrap()
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 },
        )
    })
}

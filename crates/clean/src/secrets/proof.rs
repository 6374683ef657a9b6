//! What tells a credential from something of its shape: mixture, checksums, structure.

use super::super::decode::from_base64;

/// How much is looked at to judge how mixed something is, in bytes.
const MOST_JUDGED: usize = 128;

/// How mixed a text is, in hundredths of a bit a byte (Shannon).
pub(crate) fn mixture(bytes: &[u8]) -> u32 {
    let bytes = bytes.get(..MOST_JUDGED.min(bytes.len())).unwrap_or_default();
    let mut counts = [0_u8; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count = count.saturating_add(1);
        }
    }
    let length = bytes.len() as f32;
    let share = |count: &u8| {
        let part = f32::from(*count) / length;
        -part * part.log2()
    };
    let bits: f32 = counts.iter().filter(|count| **count > 0).map(share).sum();
    (bits * 100.0) as u32
}

/// Whether it is as mixed as something random of its length.
pub(crate) fn looks_random(bytes: &[u8]) -> bool {
    let least = match bytes.len() {
        0..12 => 220,
        12..20 => 260,
        20..40 => 300,
        _ => 320,
    };
    mixture(bytes) >= least && !is_placeholder(bytes)
}

/// Whether it is something that documents write in place of a credential.
pub(crate) fn is_placeholder(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 15] = [
        b"example",
        b"xxxx",
        b"00000000",
        b"placeholder",
        b"redacted",
        b"changeme",
        b"12345678",
        b"abcdefgh",
        b"your_",
        b"your-",
        b"dummy",
        b"****",
        b"....",
        b"insert",
        b"masked",
    ];
    let bytes = bytes.get(..MOST_JUDGED.min(bytes.len())).unwrap_or_default();
    WORDS.iter().any(|word| bytes.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word)))
}

/// Whether the last six are the checksum of the others, in base 62.
pub(crate) fn has_crc62(body: &[u8]) -> bool {
    let Some((random, sum)) = body.len().checked_sub(6).and_then(|at| body.split_at_checked(at)) else {
        return false;
    };
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'Z' => Some(byte - b'A' + 10),
        b'a'..=b'z' => Some(byte - b'a' + 36),
        _ => None,
    };
    let number = sum.iter().try_fold(0_u64, |sum, byte| Some(sum * 62 + u64::from(digit(byte)?)));
    number == Some(u64::from(crc32(random)))
}

/// Whether the last eight are the checksum of what stands before the last `_`, in hexadecimal.
pub(crate) fn has_crc_hex(whole: &[u8]) -> bool {
    let Some((rest, sum)) = whole.len().checked_sub(9).and_then(|at| whole.split_at_checked(at)) else {
        return false;
    };
    std::str::from_utf8(sum.get(1..).unwrap_or_default())
        .is_ok_and(|sum| u32::from_str_radix(sum, 16) == Ok(crc32(rest)))
}

/// Whether the header of a token says how it is signed.
pub(crate) fn is_token_header(header: &[u8]) -> bool {
    let text = from_base64(header.get(..400.min(header.len())).unwrap_or_default());
    let says = |word: &[u8]| text.windows(word.len()).any(|part| part == word);
    text.starts_with(b"{") && (says(b"\"alg\"") || says(b"\"enc\"") || says(b"\"JWT\""))
}

/// Whether the digits of a card number agree with its last one.
pub(crate) fn has_luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| {
            let value = u32::from(digit.wrapping_sub(b'0'));
            match (at % 2, value * 2) {
                (0, _) => value,
                (_, double) if double > 9 => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
}

/// CRC-32 as zip, GitHub and npm have it.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_everybody_else() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn a_card_number_is_told_from_any_other() {
        assert!(has_luhn(b"4242424242424242") && !has_luhn(b"4242424242424241") && !has_luhn(b"0"));
    }
}

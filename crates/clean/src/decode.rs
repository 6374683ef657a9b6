//! Reads what is written as base64, hexadecimal digits or percent escapes, as far as it goes.

/// What base64 of either alphabet stands for, up to the first byte that is none.
pub(super) fn from_base64(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => break,
        };
        bits = (bits << 6 | u32::from(value)) & 0x00ff_ffff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

/// What pairs of hexadecimal digits stand for, up to the first that are none.
pub(super) fn from_hex(text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.chunks_exact(2).map_while(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// What a part of an address stands for.
pub(super) fn from_percent(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (first, after) {
            (b'%', [high, low, tail @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.extend(from_hex(&[*high, *low]));
                rest = tail;
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(*first),
        }
    }
    bytes
}

/// Whether bytes read as text: nearly all of them are printable.
pub(super) fn reads_as_text(bytes: &[u8]) -> bool {
    let printable = bytes.iter().filter(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r')).count();
    printable * 20 >= bytes.len() * 19
}

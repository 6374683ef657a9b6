//! Sizes as people write them: `512m`, `2G`, `65536`.

/// Reads a number of bytes with an optional unit, powers of 1024.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.strip_prefix(digits).unwrap_or_default().to_ascii_lowercase();
    let shift = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" | "ki" => 10,
        "m" | "mb" | "mib" | "mi" => 20,
        "g" | "gb" | "gib" | "gi" => 30,
        "t" | "tb" | "tib" | "ti" => 40,
        _ => return Err(format!("`{unit}` is not a unit; use k, m, g or t")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size such as 512m or 2g"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse("65536"), Ok(65_536));
        assert_eq!(parse("512m"), Ok(512 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        for nonsense in ["", "m", "-1", "1.5g", "5x", "99999999999999999999", "18446744073709551615k"] {
            assert!(parse(nonsense).is_err(), "{nonsense}");
        }
    }
}

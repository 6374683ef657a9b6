//! Amounts as people write them: `512m`, `2G`, `1.5`.

use std::time::Duration;

/// Reads a number of bytes with an optional unit, powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
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

/// Reads a number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a number of seconds such as 30 or 0.5");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number).map_err(|_| wrong())
}

/// Reads how long something lasts: `90s`, `30m`, `2h`, `1d`, or several of them: `1h30m`.
pub(crate) fn lasting(text: &str) -> Option<Duration> {
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at_checked(digits)?;
        let (unit, after) = after.split_at_checked(1)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(seconds)?)?;
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::from_secs(total))
}

/// Reads a number of processors, in thousandths of one.
pub(crate) fn thousandths(text: &str) -> Result<u32, String> {
    let wrong = || format!("`{text}` is not a number of processors such as 2 or 0.5");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    let thousandths = (number * 1000.0).round();
    // NaN is in no range.
    if (0.0..=1e9).contains(&thousandths) { Ok(thousandths as u32) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(bytes("65536"), Ok(65_536));
        assert_eq!(bytes("512m"), Ok(512 << 20));
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(thousandths("1.5"), Ok(1500));
        for nonsense in ["-1", "nan", "inf", "soon", ""] {
            assert!(seconds(nonsense).is_err() && thousandths(nonsense).is_err(), "{nonsense}");
        }
        assert_eq!(lasting("1h30m"), Some(Duration::from_secs(5400)));
        assert_eq!(lasting("90s"), Some(Duration::from_secs(90)));
        for nonsense in ["", "h", "5", "-1h", "1.5h", "2w", "99999999999999999999h", "5\u{fc}"] {
            assert_eq!(lasting(nonsense), None, "{nonsense}");
        }
        for nonsense in ["", "m", "-1", "1.5g", "5x", "99999999999999999999", "18446744073709551615k"] {
            assert!(bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}

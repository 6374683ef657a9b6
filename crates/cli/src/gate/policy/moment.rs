//! Moments as people type them.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};

use crate::amount;

/// What is taken for a moment.
pub(crate) const FORMS: &str = "a moment is `2026-11-01`, `2026-11-01 09:30:00` or `2026-11-01T09:30:00Z`, in UTC, or `7d`, `12h` or `30m` ago";

/// A moment in milliseconds since 1970. What is so long ago is told from now.
pub(super) fn moment(text: &str, now: i64) -> Option<i64> {
    ago(text, now).or_else(|| written(text))
}

fn ago(text: &str, now: i64) -> Option<i64> {
    let long = amount::lasting(text)?;
    now.checked_sub(i64::try_from(long.as_millis()).ok()?)
}

fn written(text: &str) -> Option<i64> {
    if let Ok(moment) = DateTime::parse_from_rfc3339(text) {
        return Some(moment.timestamp_millis());
    }
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN));
    let moment = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").or_else(|_| day()).ok()?;
    Some(moment.and_utc().timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_day_a_time_or_so_long_ago_and_nothing_else() {
        let now = 1_000_000_000_000;
        assert_eq!(moment("1970-01-02", now), Some(86_400_000));
        assert_eq!(moment("1970-01-01 00:00:01", now), Some(1000));
        assert_eq!(moment("1970-01-01T01:00:00+01:00", now), Some(0));
        assert_eq!(moment("2d", now), Some(now - 2 * 86_400_000));
        assert_eq!(moment("30m", now), Some(now - 1_800_000));
        for text in ["", "d", "-1d", "+1h", "1w", "yesterday", "99999999999999999999d", "1970-13-01", "é"] {
            assert_eq!(moment(text, now), None, "{text}");
        }
    }
}

//! Stretches of the calendar, by UTC: days, weeks that begin on Monday, months.
//!
//! Knows no clock: the time is handed in.

use std::fmt;

use serde::Serialize;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// Days from 0000-03-01 to 1970-01-01, in the calendar that everybody has now.
const DAYS_BEFORE_1970: i64 = 719_468;
/// The calendar repeats itself after so many days, which are 400 years.
const DAYS_OF_400_YEARS: i64 = 146_097;

/// How often a budget begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// Each day.
    Daily,
    /// Each Monday, as ISO 8601 has weeks.
    Weekly,
    /// On the first of each month.
    Monthly,
}

impl Period {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Period::Daily => "daily",
            Period::Weekly => "weekly",
            Period::Monthly => "monthly",
        }
    }

    /// The day on which the period began that is now, in days since 1970.
    pub fn began(self, now: i64) -> i64 {
        let today = day_of(now);
        match self {
            Period::Daily => today,
            Period::Weekly => today - days_since_monday(today),
            Period::Monthly => today - (Date::of(today).day - 1),
        }
    }

    /// When the next one begins, in milliseconds since 1970.
    pub fn ends(self, now: i64) -> i64 {
        let began = self.began(now);
        let next = match self {
            Period::Daily => began + 1,
            Period::Weekly => began + 7,
            // A month has 28 to 31 days, so 31 after its first are one of the first four of the next.
            Period::Monthly => {
                let within_next = began + 31;
                within_next - (Date::of(within_next).day - 1)
            }
        };
        next.saturating_mul(DAY_MS)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The day of a moment, in days since 1970.
pub fn day_of(milliseconds: i64) -> i64 {
    milliseconds.div_euclid(DAY_MS)
}

/// How many days a day is after the Monday of its week. 1970 began on a Thursday.
pub(crate) fn days_since_monday(day: i64) -> i64 {
    (day + 3).rem_euclid(7)
}

/// A day of the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    year: i64,
    month: i64,
    day: i64,
}

impl Date {
    /// The date of a day since 1970. Years are counted from March, so that a leap day is the last of its year.
    pub(crate) fn of(day: i64) -> Date {
        let shifted = day + DAYS_BEFORE_1970;
        let era = shifted.div_euclid(DAYS_OF_400_YEARS);
        let of_era = shifted.rem_euclid(DAYS_OF_400_YEARS);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Date {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
        }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn began(period: Period, now: i64) -> String {
        Date::of(period.began(now)).to_string()
    }

    fn ends(period: Period, now: i64) -> String {
        Date::of(day_of(period.ends(now))).to_string()
    }

    #[test]
    fn periods_are_those_of_the_calendar_by_utc() {
        // 2026-11-16 is a Monday.
        let monday = 1_794_787_200_000;
        assert_eq!(Date::of(day_of(monday)).to_string(), "2026-11-16");
        for now in [monday, monday + DAY_MS - 1] {
            assert_eq!(
                (began(Period::Daily, now), ends(Period::Daily, now)),
                ("2026-11-16".into(), "2026-11-17".into())
            );
        }
        for days in 0..7 {
            let now = monday + days * DAY_MS;
            assert_eq!(
                (began(Period::Weekly, now), ends(Period::Weekly, now)),
                ("2026-11-16".into(), "2026-11-23".into())
            );
            assert_eq!(
                (began(Period::Monthly, now), ends(Period::Monthly, now)),
                ("2026-11-01".into(), "2026-12-01".into())
            );
        }
        assert_eq!(began(Period::Weekly, monday - 1), "2026-11-09");
    }

    #[test]
    fn a_week_goes_on_over_the_end_of_a_year_and_february_has_its_leap_day() {
        // 2027-01-01 is a Friday of the week that began on 2026-12-28.
        let new_year = 1_798_761_600_000;
        assert_eq!(began(Period::Weekly, new_year), "2026-12-28");
        assert_eq!(
            (began(Period::Monthly, new_year), ends(Period::Monthly, new_year)),
            ("2027-01-01".into(), "2027-02-01".into())
        );
        // 2028-02-29.
        let leap_day = 1_835_395_200_000;
        assert_eq!(Date::of(day_of(leap_day)).to_string(), "2028-02-29");
        assert_eq!(
            (began(Period::Monthly, leap_day), ends(Period::Monthly, leap_day)),
            ("2028-02-01".into(), "2028-03-01".into())
        );
    }

    proptest! {
        #[test]
        fn every_moment_is_in_one_period_and_the_next_begins_where_it_ends(now in -1_000_000_000_000_i64..100_000_000_000_000) {
            for period in [Period::Daily, Period::Weekly, Period::Monthly] {
                let (began, ends) = (period.began(now) * DAY_MS, period.ends(now));
                prop_assert!(began <= now && now < ends);
                prop_assert_eq!(period.began(began) * DAY_MS, began);
                prop_assert_eq!(period.began(ends) * DAY_MS, ends);
                prop_assert_eq!(period.ends(began), ends);
            }
        }
    }
}

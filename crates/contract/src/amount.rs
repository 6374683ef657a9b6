//! Amounts of money and what they are counted for: exact, and never less than they are.
//!
//! # Invariants
//! - No amount is a floating-point number: two are equal or not, and sums are what they should be.
//! - What is finer than a millionth is rounded up, and what is too large stays too large.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::id::{AgentName, TaskName, ToolName};

/// The most that can be given as an amount, in millionths: as far as every JSON number is exact in them.
const MOST: u64 = 9_000_000_000 * MILLIONTHS;

const MILLIONTHS: u64 = 1_000_000;

/// How many digits millionths have.
const DIGITS: usize = 6;

/// An amount, in millionths, so that two are equal or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(u64);

/// Why a number is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{number} is not an amount from 0 to 9000000000")]
pub struct AmountError {
    number: String,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// The most that one call can be said to be about, or to cost.
    pub const MOST: Amount = Amount(MOST);

    /// Reads a number of units as it is written in decimal. What is finer than a millionth is rounded up.
    pub fn parse(number: f64) -> Result<Amount, AmountError> {
        let error = || AmountError { number: number.to_string() };
        if !number.is_finite() || number < 0.0 {
            return Err(error());
        }
        // The shortest text that means this number: `0.07` is seven hundredths, whatever it is in binary.
        Amount::read(&number.abs().to_string()).filter(|amount| amount.0 <= MOST).ok_or_else(error)
    }

    /// Reads digits, with or without a point.
    fn read(text: &str) -> Option<Amount> {
        let (units, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
        if units.is_empty() || !is_number(units) || !is_number(fraction) {
            return None;
        }
        let (kept, finer) = fraction.split_at(fraction.len().min(DIGITS));
        let parts: u64 = format!("{kept:0<DIGITS$}").parse().ok()?;
        let rounded = u64::from(finer.bytes().any(|digit| digit != b'0'));
        let units: u64 = units.parse().ok()?;
        units.checked_mul(MILLIONTHS)?.checked_add(parts)?.checked_add(rounded).map(Amount)
    }

    /// So many millionths.
    pub fn of_millionths(millionths: u64) -> Amount {
        Amount(millionths)
    }

    /// How many millionths it is.
    pub fn millionths(self) -> u64 {
        self.0
    }

    /// Both together. What is too large to be told stays the largest there is.
    #[must_use]
    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    /// It, taken `times` out of `each` times: the price of a second, for so many microseconds. Rounded up, and at most
    /// [`Amount::MOST`].
    #[must_use]
    pub fn for_each(self, each: u64, times: u64) -> Amount {
        let product = u128::from(self.0).saturating_mul(u128::from(times));
        let whole = product.div_ceil(u128::from(each.max(1)));
        Amount(u64::try_from(whole).unwrap_or(MOST).min(MOST))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, rest) = (self.0 / MILLIONTHS, self.0 % MILLIONTHS);
        match rest {
            0 => write!(formatter, "{units}"),
            rest => formatter.write_str(format!("{units}.{rest:06}").trim_end_matches('0')),
        }
    }
}

impl JsonSchema for Amount {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+([.][0-9]{1,6})?$" })
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        let text = String::deserialize(deserializer)?;
        Amount::read(&text).ok_or_else(|| de::Error::custom("not an amount"))
    }
}

/// What a call costs, by the prices of the gate that ran it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// In which currency.
    pub currency: String,
    /// The most that it could have cost, which was reserved before it began.
    pub quoted: Amount,
    /// What it did cost, by what the gate has measured; nothing if nobody knows, and then all that was reserved counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Amount>,
    /// What the tool says that it cost. It counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported: Option<Amount>,
}

/// What is added up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Calls.
    Calls,
    /// What they cost, in millionths.
    Cost,
    /// What this argument of theirs says, in millionths.
    Argument(String),
}

impl fmt::Display for Measure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Calls => formatter.write_str("calls"),
            Measure::Cost => formatter.write_str("cost"),
            Measure::Argument(path) => write!(formatter, "argument:{path}"),
        }
    }
}

/// Of which calls something is added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pot {
    /// What of them.
    pub measure: Measure,
    /// Of one agent; nothing means of all together.
    pub agent: Option<AgentName>,
    /// For one task.
    pub task: OfTask,
    /// Of these tools; nothing means of all.
    pub tools: Option<Vec<ToolName>>,
    /// From this day on, in days since 1970, by UTC.
    pub since: i64,
}

/// For which task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfTask {
    /// Whichever.
    Any,
    /// For none that was named.
    Unnamed,
    /// For this one.
    Named(TaskName),
}

/// What was added up, in calls or in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// By calls that have ended.
    pub spent: u64,
    /// For calls that have not.
    pub reserved: u64,
}

impl Tally {
    /// Both together.
    pub fn taken(self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_what_was_written_to_the_millionth() {
        for (number, text) in [
            (0.07, "0.07"),
            (1.1, "1.1"),
            (8.2, "8.2"),
            (0.57, "0.57"),
            (1.005, "1.005"),
            (0.1 + 0.2, "0.300001"),
        ] {
            assert_eq!(Amount::parse(number).unwrap().to_string(), text);
        }
        assert_eq!(Amount::parse(0.000_000_1).unwrap(), Amount(1));
        assert_eq!(Amount::parse(9_000_000_000.0).unwrap(), Amount::MOST);
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for number in [-0.01, f64::NAN, f64::INFINITY, 9_000_000_000.5, 1e300] {
            assert!(Amount::parse(number).is_err(), "{number}");
        }
        assert_eq!(Amount::parse(-0.0).unwrap(), Amount::ZERO);
    }

    #[test]
    fn a_price_is_rounded_up_and_never_wraps() {
        let price = Amount::parse(0.0002).unwrap();
        assert_eq!(price.for_each(1_000_000, 1).to_string(), "0.000001");
        assert_eq!(price.for_each(1_000_000, 30_000_000).to_string(), "0.006");
        assert_eq!(Amount::MOST.for_each(1, u64::MAX), Amount::MOST);
        assert_eq!(Amount(u64::MAX).plus(Amount(1)), Amount(u64::MAX));
    }

    #[test]
    fn an_amount_is_read_as_it_is_written() {
        for text in ["0", "0.000001", "12.5", "9000000000"] {
            let read: Amount = serde_json::from_value(text.into()).unwrap();
            assert_eq!(read.to_string(), text);
        }
        assert!(serde_json::from_value::<Amount>("-1".into()).is_err());
    }
}

//! What calls cost: a price table, the most that a call can cost, and what one did.
//!
//! Who measures is not known here.
//!
//! # Invariants
//! - Of several prices for a tool the dearest holds, each for its own unit.
//! - What is measured is priced exactly; parts of a unit are rounded up to a millionth.

use contract::{Amount, ToolName};
use serde::Serialize;

use crate::grant::GrantLimits;
use crate::settings::ToolGlob;

const MICROSECONDS: u64 = 1_000_000;
const GIGABYTE: u64 = 1_000_000_000;

/// What calls cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PriceSettings {
    /// In which currency all prices and budgets are. Empty where there are no prices.
    pub currency: String,
    /// For some tools each.
    pub tools: Vec<ToolPrice>,
}

/// What calls of some tools cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolPrice {
    /// Which tools.
    pub tools: ToolGlob,
    /// How much.
    pub price: Price,
}

/// What one call costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Price {
    /// By itself.
    pub call: Amount,
    /// Each second that it takes.
    pub wall_second: Amount,
    /// Each second of a processor.
    pub cpu_second: Amount,
    /// Each gigabyte, which is a thousand million bytes, that it sends.
    pub gigabyte_out: Amount,
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// How long it took, in microseconds.
    pub wall_micros: u64,
    /// Processor time, in microseconds.
    pub cpu_micros: u64,
    /// Bytes that it sent.
    pub bytes_out: u64,
}

impl PriceSettings {
    /// Whether nothing has a price.
    pub(crate) fn is_none(&self) -> bool {
        *self == PriceSettings::default()
    }

    /// The price of a tool; nothing if it has none.
    pub fn of(&self, tool: &ToolName) -> Option<Price> {
        let named = self.tools.iter().filter(|priced| priced.tools.matches(tool)).map(|priced| priced.price);
        named.reduce(Price::dearest)
    }
}

impl Price {
    fn dearest(self, other: Price) -> Price {
        Price {
            call: self.call.max(other.call),
            wall_second: self.wall_second.max(other.wall_second),
            cpu_second: self.cpu_second.max(other.cpu_second),
            gigabyte_out: self.gigabyte_out.max(other.gigabyte_out),
        }
    }

    /// What a call costs that used so much, at most [`Amount::MOST`].
    pub fn for_use(self, used: Used) -> Amount {
        let parts = [
            self.call,
            self.wall_second.for_each(MICROSECONDS, used.wall_micros),
            self.cpu_second.for_each(MICROSECONDS, used.cpu_micros),
            self.gigabyte_out.for_each(GIGABYTE, used.bytes_out),
        ];
        parts.into_iter().fold(Amount::ZERO, Amount::plus).min(Amount::MOST)
    }

    /// The most that a call with these limits can cost that may send so many bytes.
    pub(crate) fn at_most(self, limits: &GrantLimits, bytes_out: u64) -> Amount {
        let wall_micros = u64::try_from(limits.timeout.as_micros()).unwrap_or(u64::MAX);
        let cpu_micros = most_processor_time(wall_micros, limits.cpu_millis.into());
        self.for_use(Used { wall_micros, cpu_micros, bytes_out })
    }
}

/// What a run can have had of processors in so much time, in microseconds, if it was granted so many thousandths of one. Part
/// of one counts whole: where nobody holds it to the part, it has all of it.
pub fn most_processor_time(wall_micros: u64, granted_millis: u64) -> u64 {
    wall_micros.saturating_mul(granted_millis.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn amount(number: f64) -> Amount {
        Amount::parse(number).unwrap()
    }

    fn shell() -> Price {
        Price {
            call: amount(0.01),
            wall_second: amount(0.0002),
            cpu_second: amount(0.0005),
            gigabyte_out: amount(0.09),
        }
    }

    #[test]
    fn a_call_costs_what_it_used() {
        let used = Used { wall_micros: 2_500_000, cpu_micros: 1_000_001, bytes_out: 1 };
        // 0.01 + 0.0005 + 0.000501 + 0.000001: parts of a millionth are whole ones.
        assert_eq!(shell().for_use(used).to_string(), "0.011002");
        assert_eq!(shell().for_use(Used::default()).to_string(), "0.01");
        let all = Used { wall_micros: u64::MAX, cpu_micros: u64::MAX, bytes_out: u64::MAX };
        let dear = Price { call: Amount::MOST, wall_second: Amount::MOST, ..shell() };
        assert_eq!(dear.for_use(all), Amount::MOST);
    }

    #[test]
    fn a_quote_is_for_all_that_the_limits_let_a_call_use() {
        let limits =
            GrantLimits { timeout: Duration::from_secs(30), cpu_millis: 2000, ..GrantLimits::default() };
        // 0.01 + 30 × 0.0002 + 60 × 0.0005 + 0.09
        assert_eq!(shell().at_most(&limits, 1_000_000_000).to_string(), "0.136");
        let more_than_one = GrantLimits { cpu_millis: 1001, ..limits };
        assert_eq!(shell().at_most(&more_than_one, 1_000_000_000).to_string(), "0.136");
    }

    #[test]
    fn of_several_prices_the_dearest_holds_for_each_unit() {
        let priced = |tools, price| ToolPrice { tools: ToolGlob::parse(tools).unwrap(), price };
        let settings = PriceSettings {
            currency: "USD".to_owned(),
            tools: vec![
                priced("*", Price { call: amount(0.5), ..Price::default() }),
                priced("shell", Price { call: amount(0.1), cpu_second: amount(1.0), ..Price::default() }),
            ],
        };
        let of = |tool| settings.of(&ToolName::parse(tool).unwrap()).unwrap();
        assert_eq!(of("shell"), Price { call: amount(0.5), cpu_second: amount(1.0), ..Price::default() });
        assert_eq!(of("fs.read"), Price { call: amount(0.5), ..Price::default() });
        assert_eq!(PriceSettings::default().of(&ToolName::parse("shell").unwrap()), None);
    }
}

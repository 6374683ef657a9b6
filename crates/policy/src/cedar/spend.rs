//! What rules see of money: what the agent has spent, and what the call can cost.
//!
//! Who counts is not known here. What nobody has told is not shown, so a rule that asks for it fails, and denies.

use cedar_policy::RestrictedExpression;
use contract::Amount;

/// Amounts in the currency of the prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spend {
    /// What the agent has spent today, and what is reserved for its calls.
    pub day: Amount,
    /// The same since Monday.
    pub week: Amount,
    /// The same since the first of the month.
    pub month: Amount,
}

impl Spend {
    pub(super) fn shown(&self) -> Result<RestrictedExpression, String> {
        let members = [("day", self.day), ("week", self.week), ("month", self.month)];
        let members = members.map(|(name, amount)| (name.to_owned(), shown(amount)));
        RestrictedExpression::new_record(members).map_err(|error| error.to_string())
    }
}

/// The millionths in the last place of Cedar's decimals.
const LAST_PLACE: u64 = 100;
const PLACES: u64 = 10_000;

/// An amount as a decimal: never less than it is.
pub(super) fn shown(amount: Amount) -> RestrictedExpression {
    RestrictedExpression::new_decimal(decimal(amount))
}

fn decimal(amount: Amount) -> String {
    let places = amount.millionths().div_ceil(LAST_PLACE);
    format!("{}.{:04}", places / PLACES, places % PLACES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_never_shown_as_less_than_it_is() {
        let told = |millionths| decimal(Amount::of_millionths(millionths));
        assert_eq!(
            [told(0), told(1), told(1_500_000), told(1_500_001)],
            ["0.0000", "0.0001", "1.5000", "1.5001"]
        );
        assert_eq!(told(u64::MAX), "18446744073709.5517", "which Cedar has decimals for");
    }
}

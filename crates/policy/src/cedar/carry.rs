//! Carries a call's arguments over into Cedar's values.
//!
//! | JSON | Cedar |
//! |---|---|
//! | a whole number that fits 64 bits | long |
//! | another number, where four digits after the point are all of it | decimal |
//! | a text, `true`, `false` | string, bool |
//! | a list whose items are of one kind | set |
//! | an object | record |
//! | `null` | left out, as if the argument were missing |
//!
//! Where the schema of the tool is known and says `number`, whole numbers are decimals, too, so that a rule sees one kind.
//!
//! What else there is cannot be carried over, and neither can what holds it.

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Number, Value};

use super::types::Kind;

/// Arguments, as far as rules can be shown them.
pub(super) struct Carried {
    /// Those that could be carried over, by their names.
    pub(super) values: Vec<(String, RestrictedExpression)>,
    /// The names of those that could not.
    pub(super) left_out: Vec<String>,
}

/// Carries arguments over, as the kind says that their tool takes, where that is known.
pub(super) fn arguments(values: &Value, of: Option<&Kind>) -> Carried {
    let mut carried = Carried { values: Vec::new(), left_out: Vec::new() };
    for (name, value) in values.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match carry(value, member(of, name)) {
            Some(value) => carried.values.push((name.clone(), value)),
            None => carried.left_out.push(name.clone()),
        }
    }
    carried
}

fn member<'a>(of: Option<&'a Kind>, name: &str) -> Option<&'a Kind> {
    of?.member(name).map(|member| &member.kind)
}

fn carry(value: &Value, of: Option<&Kind>) -> Option<RestrictedExpression> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(RestrictedExpression::new_bool(*value)),
        Value::String(text) => Some(RestrictedExpression::new_string(text.clone())),
        Value::Number(number) => carry_number(number, of),
        Value::Array(items) => carry_list(items, of),
        Value::Object(members) => carry_object(members, of),
    }
}

fn carry_object(members: &Map<String, Value>, of: Option<&Kind>) -> Option<RestrictedExpression> {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    let carried: Option<Vec<_>> =
        given.map(|(name, value)| Some((name.clone(), carry(value, member(of, name))?))).collect();
    RestrictedExpression::new_record(carried?).ok()
}

/// An item that is left out could be the one that a rule looks for.
fn carry_list(items: &[Value], of: Option<&Kind>) -> Option<RestrictedExpression> {
    let of = match of {
        Some(Kind::Set(item)) => Some(item.as_ref()),
        _ => None,
    };
    let mut kinds = items.iter().map(|item| kind(item, of));
    let first = kinds.next();
    if kinds.any(|kind| Some(kind) != first) {
        return None;
    }
    let carried: Option<Vec<_>> = items.iter().map(|item| carry(item, of)).collect();
    carried.map(RestrictedExpression::new_set)
}

fn kind(value: &Value, of: Option<&Kind>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::String(_) => 2,
        Value::Number(number) if whole(number).is_some() && of != Some(&Kind::Decimal) => 3,
        Value::Number(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

fn carry_number(number: &Number, of: Option<&Kind>) -> Option<RestrictedExpression> {
    match whole(number) {
        Some(whole) if of == Some(&Kind::Decimal) => (whole.unsigned_abs() < MOST_DECIMAL)
            .then(|| RestrictedExpression::new_decimal(format!("{whole}.0"))),
        Some(whole) => Some(RestrictedExpression::new_long(whole)),
        None => decimal(number.as_f64()?).map(RestrictedExpression::new_decimal),
    }
}

/// From here on Cedar has no decimals.
const MOST_DECIMAL: u64 = 922_337_203_685_477;

/// `1`, and `1.0`, which JSON does not tell apart.
fn whole(number: &Number) -> Option<i64> {
    /// From here on not every whole number is one that can be written.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let as_float = || {
        let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < EXACT)?;
        Some(float as i64)
    };
    number.as_i64().or_else(as_float)
}

/// Such as `12.5`: four digits after the point at most, or it would be another number.
fn decimal(number: f64) -> Option<String> {
    let text = format!("{number}");
    let (before, after) = text.split_once('.')?;
    let is_in_range = before.trim_start_matches('-').parse::<u64>().is_ok_and(|whole| whole < MOST_DECIMAL);
    (after.len() <= 4 && is_in_range).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> Option<String> {
        carry(&value, None).map(|value| format!("{:?}", value.as_ref()))
    }

    #[test]
    fn what_is_carried_over_is_the_same_and_what_would_be_another_is_not() {
        for value in [
            json!(1),
            json!(-5),
            json!("x"),
            json!(true),
            json!([]),
            json!([1, 2]),
            json!({ "a": { "b": 1.25 } }),
        ] {
            assert!(shown(value.clone()).is_some(), "{value}");
        }
        for value in [
            json!(null),
            json!(1.23456),
            json!(u64::MAX),
            json!(1e300),
            json!([1, "1"]),
            json!(999_999_999_999_999.5),
            json!([1, 1.5]),
            json!([null]),
            json!({ "a": [{ "b": 1e300 }] }),
        ] {
            assert_eq!(shown(value.clone()), None, "{value}");
        }
        assert_eq!(whole(json!(7.0).as_number().unwrap()), Some(7));
        assert_eq!(decimal(0.1).as_deref(), Some("0.1"));
        assert_eq!(decimal(-2.0001).as_deref(), Some("-2.0001"));
    }

    #[test]
    fn an_argument_of_null_is_missing_and_one_that_cannot_be_shown_is_named() {
        let Carried { values, left_out } =
            arguments(&json!({ "a": null, "b": 1e300, "c": { "d": null } }), None);
        assert_eq!(values.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["c"]);
        assert_eq!(left_out, ["b"]);
    }

    #[test]
    fn what_a_tool_takes_as_a_number_is_a_decimal_whole_or_not() {
        let kind = Kind::Set(Box::new(Kind::Decimal));
        let shown = |value: Value| carry(&value, Some(&kind)).map(|value| value.as_ref().to_string());
        assert_eq!(shown(json!([1, 2.5])).as_deref(), Some("[decimal(\"1.0\"), decimal(\"2.5\")]"));
        assert_eq!(shown(json!([9_000_000_000_000_000_i64])), None);
    }
}

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
//! What else there is cannot be carried over, and neither can what holds it.

use cedar_policy::RestrictedExpression;
use serde_json::{Map, Number, Value};

/// Arguments, as far as rules can be shown them.
pub(super) struct Carried {
    /// Those that could be carried over, by their names.
    pub(super) values: Vec<(String, RestrictedExpression)>,
    /// The names of those that could not.
    pub(super) left_out: Vec<String>,
}

pub(super) fn arguments(values: &Value) -> Carried {
    let mut carried = Carried { values: Vec::new(), left_out: Vec::new() };
    for (name, value) in values.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match carry(value) {
            Some(value) => carried.values.push((name.clone(), value)),
            None => carried.left_out.push(name.clone()),
        }
    }
    carried
}

fn carry(value: &Value) -> Option<RestrictedExpression> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(RestrictedExpression::new_bool(*value)),
        Value::String(text) => Some(RestrictedExpression::new_string(text.clone())),
        Value::Number(number) => carry_number(number),
        Value::Array(items) => carry_list(items),
        Value::Object(members) => carry_object(members),
    }
}

fn carry_object(members: &Map<String, Value>) -> Option<RestrictedExpression> {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    let carried: Option<Vec<_>> = given.map(|(name, value)| Some((name.clone(), carry(value)?))).collect();
    RestrictedExpression::new_record(carried?).ok()
}

/// An item that is left out could be the one that a rule looks for.
fn carry_list(items: &[Value]) -> Option<RestrictedExpression> {
    let mut kinds = items.iter().map(kind);
    let first = kinds.next();
    if kinds.any(|kind| Some(kind) != first) {
        return None;
    }
    let carried: Option<Vec<_>> = items.iter().map(carry).collect();
    carried.map(RestrictedExpression::new_set)
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::String(_) => 2,
        Value::Number(number) if whole(number).is_some() => 3,
        Value::Number(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    }
}

fn carry_number(number: &Number) -> Option<RestrictedExpression> {
    match whole(number) {
        Some(whole) => Some(RestrictedExpression::new_long(whole)),
        None => decimal(number.as_f64()?).map(RestrictedExpression::new_decimal),
    }
}

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
    (after.len() <= 4 && before.len() <= 15).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: Value) -> Option<String> {
        carry(&value).map(|value| format!("{:?}", value.as_ref()))
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
        let Carried { values, left_out } = arguments(&json!({ "a": null, "b": 1e300, "c": { "d": null } }));
        assert_eq!(values.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["c"]);
        assert_eq!(left_out, ["b"]);
    }
}

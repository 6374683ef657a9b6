//! One way to write each JSON value (RFC 8785), and digests of it.
//!
//! # Invariants
//! - A value has one canonical form; two different values never share one. What is the same in it is the same value, down to
//!   the order of its members.
//! - Numbers outside I-JSON and objects that name a key twice have none: they are refused.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Number, Value};
use thiserror::Error;

/// The largest JSON text that is read.
pub const MAX_JSON_BYTES: usize = 16 * 1024 * 1024;

/// The largest whole number that every implementation of JSON reads the same.
const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// A key that some readers take for another one of the same object, because they differ by their case alone.
pub fn case_variant(object: &Map<String, Value>) -> Option<String> {
    let mut seen = HashSet::new();
    // Up and down again: letters that have no capital of their own are somebody else's.
    object.keys().map(|key| key.to_uppercase().to_lowercase()).find(|key| !seen.insert(key.clone()))
}

/// Why a text has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CanonicalError {
    /// It is too long.
    #[error("the JSON text is longer than {MAX_JSON_BYTES} bytes")]
    TooLong,
    /// It is not JSON, or names a key twice, or holds a number that not everybody reads the same.
    #[error("not acceptable JSON: {why}")]
    Json {
        /// What is wrong, and where.
        why: String,
    },
    /// A number that not everybody reads the same.
    #[error("the number {number} is outside of what JSON carries without loss")]
    Number {
        /// The number.
        number: String,
    },
}

/// A JSON value with its one true form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canonical {
    value: Value,
    text: String,
}

impl Canonical {
    /// Reads a JSON text from outside.
    pub fn parse(text: &str) -> Result<Canonical, CanonicalError> {
        if text.len() > MAX_JSON_BYTES {
            return Err(CanonicalError::TooLong);
        }
        // ATTACK(duplicate-key): what one parser skips, another one obeys.
        let Strict(value) =
            serde_json::from_str(text).map_err(|error| CanonicalError::Json { why: error.to_string() })?;
        Canonical::of(value)
    }

    /// The form of a value that is here already.
    pub fn of(mut value: Value) -> Result<Canonical, CanonicalError> {
        settle(&mut value)?;
        let mut text = Vec::new();
        write(&value, &mut text).map_err(|error| CanonicalError::Json { why: error.to_string() })?;
        let text =
            String::from_utf8(text).map_err(|error| CanonicalError::Json { why: error.to_string() })?;
        Ok(Canonical { value, text })
    }

    /// The value.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Its canonical text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The digest of its canonical text.
    pub fn digest(&self) -> Digest {
        Digest::of(self.text.as_bytes())
    }

    /// The value, for someone who needs it whole.
    pub fn into_value(self) -> Value {
        self.value
    }
}

/// Refuses numbers that not everybody reads the same, and takes the others for what their canonical text says: `1.0` and
/// `-0` are written as `1` and `0`, so that is what they are. Members are put into the order of their names.
fn settle(value: &mut Value) -> Result<(), CanonicalError> {
    match value {
        Value::Number(number) => {
            let settled = settled(number);
            *number = settled.ok_or_else(|| CanonicalError::Number { number: number.to_string() })?;
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(settle),
        Value::Object(members) => {
            // ATTACK(case-variant-key): whoever looks at one member after the other meets them in one order, whatever a caller wrote.
            members.sort_keys();
            members.values_mut().try_for_each(settle)
        }
        _ => Ok(()),
    }
}

/// Writes a value whose numbers are settled. Members stand in the order of their names' UTF-16 units; texts are written as
/// `serde_json` does, and whole numbers as they are. How a fraction is written is left to those who know it by heart.
fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            out.push(b'{');
            for (place, (name, member)) in members.into_iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, name)?;
                out.push(b':');
                write(member, out)?;
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write(item, out)?;
            }
            out.push(b']');
        }
        Value::Number(number) if number.is_f64() => {
            out.extend(serde_json_canonicalizer::to_vec(number)?);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            serde_json::to_writer(out, value)?;
        }
    }
    Ok(())
}

fn settled(number: &Number) -> Option<Number> {
    if let Some(whole) = number.as_i64() {
        return (whole.unsigned_abs() <= MAX_SAFE_INTEGER).then(|| number.clone());
    }
    // Every number that large is a whole one, and may have been another before it was read.
    let real = number.as_f64().filter(|real| real.abs() <= MAX_SAFE_INTEGER as f64)?;
    if real.fract() == 0.0 { Some(Number::from(real as i64)) } else { Number::from_f64(real) }
}

/// A BLAKE3 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Digest> {
        blake3::Hash::from_hex(text).ok().map(|hash| Digest(*hash.as_bytes()))
    }

    /// The digest itself.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({self})")
    }
}

impl JsonSchema for Digest {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| de::Error::custom("a digest has 64 hexadecimal digits"))
    }
}

/// A value in whose objects each key stands once.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        StrictSeed.deserialize(deserializer).map(Strict)
    }
}

struct StrictSeed;

impl<'de> DeserializeSeed<'de> for StrictSeed {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictSeed {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(StrictSeed)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(StrictSeed)?;
            if members.contains_key(&key) {
                return Err(de::Error::custom(format!("the key `{key}` stands twice in one object")));
            }
            members.insert(key, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        Canonical::parse(text).unwrap().text().to_owned()
    }

    #[test]
    fn keys_that_differ_by_their_case_alone_are_found() {
        let of = |keys: [&str; 2]| {
            case_variant(&keys.map(|key| (key.to_owned(), Value::Null)).into_iter().collect())
        };
        for keys in [["users", "Users"], ["users", "user\u{17f}"], ["key", "\u{212a}ey"], ["id", "\u{131}d"]]
        {
            assert!(of(keys).is_some(), "{keys:?}");
        }
        assert_eq!(of(["user", "users"]), None);
    }

    #[test]
    fn equal_values_have_equal_texts() {
        assert_eq!(canonical(r#"{ "b": 1, "a": [1.0, 10e-1, -0, "\u00e9"] }"#), r#"{"a":[1,1,0,"é"],"b":1}"#);
    }

    #[test]
    fn a_value_is_what_its_text_says() {
        let value = |text| Canonical::parse(text).unwrap().into_value();
        assert_eq!(value("[1.0, 10e-1, -0, -0.0, 2.5]"), value("[1,1,0,0,2.5]"));
    }

    #[test]
    fn members_are_met_in_one_order_however_they_were_written() {
        let written = |text| Canonical::parse(text).unwrap().into_value().to_string();
        let sorted = r#"{"Amount":1,"amount":{"a":[{"x":0,"y":1}],"b":2}}"#;
        assert_eq!(written(r#"{"amount":{"b":2,"a":[{"y":1,"x":0}]},"Amount":1}"#), sorted);
        assert_eq!(written(sorted), sorted);
    }

    #[test]
    fn keys_are_sorted_by_their_utf_16_form() {
        // From RFC 8785, section 3.2.3: U+1F600 sorts before U+FB33, because its first surrogate is smaller.
        assert_eq!(canonical("{\"\u{fb33}\":1,\"\u{1f600}\":2}"), "{\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn a_key_that_stands_twice_is_refused_at_any_depth() {
        assert!(Canonical::parse(r#"{"a":1,"a":1}"#).is_err());
        assert!(Canonical::parse(r#"[{"x":{"a":1,"b":2,"a":3}}]"#).is_err());
        assert!(Canonical::parse(r#"{"a":1,"\u0061":2}"#).is_err());
    }

    #[test]
    fn numbers_that_not_everybody_reads_the_same_are_refused() {
        for number in ["9007199254740992", "-9007199254740992", "1e400", "18446744073709551615", "1e17"] {
            assert!(Canonical::parse(number).is_err(), "{number}");
        }
        assert_eq!(canonical("9007199254740991"), "9007199254740991");
        assert_eq!(canonical("0.1"), "0.1");
    }

    #[test]
    fn what_is_not_one_json_text_is_refused() {
        for text in ["", "{", "{}x", "{'a':1}", "[1,]", "nul", "\u{feff}{}"] {
            assert!(Canonical::parse(text).is_err(), "{text}");
        }
        assert!(Canonical::parse(&"[".repeat(100_000)).is_err(), "depth");
    }

    #[test]
    fn a_digest_reads_back_as_itself() {
        let digest = Canonical::parse("{}").unwrap().digest();
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    }
}

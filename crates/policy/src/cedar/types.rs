//! What kinds of values a tool's arguments are in Cedar, read from the JSON Schema of its input.
//!
//! | JSON Schema | Cedar |
//! |---|---|
//! | `integer` | `Long` |
//! | `number` | `decimal`, whole ones too |
//! | `string`, and words to choose from | `String` |
//! | `boolean` | `Bool` |
//! | `array` whose items are of one kind | `Set` |
//! | `object` that names its members | a record |
//! | may be `null`, or need not be given | an optional attribute |
//!
//! What else there is has no kind, and why is told: rules can ask whether it is given, and nothing more.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::ToolName;
use serde_json::{Map, Value, json};

/// No schema of arguments that people read nests deeper.
const DEEPEST: usize = 16;

/// Nor has more parts.
const MOST_SCHEMAS: usize = 5_000;

/// The entity type that stands for what has no kind. Nothing is ever one.
pub(super) const UNSHOWN: &str = "Unshown";

/// The kind of a value in Cedar.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Long,
    /// A number with up to four digits after the point.
    Decimal,
    /// A text.
    String,
    /// A list.
    Set(Box<Kind>),
    /// An object.
    Record(BTreeMap<String, Member>),
    /// Nothing that Cedar has, and why.
    Unshown(&'static str),
}

/// A member of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// What it is.
    pub kind: Kind,
    /// Whether it is always there.
    pub required: bool,
}

/// The arguments of tools, as rules are shown them. A tool that is not here is shown its arguments as they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentTypes(Arc<BTreeMap<ToolName, Kind>>);

impl ArgumentTypes {
    /// Those of tools and the schemas of their input.
    pub fn of<'a>(tools: impl IntoIterator<Item = (&'a ToolName, &'a Value)>) -> ArgumentTypes {
        let kinds = tools.into_iter().map(|(name, input)| (name.clone(), Kind::of_schema(input)));
        ArgumentTypes(Arc::new(kinds.collect()))
    }

    /// What one tool takes, if that is known.
    pub fn get(&self, tool: &ToolName) -> Option<&Kind> {
        self.0.get(tool)
    }
}

impl Kind {
    /// The kind of what fits a schema.
    pub fn of_schema(schema: &Value) -> Kind {
        Reading { whole: schema, left: MOST_SCHEMAS }.read(schema, DEEPEST).0
    }

    /// A member by its name.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        match self {
            Kind::Record(members) => members.get(name),
            _ => None,
        }
    }

    /// As Cedar's schemas in JSON have it.
    pub(super) fn to_schema(&self) -> Value {
        match self {
            Kind::Bool => json!({ "type": "Boolean" }),
            Kind::Long => json!({ "type": "Long" }),
            Kind::String => json!({ "type": "String" }),
            Kind::Decimal => json!({ "type": "Extension", "name": "decimal" }),
            Kind::Set(item) => json!({ "type": "Set", "element": item.to_schema() }),
            Kind::Unshown(_) => json!({ "type": "Entity", "name": UNSHOWN }),
            Kind::Record(members) => {
                let attributes = members.iter().map(|(name, member)| {
                    let mut attribute = member.kind.to_schema();
                    attribute["required"] = json!(member.required);
                    (name.clone(), attribute)
                });
                json!({ "type": "Record", "attributes": attributes.collect::<Map<_, _>>() })
            }
        }
    }
}

/// Reads a schema to its end, or to where it has said enough.
struct Reading<'a> {
    whole: &'a Value,
    /// How many schemas within it are still looked at: one that refers to itself can be without end.
    left: usize,
}

/// What `null` stands for is that nothing is given.
const NULL: Kind = Kind::Unshown("null");
const UNTOLD: Kind = Kind::Unshown("of no kind that is told");

impl Reading<'_> {
    /// The kind of what fits a schema, and whether it may also be `null`.
    fn read(&mut self, schema: &Value, deeper: usize) -> (Kind, bool) {
        let (Some(deeper), Some(left)) = (deeper.checked_sub(1), self.left.checked_sub(1)) else {
            return (Kind::Unshown("nested too deep"), true);
        };
        self.left = left;
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let found = reference.strip_prefix('#').and_then(|pointer| self.whole.pointer(pointer));
            return found.map_or((UNTOLD, true), |found| self.read(found, deeper));
        }
        if ["allOf", "not", "if"].iter().any(|key| schema.get(key).is_some()) {
            return (Kind::Unshown("described by conditions"), true);
        }
        if let Some(either) = schema.get("oneOf").or(schema.get("anyOf")) {
            let either: Vec<_> = listed(either).map(|schema| self.read(schema, deeper)).collect();
            return one_of(either);
        }
        match schema.get("type") {
            Some(Value::String(name)) => self.of_type(name, schema, deeper),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                let either: Vec<_> = names.map(|name| self.of_type(name, schema, deeper)).collect();
                one_of(either)
            }
            _ => {
                let values =
                    schema.get("const").into_iter().chain(schema.get("enum").into_iter().flat_map(listed));
                one_of(values.map(of_value))
            }
        }
    }

    fn of_type(&mut self, name: &str, schema: &Value, deeper: usize) -> (Kind, bool) {
        let kind = match name {
            "null" => return (NULL, true),
            "boolean" => Kind::Bool,
            "integer" => Kind::Long,
            "number" => Kind::Decimal,
            "string" => Kind::String,
            "array" => self.of_list(schema, deeper),
            "object" => self.of_object(schema, deeper),
            _ => UNTOLD,
        };
        (kind, false)
    }

    fn of_list(&mut self, schema: &Value, deeper: usize) -> Kind {
        if schema.get("prefixItems").is_some() {
            return Kind::Unshown("a list of several kinds");
        }
        match schema.get("items").map(|items| self.read(items, deeper)) {
            Some((Kind::Unshown(_), _)) | None => Kind::Unshown("a list of several kinds"),
            Some((_, true)) => Kind::Unshown("a list that may hold `null`"),
            Some((item, false)) => Kind::Set(Box::new(item)),
        }
    }

    fn of_object(&mut self, schema: &Value, deeper: usize) -> Kind {
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        if !is_closed || schema.get("patternProperties").is_some() {
            return Kind::Unshown("a map with any names in it");
        }
        let required = schema.get("required").into_iter().flat_map(listed).filter_map(Value::as_str);
        let required: Vec<&str> = required.collect();
        let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
        let members = members.map(|(name, member)| {
            let (kind, nullable) = self.read(member, deeper);
            let required = required.contains(&name.as_str()) && !nullable;
            (name.clone(), Member { kind, required })
        });
        Kind::Record(members.collect())
    }
}

fn listed(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn one_of(kinds: impl IntoIterator<Item = (Kind, bool)>) -> (Kind, bool) {
    let (mut found, mut nullable): (Option<Kind>, bool) = (None, false);
    for (kind, may_be_null) in kinds {
        nullable |= may_be_null;
        match &found {
            _ if kind == NULL => {}
            None => found = Some(kind),
            Some(other) if *other == kind => {}
            Some(_) => return (Kind::Unshown("of several kinds"), true),
        }
    }
    match found {
        Some(kind) => (kind, nullable),
        None if nullable => (NULL, true),
        None => (UNTOLD, true),
    }
}

fn of_value(value: &Value) -> (Kind, bool) {
    match value {
        Value::Null => (NULL, true),
        Value::Bool(_) => (Kind::Bool, false),
        Value::String(_) => (Kind::String, false),
        Value::Number(number) if number.is_i64() => (Kind::Long, false),
        _ => (Kind::Unshown("of several kinds"), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(properties: Value, required: &[&str]) -> Value {
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    }

    fn kind_of(schema: Value) -> Kind {
        let whole = closed(json!({ "x": schema }), &["x"]);
        Kind::of_schema(&whole).member("x").unwrap().kind.clone()
    }

    #[test]
    fn each_kind_of_json_has_its_kind_in_cedar() {
        assert_eq!(kind_of(json!({ "type": "integer", "minimum": 0 })), Kind::Long);
        assert_eq!(kind_of(json!({ "type": "number" })), Kind::Decimal);
        assert_eq!(kind_of(json!({ "type": "boolean" })), Kind::Bool);
        assert_eq!(kind_of(json!({ "enum": ["a", "b"] })), Kind::String);
        let words = json!({ "oneOf": [{ "const": "a" }, { "type": "string", "const": "b" }] });
        assert_eq!(kind_of(words), Kind::String);
        let list = json!({ "type": "array", "items": { "type": "string" } });
        assert_eq!(kind_of(list), Kind::Set(Box::new(Kind::String)));
        let inner = closed(json!({ "y": { "type": ["integer", "null"] } }), &["y"]);
        let member = Member { kind: Kind::Long, required: false };
        assert_eq!(kind_of(inner), Kind::Record([("y".to_owned(), member)].into()));
    }

    #[test]
    fn what_may_be_null_or_left_out_is_optional() {
        let properties = json!({
            "a": { "type": "string" }, "b": { "type": "string" }, "c": { "type": ["string", "null"] },
            "d": { "anyOf": [{ "$ref": "#/$defs/d" }, { "type": "null" }] },
        });
        let mut schema = closed(properties, &["a", "c", "d"]);
        schema["$defs"] = json!({ "d": { "type": "integer" } });
        let kind = Kind::of_schema(&schema);
        let required = |name| kind.member(name).unwrap().required;
        assert_eq!([required("a"), required("b"), required("c"), required("d")], [true, false, false, false]);
        assert_eq!(kind.member("d").unwrap().kind, Kind::Long);
    }

    #[test]
    fn what_cedar_has_no_kind_for_is_named() {
        for (schema, why) in [
            (json!({}), "of no kind that is told"),
            (json!(true), "of no kind that is told"),
            (json!({ "type": ["string", "integer"] }), "of several kinds"),
            (json!({ "oneOf": [{ "type": "string" }, { "type": "boolean" }] }), "of several kinds"),
            (
                json!({ "type": "object", "additionalProperties": { "type": "string" } }),
                "a map with any names in it",
            ),
            (json!({ "type": "object" }), "a map with any names in it"),
            (json!({ "type": "array" }), "a list of several kinds"),
            (
                json!({ "type": "array", "items": { "type": ["string", "integer"] } }),
                "a list of several kinds",
            ),
            (
                json!({ "type": "array", "items": { "type": ["string", "null"] } }),
                "a list that may hold `null`",
            ),
            (json!({ "allOf": [{ "type": "string" }] }), "described by conditions"),
            (json!({ "$ref": "#/nowhere" }), "of no kind that is told"),
        ] {
            assert_eq!(kind_of(schema.clone()), Kind::Unshown(why), "{schema}");
        }
        // One that describes itself ends.
        let mut schema = closed(json!({ "x": { "$ref": "#/$defs/x" } }), &[]);
        schema["$defs"] = json!({ "x": closed(json!({ "x": { "$ref": "#/$defs/x" } }), &[]) });
        assert!(format!("{:?}", Kind::of_schema(&schema)).contains("nested too deep"));
    }
}

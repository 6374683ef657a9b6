//! JSON schemas that fetch nothing and let nothing unnamed through.

use serde_json::{Map, Value};
use thiserror::Error;

use crate::misfit::tell;

/// How many problems are told at once.
const MOST_PROBLEMS: usize = 5;

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    definition: Value,
    validator: jsonschema::Validator,
}

/// Why a schema is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// Arguments and results are objects.
    #[error("the schema does not describe an object")]
    NotAnObject,
    /// It refers to something outside itself.
    #[error("the schema refers to `{reference}`, which is not part of it")]
    Remote {
        /// What it refers to.
        reference: String,
    },
    /// It is not a schema.
    #[error("not a JSON schema: {why}")]
    Invalid {
        /// What is wrong.
        why: String,
    },
}

impl Schema {
    /// Compiles a schema. Objects in it admit only the properties they name, unless they say otherwise.
    pub fn compile(definition: &Value) -> Result<Schema, SchemaError> {
        let mut definition = definition.clone();
        if definition.get("type") != Some(&Value::from("object")) {
            return Err(SchemaError::NotAnObject);
        }
        refuse_remote(&definition)?;
        close_objects(&mut definition);
        // ATTACK(hostile-schema): patterns are matched in linear time, whoever wrote them; what that cannot be done for is none.
        let validator = jsonschema::options()
            .with_pattern_options(jsonschema::PatternOptions::regex())
            .build(&definition)
            .map_err(|error| SchemaError::Invalid { why: error.to_string() })?;
        Ok(Schema { definition, validator })
    }

    /// The schema as it is enforced.
    pub fn definition(&self) -> &Value {
        &self.definition
    }

    /// The first things wrong with a value, each with the place where it is; none if it is as it should be.
    ///
    /// ATTACK(arguments-on-record): what is told here goes into receipts, and arguments do not.
    pub fn problems(&self, value: &Value) -> Vec<String> {
        let told = self.validator.iter_errors(value).map(|error| tell(&error, &self.definition));
        told.take(MOST_PROBLEMS).collect()
    }
}

/// ATTACK(remote-schema): a reference is followed inside the schema only.
fn refuse_remote(value: &Value) -> Result<(), SchemaError> {
    match value {
        Value::Object(members) => {
            for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
                match members.get(key).and_then(Value::as_str) {
                    Some(reference) if !reference.starts_with('#') => {
                        return Err(SchemaError::Remote { reference: reference.to_owned() });
                    }
                    _ => {}
                }
            }
            members.values().try_for_each(refuse_remote)
        }
        Value::Array(items) => items.iter().try_for_each(refuse_remote),
        _ => Ok(()),
    }
}

/// ATTACK(case-variant-key): `Name` is not `name`, so it is nothing, and what is nothing is refused.
fn close_objects(value: &mut Value) {
    match value {
        Value::Object(members) => {
            if describes_properties(members) && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            members.values_mut().for_each(close_objects);
        }
        Value::Array(items) => items.iter_mut().for_each(close_objects),
        _ => {}
    }
}

fn describes_properties(members: &Map<String, Value>) -> bool {
    let is_object = |name: &Value| name == "object";
    let may_be_object = match members.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_object),
        Some(one) => is_object(one),
        None => false,
    };
    may_be_object && !members.contains_key("unevaluatedProperties")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        Schema::compile(&json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "inner": { "type": "object", "properties": {} } },
            "required": ["name"],
        }))
        .unwrap()
    }

    #[test]
    fn a_fitting_value_has_no_problems() {
        assert_eq!(schema().problems(&json!({ "name": "x" })), Vec::<String>::new());
    }

    #[test]
    fn unknown_and_case_variant_keys_are_problems_at_any_depth() {
        assert_eq!(schema().problems(&json!({ "name": "x", "Name": "y" })).len(), 1);
        assert_eq!(schema().problems(&json!({ "name": "x", "inner": { "more": 1 } })).len(), 1);
        let nullable = json!({ "type": ["object", "null"], "properties": { "a": {} } });
        let outer = Schema::compile(&json!({ "type": "object", "properties": { "in": nullable } })).unwrap();
        assert_eq!(outer.problems(&json!({ "in": { "a": 1, "A": 2 } })).len(), 1);
    }

    #[test]
    fn problems_say_where_they_are() {
        let problems = schema().problems(&json!({ "name": 7 }));
        assert_eq!(problems, ["/name: the value is not of type \"string\""]);
    }

    #[test]
    fn a_reference_to_elsewhere_is_refused() {
        let remote = json!({ "type": "object", "properties": { "a": { "$ref": "http://example.test/s" } } });
        assert!(matches!(Schema::compile(&remote), Err(SchemaError::Remote { .. })));
        assert!(matches!(Schema::compile(&json!({ "type": "string" })), Err(SchemaError::NotAnObject)));
        assert!(matches!(
            Schema::compile(&json!({ "type": "object", "properties": 3 })),
            Err(SchemaError::Invalid { .. })
        ));
    }
}

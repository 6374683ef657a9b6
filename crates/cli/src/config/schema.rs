//! The published JSON Schema, made from the tree that is read, so that the two cannot differ.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value, json};

use super::file::File;

/// Where else a key may be written is noted under this name while the schema is made.
const SPELLINGS: &str = "x-spellings";

/// The JSON Schema of `toolgate.yaml`.
pub(crate) fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with_transform(Spellings);
    let mut schema = settings.into_generator().into_root_schema_for::<File>();
    schema.insert("title".to_owned(), json!("toolgate.yaml"));
    schema.to_value()
}

/// Adds every other spelling of a key, and takes out what only we need.
#[derive(Clone)]
struct Spellings;

impl Transform for Spellings {
    fn transform(&mut self, schema: &mut Schema) {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            spell(properties);
        }
        transform_subschemas(self, schema);
    }
}

fn spell(properties: &mut Map<String, Value>) {
    let mut more = Vec::new();
    for (name, property) in properties.iter_mut() {
        let Some(property) = property.as_object_mut() else { continue };
        // A key that is left out has no value; it is not `null`.
        property.remove("default");
        let named = property.remove(SPELLINGS);
        let named = named.iter().flat_map(|names| names.as_array().into_iter().flatten());
        let named: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
        let spellings = named.into_iter().chain([camel_case(name)]).filter(|spelling| spelling != name);
        more.extend(spellings.map(|spelling| (spelling, Value::Object(property.clone()))));
    }
    properties.extend(more);
}

pub(super) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut joined, word| {
        let mut letters = word.chars();
        joined.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        joined.push_str(letters.as_str());
        joined
    })
}

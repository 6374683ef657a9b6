//! Values that remember where they stood in the file, so that what is found wrong later can be pointed at.

use std::borrow::Cow;
use std::cmp::Ordering;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_saphyr::{Location, Spanned};

/// A line and a column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Place {
    pub(crate) line: u64,
    pub(crate) column: u64,
}

impl Place {
    /// Where a file begins: for what concerns all of it.
    pub(crate) const START: Place = Place { line: 1, column: 1 };
}

impl From<Location> for Place {
    fn from(location: Location) -> Place {
        Place { line: location.line().max(1), column: location.column().max(1) }
    }
}

/// A value and its place. Equality and order are those of the value, so that it can be a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<At<T>, D::Error> {
        // Where it is written, not where an alias repeats it: that is the text to correct.
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        Ok(At { value: spanned.value, place: spanned.defined.into() })
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &At<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for At<T> {}

impl<T: Ord> PartialOrd for At<T> {
    fn partial_cmp(&self, other: &At<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for At<T> {
    fn cmp(&self, other: &At<T>) -> Ordering {
        self.value.cmp(&other.value)
    }
}

/// A key that may be left out.
///
/// Not an `Option`: there, a key without a value would count as left out, and a list whose entries were all commented
/// out would turn from "none" to "any".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<T>(Option<At<T>>);

impl<T> Given<T> {
    /// The value and its place, if it was given.
    pub(crate) fn at(&self) -> Option<&At<T>> {
        self.0.as_ref()
    }

    /// The value, if it was given.
    pub(crate) fn get(&self) -> Option<&T> {
        self.at().map(|at| &at.value)
    }
}

impl<T> Default for Given<T> {
    fn default() -> Given<T> {
        Given(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given<T>, D::Error> {
        At::deserialize(deserializer).map(|at| Given(Some(at)))
    }
}

impl<T: Serialize> Serialize for Given<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// In the schema both are what they hold.
macro_rules! transparent_schema {
    ($name:ident) => {
        impl<T: JsonSchema> JsonSchema for $name<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }

            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    };
}

transparent_schema!(At);
transparent_schema!(Given);

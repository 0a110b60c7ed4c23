//! From JSON text to template variables.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use minijinja::value::Value;

use super::python::value_of_float;
use crate::abi::Failure;

pub fn parse(context: &[u8]) -> Result<BTreeMap<String, Value>, Failure> {
    match serde_json::from_slice(context) {
        Ok(serde_json::Value::Object(members)) => {
            Ok(members.into_iter().map(|(name, value)| (name, to_value(value))).collect())
        }
        Ok(_) => Err(Failure::invalid("the context is not a JSON object")),
        Err(error) => Err(Failure::invalid(format!("the context is not JSON: {error}"))),
    }
}

/// Recursion is bounded by the parser's own limit of depth.
fn to_value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => Value::from(flag),
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(items) => items.into_iter().map(to_value).collect(),
        serde_json::Value::Object(members) => Value::from(
            members.into_iter().map(|(name, value)| (Value::from(name), to_value(value))).collect::<IndexMap<_, _>>(),
        ),
        serde_json::Value::Number(number) => {
            if let Some(integer) = number.as_i64() {
                Value::from(integer)
            } else if let Some(integer) = number.as_u64() {
                Value::from(integer)
            } else {
                value_of_float(number.as_f64().unwrap_or(f64::NAN))
            }
        }
    }
}

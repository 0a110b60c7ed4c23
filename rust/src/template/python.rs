//! How Python prints values: `str()` and the shortest float.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{DynObject, Object, ObjectRepr, Value, ValueKind};

/// `str(value)`. minijinja prints like Python but for the exponents of floats, which it never writes.
pub fn str(value: &Value) -> String {
    if !contains_computed_float(value) {
        return value.to_string();
    }
    match value.kind() {
        ValueKind::Number => float(f64::try_from(value.clone()).unwrap_or(f64::NAN)),
        ValueKind::Map => {
            let members = value.try_iter().into_iter().flatten();
            let texts = members.map(|key| {
                let member = value.get_item(&key).unwrap_or_default();
                format!("{}: {}", repr(&key), repr(&member))
            });
            format!("{{{}}}", texts.collect::<Vec<_>>().join(", "))
        }
        ValueKind::Seq if !value.is_tuple() => {
            let texts = value.try_iter().into_iter().flatten().map(|item| repr(&item));
            format!("[{}]", texts.collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// `repr(value)`: differs from `str` for strings, which minijinja quotes when it prints them inside a list.
fn repr(value: &Value) -> String {
    if value.kind() != ValueKind::String {
        return str(value);
    }
    let list = Value::from(vec![value.clone()]).to_string();
    list[1..list.len() - 1].to_owned()
}

fn contains_computed_float(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Number => !value.is_integer(),
        ValueKind::Seq => value.try_iter().is_ok_and(|mut items| items.any(|item| contains_computed_float(&item))),
        ValueKind::Map => value.try_iter().is_ok_and(|mut keys| {
            keys.any(|key| {
                contains_computed_float(&key)
                    || value.get_item(&key).is_ok_and(|member| contains_computed_float(&member))
            })
        }),
        _ => false,
    }
}

/// `repr(float)`: the fewest digits that read back equal, with an exponent below 1e-4 and from 1e16.
pub fn float(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    if needs_exponent(number) {
        let scientific = format!("{number:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

fn needs_exponent(number: f64) -> bool {
    number != 0.0 && !(1e-4..1e16).contains(&number.abs())
}

/// A number of the context that Python prints with an exponent. minijinja's `~` would print all its zeros, and there
/// is no hook for that, so such numbers are objects that print themselves. They do not take part in arithmetic, which
/// no template does with numbers of that size.
#[derive(Debug)]
pub struct PrintedFloat(pub f64);

impl Object for PrintedFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true // zero needs no exponent
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<std::cmp::Ordering> {
        self.0.partial_cmp(&other.downcast_ref::<Self>()?.0)
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&float(self.0))
    }
}

pub fn value_of_float(number: f64) -> Value {
    if needs_exponent(number) {
        Value::from_object(PrintedFloat(number))
    } else {
        Value::from(number)
    }
}

/// The number in a value that is a float, whichever way it is held.
pub fn as_float(value: &Value) -> Option<f64> {
    match value.downcast_object_ref::<PrintedFloat>() {
        Some(printed) => Some(printed.0),
        None if value.kind() == ValueKind::Number && !value.is_integer() => f64::try_from(value.clone()).ok(),
        None => None,
    }
}

pub fn is_float(value: &Value) -> bool {
    as_float(value).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (number, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (9_007_199_254_740_993.0, "9007199254740992.0"),
            (1e16, "1e+16"),
            (-1.25e300, "-1.25e+300"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(number), text);
        }
    }

    #[test]
    fn computed_floats_print_alike_inside_containers() {
        let list = Value::from(vec![Value::from(1e-5), Value::from("a'b"), Value::from(2)]);
        assert_eq!(str(&list), "[1e-05, \"a'b\", 2]");
        assert_eq!(str(&Value::from(std::collections::BTreeMap::from([("k", list)]))), "{'k': [1e-05, \"a'b\", 2]}");
    }
}

//! The `tojson` filter: Python's `json.dumps(value, ensure_ascii=False, ...)` with all the arguments that transformers
//! gives templates.

use std::fmt::Write;

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::{environment, python};

const MAX_DEPTH: usize = 200;

struct Style {
    ascii_only: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// `tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`
pub fn filter(state: &State, value: &Value, positional: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let style = Style::from_arguments(&positional, &named)?;
    let mut output = String::new();
    dump(value, &style, 0, &mut output)?;
    environment::charge_for_printing(state, &output)?;
    Ok(output)
}

impl Style {
    fn from_arguments(positional: &[Value], named: &Kwargs) -> Result<Self, Error> {
        let argument = |index: usize, name: &str| -> Result<Option<Value>, Error> {
            let value = match positional.get(index) {
                Some(value) => Some(value.clone()),
                None => named.get::<Option<Value>>(name)?,
            };
            Ok(value.filter(|value| !value.is_none() && !value.is_undefined()))
        };
        let ascii_only = argument(0, "ensure_ascii")?.is_some_and(|value| value.is_true());
        let indent = match argument(1, "indent")? {
            None => None,
            Some(text) if text.kind() == ValueKind::String => text.as_str().map(str::to_owned),
            Some(width) => Some(" ".repeat(usize::try_from(i64::try_from(width)?.clamp(0, 64)).unwrap_or(0))),
        };
        let (item_separator, key_separator) = match argument(2, "separators")? {
            Some(pair) => (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string()),
            None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        };
        let sort_keys = argument(3, "sort_keys")?.is_some_and(|value| value.is_true());
        named.assert_all_used()?;
        Ok(Self { ascii_only, indent, item_separator, key_separator, sort_keys })
    }

    fn new_line(&self, depth: usize, output: &mut String) {
        if let Some(indent) = &self.indent {
            output.push('\n');
            for _ in 0..depth {
                output.push_str(indent);
            }
        }
    }
}

fn dump(value: &Value, style: &Style, depth: usize, output: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson: the value is nested too deep"));
    }
    if let Some(number) = python::as_float(value) {
        output.push_str(&json_float(number));
        return Ok(());
    }
    match value.kind() {
        ValueKind::None => output.push_str("null"),
        ValueKind::Bool => output.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => output.push_str(&value.to_string()),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), style.ascii_only, output),
        ValueKind::Seq => dump_list(value, style, depth, output)?,
        ValueKind::Map => dump_object(value, style, depth, output)?,
        kind => {
            return Err(Error::new(ErrorKind::InvalidOperation, format!("tojson: a value of type {kind} is not JSON")));
        }
    }
    Ok(())
}

fn dump_list(list: &Value, style: &Style, depth: usize, output: &mut String) -> Result<(), Error> {
    output.push('[');
    let mut empty = true;
    for item in list.try_iter()? {
        if !empty {
            output.push_str(&style.item_separator);
        }
        empty = false;
        style.new_line(depth + 1, output);
        dump(&item, style, depth + 1, output)?;
    }
    if !empty {
        style.new_line(depth, output);
    }
    output.push(']');
    Ok(())
}

fn dump_object(object: &Value, style: &Style, depth: usize, output: &mut String) -> Result<(), Error> {
    let mut keys: Vec<Value> = object.try_iter()?.collect();
    if style.sort_keys {
        keys.sort();
    }
    output.push('{');
    for (index, key) in keys.iter().enumerate() {
        if index > 0 {
            output.push_str(&style.item_separator);
        }
        style.new_line(depth + 1, output);
        quote(&key_text(key), style.ascii_only, output);
        output.push_str(&style.key_separator);
        dump(&object.get_item(key)?, style, depth + 1, output)?;
    }
    if !keys.is_empty() {
        style.new_line(depth, output);
    }
    output.push('}');
    Ok(())
}

/// Keys of a dict that are no strings become some, as in Python.
fn key_text(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        _ => python::as_float(key).map_or_else(|| key.to_string(), json_float),
    }
}

/// Python writes these three, though JSON has none of them.
fn json_float(number: f64) -> String {
    if number.is_nan() {
        "NaN".into()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.into()
    } else {
        python::float(number)
    }
}

fn quote(text: &str, ascii_only: bool, output: &mut String) {
    output.push('"');
    for character in text.chars() {
        match character {
            '"' => output.push_str("\\\""),
            '\\' => output.push_str("\\\\"),
            '\n' => output.push_str("\\n"),
            '\r' => output.push_str("\\r"),
            '\t' => output.push_str("\\t"),
            '\u{8}' => output.push_str("\\b"),
            '\u{c}' => output.push_str("\\f"),
            control if control < ' ' => escape(control, output),
            other if ascii_only && !(' '..='~').contains(&other) => escape(other, output),
            other => output.push(other),
        }
    }
    output.push('"');
}

/// \uXXXX, twice for characters beyond 16 bits.
fn escape(character: char, output: &mut String) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        let _ = write!(output, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use crate::template::Template;

    fn render(expression: &str, context: &str) -> String {
        let template = Template::new(&format!("{{{{ {expression} }}}}")).unwrap();
        String::from_utf8(template.render(context.as_bytes(), 0).unwrap()).unwrap()
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        let context = r#"{"v": {"zeta": 1, "alpha": [1.0, 1e-05, null, true], "é": "<&'\"\\\u0001\u007f"}}"#;
        assert_eq!(
            render("v|tojson", context),
            r#"{"zeta": 1, "alpha": [1.0, 1e-05, null, true], "é": "<&'\"\\\u0001"#.to_owned() + "\u{7f}\"}"
        );
    }

    #[test]
    fn all_arguments_work_by_name_and_by_place() {
        let context = r#"{"v": {"b": [1, 2], "a": "é😀", "c": {}}}"#;
        assert_eq!(
            render("v|tojson(ensure_ascii=True)", context),
            r#"{"b": [1, 2], "a": "\u00e9\ud83d\ude00", "c": {}}"#
        );
        assert_eq!(render("v|tojson(false, none, [',', ':'], true)", context), r#"{"a":"é😀","b":[1,2],"c":{}}"#);
        assert_eq!(
            render("v|tojson(indent=2)", context),
            "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": \"é😀\",\n  \"c\": {}\n}"
        );
        assert_eq!(render("v.b|tojson(indent='\t', separators=('; ', '='))", context), "[\n\t1; \n\t2\n]");
    }

    #[test]
    fn keys_become_strings() {
        assert_eq!(render("{1: 2, none: 3, true: 4, 1.5: 5}|tojson", "{}"), r#"{"1": 4, "null": 3, "1.5": 5}"#);
    }

    #[test]
    fn what_is_not_json_is_an_error() {
        for expression in ["range|tojson", "u|tojson", "v|tojson(colour=1)"] {
            assert!(Template::new(&format!("{{{{ {expression} }}}}")).unwrap().render(b"{\"v\": 1}", 0).is_err());
        }
    }
}

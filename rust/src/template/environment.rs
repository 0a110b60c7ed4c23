//! The minijinja environment of chat templates: transformers' settings, functions and filters, and the bounds.

use std::cell::Cell;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior};

use super::{python, strftime, to_json};
use crate::abi::Failure;

/// About 0.1 s of the engine's steps on one core; an ordinary chat takes a few thousand. One step also pays for 64 bytes
/// of text, which bounds memory to 128 MB of it.
const FUEL: u64 = 2_000_000;
/// Printing a value walks it, so the engine counts its bytes for more than those of a copy; so do our filters.
const PRINTED_BYTES_PER_STEP: u64 = 4;

pub fn charge_for_printing(state: &State, text: &str) -> Result<(), Error> {
    state.consume_fuel(text.len() as u64 / PRINTED_BYTES_PER_STEP)
}

pub fn new() -> Result<Environment<'static>, Failure> {
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(Failure::invalid)?;
    let mut environment = Environment::new();
    environment.set_syntax(syntax);
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|output, _state, value| {
        match value.as_str() {
            Some(text) => output.write_str(text)?,
            None if value.is_undefined() => {}
            None => output.write_str(&python::str(value))?,
        }
        Ok(())
    });
    environment.add_function("raise_exception", raise_exception);
    environment.add_function("strftime_now", |format: &str| strftime::format(format, LOCAL_TIME.get()));
    environment.add_filter("tojson", to_json::filter);
    environment.add_filter("string", string);
    // Python: None is not iterable; minijinja iterates it as empty.
    environment.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    environment.add_test("number", |value: &Value| python::is_float(value) || value.is_number());
    environment.add_test("float", python::is_float);
    Ok(environment)
}

fn string(state: &State, value: &Value) -> Result<String, Error> {
    let text = python::str(value);
    charge_for_printing(state, &text)?;
    Ok(text)
}

/// What a template says when it refuses a conversation.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: &Value) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(Raised(python::str(message))))
}

/// The words given to raise_exception, however deep in macros and includes.
pub fn raised_message(error: &Error) -> Option<String> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(current) = cause {
        if let Some(raised) = current.downcast_ref::<Raised>() {
            return Some(raised.0.clone());
        }
        cause = current.source();
    }
    None
}

thread_local! {
    /// The time that `strftime_now` prints. Rendering stays on one thread, and no variable of the template can get in
    /// its way.
    static LOCAL_TIME: Cell<i64> = const { Cell::new(0) };
}

/// Sets the time for the renderings of this thread until the returned value is dropped.
pub fn set_local_time(seconds: i64) -> impl Drop {
    struct Restore(i64);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOCAL_TIME.set(self.0);
        }
    }
    Restore(LOCAL_TIME.replace(seconds))
}

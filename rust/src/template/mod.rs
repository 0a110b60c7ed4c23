//! Chat templates, rendered as transformers does: Jinja2 in a sandbox with trimmed blocks, loop controls, generation
//! tags, and Python's way of printing values. `environment` makes minijinja behave so; this file compiles and renders
//! within bounds of time and output.

mod context;
mod environment;
mod generation_tags;
mod python;
mod strftime;
mod to_json;

use std::io;

use minijinja::value::Value;
use minijinja::{Environment, ErrorKind};

use crate::abi::{bytes, guard, text, Buffer, Failure, Status};

const NAME: &str = "chat";
/// Far above any context length, far below what hurts.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    pub fn new(source: &str) -> Result<Self, Failure> {
        let mut environment = environment::new()?;
        environment
            .add_template_owned(NAME, generation_tags::replace(source).into_owned())
            .map_err(|error| Failure::invalid(describe(&error)))?;
        Ok(Self { environment })
    }

    /// `context` is a JSON object; `local_time` is what `strftime_now` prints.
    pub fn render(&self, context: &[u8], local_time: i64) -> Result<Vec<u8>, Failure> {
        let variables = context::parse(context)?;
        let mut output = BoundedOutput(Vec::new());
        let _clock = environment::set_local_time(local_time);
        let template = self.environment.get_template(NAME).map_err(|error| Failure::invalid(describe(&error)))?;
        match template.render_captured_to(Value::from(variables), &mut output) {
            Ok(_) => Ok(output.0),
            Err(error) => Err(failure(&error)),
        }
    }
}

/// What the template wants printed, up to the bound.
struct BoundedOutput(Vec<u8>);

impl io::Write for BoundedOutput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.0.len() + data.len() > MAX_OUTPUT_BYTES {
            return Err(io::Error::other(format!("the output is longer than {} MB", MAX_OUTPUT_BYTES >> 20)));
        }
        self.0.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn failure(error: &minijinja::Error) -> Failure {
    if let Some(message) = environment::raised_message(error) {
        return Failure { status: Status::Raised, message };
    }
    Failure::invalid(describe(error))
}

/// One line: the reason, the innermost cause, and the line of the template.
fn describe(error: &minijinja::Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return "it takes too many steps".into();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    match innermost.downcast_ref::<minijinja::Error>() {
        Some(inner) if inner.kind() == ErrorKind::OutOfFuel => describe(inner),
        Some(inner) => {
            let reason =
                inner.detail().map_or_else(|| inner.kind().to_string(), |detail| format!("{}: {detail}", inner.kind()));
            match inner.line().or_else(|| error.line()) {
                Some(line) => format!("{reason} (line {line})"),
                None => reason,
            }
        }
        None => innermost.to_string(),
    }
}

#[no_mangle]
unsafe extern "C" fn rp_template_new(
    source: *const u8,
    size: usize,
    template: *mut *mut Template,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        template.write(Box::into_raw(Box::new(Template::new(text(source, size, "the chat template")?)?)));
        Ok(())
    })
}

#[no_mangle]
unsafe extern "C" fn rp_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[no_mangle]
unsafe extern "C" fn rp_template_render(
    template: *const Template,
    context: *const u8,
    size: usize,
    local_time: i64,
    output: *mut Buffer,
) -> Status {
    guard(output, || {
        let rendered = (*template).render(bytes(context, size), local_time)?;
        output.write(Buffer::new(rendered));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, context: &str) -> String {
        String::from_utf8(Template::new(source).unwrap().render(context.as_bytes(), 0).unwrap()).unwrap()
    }

    fn error(source: &str) -> (Status, String) {
        let failure = Template::new(source).and_then(|template| template.render(b"{}", 0)).unwrap_err();
        (failure.status, failure.message)
    }

    #[test]
    fn blocks_are_trimmed_as_transformers_does() {
        assert_eq!(render("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "{}"), "a\nb\nc");
    }

    #[test]
    fn python_prints_what_templates_print() {
        let context = r#"{"v": {"a": [1, 1.0, null, true, "it's", 1e-05, 1e16], "b": {}}}"#;
        let expected = r#"{'a': [1, 1.0, None, True, "it's", 1e-05, 1e+16], 'b': {}}"#;
        assert_eq!(render("{{ v }}", context), expected);
        assert_eq!(render("{{ v|string }}", context), expected);
        assert_eq!(render("{{ '' ~ v }}", context), expected);
        assert_eq!(render("{{ v.a[5] ~ ' ' ~ v.a[5]|string + ' ' + v.a[6]|string }}", context), "1e-05 1e-05 1e+16");
        assert_eq!(
            render("{{ v.a[5] is number }} {{ v.a[5] is float }} {{ v.a[5] is integer }}", context),
            "True True False"
        );
    }

    #[test]
    fn none_is_not_iterable_and_undefined_is() {
        assert_eq!(
            render("{{ n is iterable }} {{ u is iterable }} {{ [] is iterable }}", r#"{"n": null}"#),
            "False True True"
        );
    }

    #[test]
    fn slices_take_steps() {
        assert_eq!(
            render("{{ v[::-1] }} {{ v[3:0:-2] }} {{ 'abcd'[::-1] }} {{ v[-2:] }}", r#"{"v": [1, 2, 3, 4]}"#),
            "[4, 3, 2, 1] [4, 2] dcba [3, 4]"
        );
    }

    #[test]
    fn a_raised_exception_is_told_from_a_fault() {
        assert_eq!(
            error("{{ raise_exception('roles must alternate') }}"),
            (Status::Raised, "roles must alternate".into())
        );
        assert_eq!(error("{% macro m() %}{{ raise_exception('deep') }}{% endmacro %}{{ m() }}").1, "deep");
        let (status, message) = error("line\n{{ x.y.z }}");
        assert_eq!(status, Status::Invalid);
        assert_eq!(message, "undefined value (line 2)");
    }

    #[test]
    fn broken_templates_name_the_line() {
        let (status, message) = error("a\n{% if %}");
        assert_eq!(status, Status::Invalid);
        assert!(message.ends_with("(line 2)"), "{message}");
    }

    #[test]
    fn time_and_output_are_bounded() {
        let endless = "{% for i in range(9999) %}{% for j in range(9999) %}{% set x = i %}{% endfor %}{% endfor %}";
        assert_eq!(error(endless).1, "it takes too many steps");
        assert_eq!(error("{{ 'x' * 20000000 }}").1, "the output is longer than 16 MB");
        assert_eq!(error("{{ 'x' * 20000000000 }}").1, "it takes too many steps");
        assert!(error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").1.contains("recursion limit exceeded"));
    }

    /// Half a megabyte is the stack of a thread on macOS.
    #[test]
    fn recursion_ends_before_a_small_stack_does() {
        let bombs = [
            "{% macro f(x) %}{% for i in [1] %}{{ f(x) }}{% endfor %}{% endmacro %}{{ f(1) }}".to_owned(),
            "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}".to_owned(),
            "{% macro f() %}{{ caller }}{% call f() %}x{% endcall %}{% endmacro %}{% call f() %}y{% endcall %}"
                .to_owned(),
            "{% include 'chat' %}".to_owned(),
            format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500)),
            format!("{{{{ {}1{} }}}}", "[".repeat(500), "]".repeat(500)),
        ];
        for source in bombs {
            let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(move || error(&source).1).unwrap();
            let message = thread.join().unwrap();
            assert!(message.contains("recursion"), "{message}");
        }
    }

    #[test]
    fn strftime_now_prints_the_given_time() {
        let template = Template::new("{{ strftime_now('%d %b %Y') }}").unwrap();
        assert_eq!(template.render(b"{}", 1_764_428_400).unwrap(), b"29 Nov 2025");
    }

    #[test]
    fn the_context_must_be_an_object() {
        let template = Template::new("x").unwrap();
        assert_eq!(template.render(b"[]", 0).unwrap_err().message, "the context is not a JSON object");
        assert!(template.render(b"{", 0).unwrap_err().message.starts_with("the context is not JSON: "));
    }
}

//! Regular expressions that whole lines are matched with. Time is linear in the line whatever the expression is, and the
//! compiled form is bounded.

use regex_automata::meta::{Builder, Config, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::{Hir, Look};

use crate::abi::{guard, text, Buffer, Failure, Status};

const MAX_COMPILED_BYTES: usize = 1 << 20;

pub struct LinePattern(Regex);

impl LinePattern {
    /// The anchors are put around the parsed expression, so nothing that is written in it can lift them.
    pub fn new(pattern: &str) -> Result<Self, Failure> {
        let parsed = regex_syntax::parse(pattern).map_err(|error| Failure::invalid(describe(&error)))?;
        let whole = Hir::concat(vec![Hir::look(Look::Start), parsed, Hir::look(Look::End)]);
        let config = Config::new().nfa_size_limit(Some(MAX_COMPILED_BYTES)).which_captures(WhichCaptures::None);
        match Builder::new().configure(config).build_from_hir(&whole) {
            Ok(regex) => Ok(Self(regex)),
            Err(error) if error.size_limit().is_some() => {
                Err(Failure::invalid(format!("it takes more than {} MB when compiled", MAX_COMPILED_BYTES >> 20)))
            }
            Err(error) => Err(Failure::invalid(error)),
        }
    }

    pub fn matches(&self, line: &str) -> bool {
        self.0.is_match(line)
    }
}

/// One line: the reason and where.
fn describe(error: &regex_syntax::Error) -> String {
    let (reason, at) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        _ => return error.to_string(),
    };
    format!("{reason} (at byte {at})")
}

#[no_mangle]
unsafe extern "C" fn rp_line_pattern_new(
    pattern: *const u8,
    size: usize,
    out: *mut *mut LinePattern,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        out.write(Box::into_raw(Box::new(LinePattern::new(text(pattern, size, "the pattern")?)?)));
        Ok(())
    })
}

#[no_mangle]
unsafe extern "C" fn rp_line_pattern_free(pattern: *mut LinePattern) {
    if !pattern.is_null() {
        drop(Box::from_raw(pattern));
    }
}

#[no_mangle]
unsafe extern "C" fn rp_line_pattern_matches(
    pattern: *const LinePattern,
    line: *const u8,
    size: usize,
    matches: *mut bool,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        matches.write((*pattern).matches(text(line, size, "the line")?));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, line: &str) -> bool {
        LinePattern::new(pattern).unwrap().matches(line)
    }

    fn error(pattern: &str) -> String {
        LinePattern::new(pattern).err().expect(pattern).message
    }

    #[test]
    fn a_line_matches_as_a_whole() {
        assert!(matches("a|ab", "ab")); // the first alternative alone would match less
        assert!(!matches("a|ab", "abc"));
        assert!(!matches("b", "ab"));
        assert!(matches("", ""));
        assert!(!matches("", "a"));
    }

    #[test]
    fn nothing_in_a_pattern_lifts_the_anchors() {
        assert!(!matches("(?m)a$", "a\nb"));
        assert!(!matches("(?x)a # comment", "ab"));
        assert_eq!(error("a)|(b"), "unopened group (at byte 1)");
    }

    #[test]
    fn characters_are_those_of_unicode() {
        assert!(matches("n.nce: \\w+", "n\u{00f6}nce: \u{00fc}\u{4e2d}"));
        assert!(matches("(?i)STRASSE \u{00c4}", "strasse \u{00e4}"));
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        assert_eq!(error("a(b"), "unclosed group (at byte 1)");
        assert_eq!(error("ab[z-a]"), "invalid character class range, the start must be <= the end (at byte 3)");
        assert!(error("\\p{Nonsense}").contains("(at byte 0)"));
        assert!(error("(a)\\1").contains("backreferences are not supported (at byte 3)"));
        assert_eq!(error("(\\w{200}){200}"), "it takes more than 1 MB when compiled");
    }
}

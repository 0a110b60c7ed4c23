//! `{% generation %}` marks what an assistant said, for training; in a prompt it prints what is inside.

use std::borrow::Cow;

/// Replaces both tags by an always-true `if`, which keeps trimming and line numbers as they are.
pub fn replace(source: &str) -> Cow<'_, str> {
    if !source.contains("endgeneration") {
        return Cow::Borrowed(source);
    }
    let mut output = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start + 2..].find("%}") else { break };
        let tag = &rest[start + 2..start + 2 + length];
        output.push_str(&rest[..start + 2]);
        match tag.trim_matches(['-', '+']).trim() {
            "generation" => output.push_str(&tag.replace("generation", "if true")),
            "endgeneration" => output.push_str(&tag.replace("endgeneration", "endif")),
            _ => output.push_str(tag),
        }
        output.push_str("%}");
        rest = &rest[start + 2 + length + 2..];
    }
    output.push_str(rest);
    Cow::Owned(output)
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn tags_become_a_condition_and_keep_their_trimming() {
        assert_eq!(replace("a{%- generation -%}\nb\n{% endgeneration %}c"), "a{%- if true -%}\nb\n{% endif %}c");
    }

    #[test]
    fn other_uses_of_the_word_stay() {
        let source = "{% if add_generation_prompt %}x{% endif %}";
        assert_eq!(replace(source), source);
        let source = "{% if generation %}{% endgeneration";
        assert_eq!(replace(source), source);
    }
}

//! The most bytes of a text that one token can stand for: a text that is far too long is then known to be so without
//! tokenizing it.
//!
//! A token stands for as many bytes of the prepared text as its own spelling has. What prepares the text is looked
//! through part by part; where one may drop text, or words may become an unknown token of any length, there is no
//! bound. Vocabularies without some rare bytes drop those, so they are not counted.

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::{Model, Tokenizer};

use super::table::byte_of_character;

/// Composing characters (NFC) makes UTF-8 at most so many times shorter. Unicode's "Normalization FAQ" has 3 as the most
/// that NFD makes of a character; some characters that NFC replaces by others first add a little (7 bytes become 2).
const COMPOSITION: usize = 4;

/// A text has at least as many tokens as its known bytes divided by `max_bytes_per_token`.
#[derive(Debug)]
pub struct Bound {
    pub max_bytes_per_token: usize,
    /// For each byte 1 or 0.
    pub known_bytes: Vec<u8>,
}

pub fn find(tokenizer: &Tokenizer) -> Option<Bound> {
    let normalizer = serde_json::to_value(tokenizer.get_normalizer()).ok()?;
    let pre_tokenizer = serde_json::to_value(tokenizer.get_pre_tokenizer()).ok()?;
    if drops_text(&pre_tokenizer) {
        return None;
    }
    let byte_level = mentions_byte_level(&pre_tokenizer);
    let known_bytes = known_bytes(tokenizer.get_model(), byte_level)?;
    // Which bytes a changed text will have cannot be told from its bytes now.
    if !normalizer.is_null() && (0..=255).any(|byte| occurs_in_text(byte) && known_bytes[usize::from(byte)] == 0) {
        return None;
    }
    let mut longest = 1;
    for piece in tokenizer.get_model().get_vocab().keys() {
        longest = longest.max(if byte_level { byte_level_length(piece) } else { piece.len() });
    }
    for token in tokenizer.get_added_tokens_decoder().values() {
        if token.lstrip || token.rstrip {
            return None; // takes any amount of space beside it
        }
        longest = longest.max(token.content.len());
    }
    let max_bytes_per_token = longest.checked_mul(shrinking_of_normalizer(&normalizer)?)?;
    Some(Bound { max_bytes_per_token, known_bytes })
}

fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or("")
}

/// How many times shorter, in bytes, a text can become. None: any number of times.
fn shrinking_of_normalizer(part: &Value) -> Option<usize> {
    if part.is_null() {
        return Some(1);
    }
    match kind(part) {
        "NFC" => Some(COMPOSITION),
        "Prepend" => Some(1),
        "Replace" => {
            let pattern = part["pattern"]["String"].as_str()?;
            (pattern.len() <= part["content"].as_str()?.len()).then_some(1)
        }
        "Sequence" => part["normalizers"]
            .as_array()?
            .iter()
            .try_fold(1_usize, |so_far, inner| so_far.checked_mul(shrinking_of_normalizer(inner)?)),
        _ => None,
    }
}

fn drops_text(part: &Value) -> bool {
    if part.is_null() {
        return false;
    }
    match kind(part) {
        "ByteLevel" | "Metaspace" | "Digits" => false,
        "Split" | "Punctuation" => part["behavior"] == "Removed",
        "Sequence" => part["pretokenizers"].as_array().map_or(true, |inner| inner.iter().any(drops_text)),
        _ => true,
    }
}

fn mentions_byte_level(part: &Value) -> bool {
    kind(part) == "ByteLevel"
        || part["pretokenizers"].as_array().is_some_and(|inner| inner.iter().any(mentions_byte_level))
}

/// UTF-8 has no use for the others.
fn occurs_in_text(byte: u8) -> bool {
    !matches!(byte, 0xc0 | 0xc1 | 0xf5..=0xff)
}

/// The bytes that become tokens of their own if nothing longer fits. None where unknown text may be of any kind, or
/// run together into one token.
fn known_bytes(model: &ModelWrapper, byte_level: bool) -> Option<Vec<u8>> {
    let knows = |token: &str| model.token_to_id(token).is_some();
    let falls_back = match model {
        ModelWrapper::BPE(model) => model.byte_fallback,
        ModelWrapper::Unigram(model) => model.byte_fallback(),
        _ => false,
    };
    if falls_back && (0..=255).all(|byte: u8| knows(&format!("<0x{byte:02X}>"))) {
        return Some(vec![1; 256]);
    }
    if !byte_level || !matches!(model, ModelWrapper::BPE(_)) {
        return None;
    }
    let mut known = vec![0; 256];
    for character in (0..0x200).filter_map(char::from_u32) {
        if let Some(byte) = byte_of_character(character) {
            known[usize::from(byte)] = u8::from(knows(character.encode_utf8(&mut [0; 4])));
        }
    }
    Some(known)
}

/// Bytes of text behind a piece of a byte-level vocabulary, whose characters are one byte each.
fn byte_level_length(piece: &str) -> usize {
    let num_characters = piece.chars().count();
    if piece.chars().all(|character| byte_of_character(character).is_some()) {
        num_characters
    } else {
        piece.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte_level(normalizer: &str, pre_tokenizer: &str, added: &str) -> Option<usize> {
        bound(normalizer, pre_tokenizer, added, '\0').map(|bound| bound.max_bytes_per_token)
    }

    fn bound(normalizer: &str, pre_tokenizer: &str, added: &str, missing: char) -> Option<Bound> {
        let mut vocabulary: Vec<String> = (0..0x200)
            .filter_map(char::from_u32)
            .filter(|&c| byte_of_character(c).is_some() && c != missing)
            .map(String::from)
            .collect();
        vocabulary.push("ĠĠĠĠ".into());
        let entries: serde_json::Map<String, Value> =
            vocabulary.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
        let file = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[{added}],"normalizer":{normalizer},
            "pre_tokenizer":{pre_tokenizer},"post_processor":null,"decoder":null,"model":{{"type":"BPE","dropout":null,
            "unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,
            "byte_fallback":false,"vocab":{},"merges":[]}}}}"#,
            Value::Object(entries)
        );
        find(&Tokenizer::from_bytes(file).unwrap())
    }

    const BYTES: &str = r#"{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}"#;

    fn split(behavior: &str) -> String {
        format!(
            r#"{{"type":"Sequence","pretokenizers":[{{"type":"Split","pattern":{{"Regex":"\\d"}},
            "behavior":"{behavior}","invert":false}},{BYTES}]}}"#
        )
    }

    fn added(content: &str, rstrip: bool) -> String {
        format!(
            r#"{{"id":257,"content":"{content}","single_word":false,"lstrip":false,"rstrip":{rstrip},
            "normalized":false,"special":true}}"#
        )
    }

    #[test]
    fn the_longest_entry_counts_in_bytes_of_text() {
        assert_eq!(byte_level("null", BYTES, ""), Some(4));
        assert_eq!(byte_level("null", &split("Isolated"), ""), Some(4));
        assert_eq!(byte_level("null", BYTES, &added("<|end|>", false)), Some(7));
    }

    #[test]
    fn composition_makes_text_shorter() {
        assert_eq!(byte_level(r#"{"type":"NFC"}"#, BYTES, ""), Some(16));
    }

    #[test]
    fn parts_that_may_drop_text_leave_no_bound() {
        assert_eq!(byte_level(r#"{"type":"Strip","strip_left":true,"strip_right":true}"#, BYTES, ""), None);
        assert_eq!(byte_level(r#"{"type":"Replace","pattern":{"String":"aa"},"content":"a"}"#, BYTES, ""), None);
        assert_eq!(byte_level(r#"{"type":"Replace","pattern":{"Regex":"a+"},"content":"aaa"}"#, BYTES, ""), None);
        assert_eq!(byte_level(r#"{"type":"Replace","pattern":{"String":" "},"content":"▁"}"#, BYTES, ""), Some(4));
        assert_eq!(byte_level("null", &split("Removed"), ""), None);
        assert_eq!(byte_level("null", r#"{"type":"Whitespace"}"#, ""), None);
        assert_eq!(byte_level("null", BYTES, &added("<|end|>", true)), None);
    }

    #[test]
    fn bytes_that_the_vocabulary_lacks_do_not_count() {
        let known = bound("null", BYTES, "", 'x').unwrap().known_bytes;
        assert_eq!((known[usize::from(b'x')], known[usize::from(b'y')], known[0xff]), (0, 1, 1));
        assert!(bound(r#"{"type":"NFC"}"#, BYTES, "", 'x').is_none());
        assert!(bound(r#"{"type":"NFC"}"#, BYTES, "", 'ÿ').is_some()); // byte 0xff, which no text has
    }

    #[test]
    fn unknown_text_leaves_no_bound() {
        assert_eq!(byte_level("null", r#"{"type":"Digits","individual_digits":true}"#, ""), None);
        let words = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":null,"post_processor":null,"decoder":null,
            "model":{"type":"WordLevel","vocab":{"a":0,"?":1},"unk_token":"?"}}"#;
        assert!(find(&Tokenizer::from_bytes(words).unwrap()).is_none());
    }
}

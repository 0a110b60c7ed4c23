//! TokenTable: the bytes that each token adds to a text, read off the tokenizer's decoder. With it, decoding is joining
//! bytes, which C++ does without a call per token.
//!
//! A decoder is a chain of steps over a list of pieces. As long as each step looks at one piece alone, running the
//! chain on single tokens gives their bytes. The steps after `Fuse` see the whole text; of those, only taking one
//! space off its start is known.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::{Decoder, Tokenizer};

use crate::abi::Failure;

pub const KNOWN: u8 = 1;
pub const SPECIAL: u8 = 2;

/// RpTokenTable of the header.
#[derive(Debug, Default)]
pub struct TokenTable {
    pub bytes: Vec<u8>,
    pub offsets: Vec<u32>,
    pub flags: Vec<u8>,
    pub strips_leading_space: bool,
}

impl TokenTable {
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, Failure> {
        let steps = Steps::new(tokenizer.get_decoder())?;
        let added = tokenizer.get_added_vocabulary();
        // A file may give any ids; the table has a place for each, so refuse what only exhausts memory.
        let count = tokenizer.get_vocab_size(true);
        let most = count.saturating_mul(4).saturating_add(65_536);
        let mut table = Self { strips_leading_space: steps.strips_leading_space, ..Self::default() };
        table.offsets.push(0);
        let mut found = 0;
        while found < count && table.flags.len() < most {
            let token = u32::try_from(table.flags.len()).ok().and_then(|id| tokenizer.id_to_token(id));
            let special = token.as_ref().is_some_and(|token| added.is_special_token(token));
            table.flags.push((u8::from(token.is_some()) * KNOWN) | (u8::from(special) * SPECIAL));
            if let Some(token) = token {
                found += 1;
                table.bytes.extend(steps.bytes_of(&token)?);
            }
            let end = u32::try_from(table.bytes.len())
                .map_err(|_| Failure::invalid("tokenizer.json: the tokens are longer than 4 GB together"))?;
            table.offsets.push(end);
        }
        if found < count {
            table.end_at_largest_id(tokenizer, most)?;
        }
        Ok(table)
    }

    /// For files whose ids end beyond the table, or in which tokens share one.
    fn end_at_largest_id(&mut self, tokenizer: &Tokenizer, most: usize) -> Result<(), Failure> {
        let vocabulary = tokenizer.get_vocab(true);
        let size = vocabulary.values().max().map_or(0, |&largest| largest as usize + 1);
        if size > most {
            return Err(Failure::invalid(format!(
                "tokenizer.json: the largest token id is {}, but there are only {} tokens",
                size - 1,
                vocabulary.len()
            )));
        }
        self.flags.truncate(size);
        self.offsets.truncate(size + 1);
        Ok(())
    }
}

/// The steps of a decoder, in order.
struct Steps<'a> {
    each: Vec<&'a DecoderWrapper>,
    strips_leading_space: bool,
}

impl<'a> Steps<'a> {
    fn new(decoder: Option<&'a DecoderWrapper>) -> Result<Self, Failure> {
        let mut flat = Vec::new();
        flatten(decoder.ok_or_else(|| unsupported("none"))?, &mut flat);
        let mut steps = Self { each: Vec::new(), strips_leading_space: false };
        let mut fused = false;
        for step in flat {
            match step {
                DecoderWrapper::Fuse(_) => fused = true,
                DecoderWrapper::Strip(strip) if fused => {
                    if strip.content != ' ' || strip.start > 1 || strip.stop > 0 {
                        return Err(unsupported("Strip"));
                    }
                    steps.strips_leading_space |= strip.start == 1;
                }
                _ if fused => return Err(unsupported("a step after Fuse")),
                DecoderWrapper::Metaspace(metaspace) => {
                    // Metaspace treats the first token differently; Steps::bytes_of gives what it adds further on.
                    steps.strips_leading_space |=
                        metaspace.prepend_scheme != tokenizers::pre_tokenizers::metaspace::PrependScheme::Never;
                    steps.each.push(step);
                }
                DecoderWrapper::ByteLevel(_)
                | DecoderWrapper::ByteFallback(_)
                | DecoderWrapper::Replace(_)
                | DecoderWrapper::Strip(_) => steps.each.push(step),
                DecoderWrapper::BPE(_) => return Err(unsupported("BPEDecoder")),
                DecoderWrapper::WordPiece(_) => return Err(unsupported("WordPiece")),
                DecoderWrapper::CTC(_) => return Err(unsupported("CTC")),
                DecoderWrapper::Sequence(_) => unreachable!("flattened"),
            }
        }
        Ok(steps)
    }

    fn bytes_of(&self, token: &str) -> Result<Vec<u8>, Failure> {
        let mut piece = token.to_owned();
        for step in &self.each {
            match step {
                // Both end in text with U+FFFD for half a character; here the bytes themselves are wanted.
                DecoderWrapper::ByteLevel(_) => return Ok(byte_level_bytes(&piece)),
                DecoderWrapper::ByteFallback(_) => {
                    if let Some(byte) = fallback_byte(&piece) {
                        return Ok(vec![byte]);
                    }
                }
                DecoderWrapper::Metaspace(metaspace) => piece = piece.replace(metaspace.get_replacement(), " "),
                other => {
                    let pieces = other.decode_chain(vec![piece]).map_err(Failure::invalid)?;
                    piece = pieces.concat();
                }
            }
        }
        Ok(piece.into_bytes())
    }
}

fn flatten<'a>(decoder: &'a DecoderWrapper, steps: &mut Vec<&'a DecoderWrapper>) {
    match decoder {
        DecoderWrapper::Sequence(sequence) => sequence.get_decoders().iter().for_each(|inner| flatten(inner, steps)),
        other => steps.push(other),
    }
}

fn unsupported(what: &str) -> Failure {
    Failure::unsupported(format!("tokenizer.json: a tokenizer whose decoder is {what} is not supported"))
}

/// "<0xE2>" is byte 0xE2.
fn fallback_byte(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// Byte-level vocabularies spell each byte as one visible character (GPT-2's table). A piece with any other character
/// stands for its own UTF-8, as added tokens do.
fn byte_level_bytes(piece: &str) -> Vec<u8> {
    piece.chars().map(byte_of_character).collect::<Option<Vec<u8>>>().unwrap_or_else(|| piece.as_bytes().to_vec())
}

pub fn byte_of_character(character: char) -> Option<u8> {
    let code = character as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        // The 68 bytes without a visible character of their own take the codes from 0x100 on, in order.
        0x100..=0x120 => Some((code - 0x100) as u8),        // 0x00 to 0x20
        0x121..=0x142 => Some((code - 0x121 + 0x7f) as u8), // 0x7f to 0xa0
        0x143 => Some(0xad),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer(decoder: &str) -> Tokenizer {
        let json = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,
            "added_tokens":[{{"id":4,"content":"<|end|>","single_word":false,"lstrip":false,"rstrip":false,
            "normalized":false,"special":true}}],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
            "decoder":{decoder},
            "model":{{"type":"WordLevel","vocab":{{"▁a":0,"<0xE2>":1,"Ġb":2,"ā é":3}},"unk_token":"▁a"}}}}"#
        );
        json.parse().unwrap()
    }

    fn bytes(table: &TokenTable, id: usize) -> &[u8] {
        &table.bytes[table.offsets[id] as usize..table.offsets[id + 1] as usize]
    }

    fn table_of_vocabulary(vocabulary: &str) -> Result<TokenTable, Failure> {
        let json = format!(
            r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
            "pre_tokenizer":null,"post_processor":null,
            "decoder":{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}},
            "model":{{"type":"WordLevel","vocab":{vocabulary},"unk_token":"a"}}}}"#
        );
        TokenTable::new(&json.parse().unwrap())
    }

    #[test]
    fn ids_may_have_gaps_or_be_shared_but_not_exhaust_memory() {
        assert_eq!(table_of_vocabulary(r#"{"a":0,"b":3}"#).unwrap().flags, [KNOWN, 0, 0, KNOWN]);
        let shared = table_of_vocabulary(r#"{"a":0,"b":1,"c":1}"#).unwrap();
        assert_eq!((shared.flags.len(), shared.offsets.len()), (2, 3));
        assert_eq!(table_of_vocabulary(r#"{"a":0,"b":65543}"#).unwrap().flags.len(), 65_544);
        assert_eq!(
            table_of_vocabulary(r#"{"a":0,"b":65544}"#).unwrap_err().message,
            "tokenizer.json: the largest token id is 65544, but there are only 2 tokens"
        );
    }

    #[test]
    fn byte_level_tokens_are_bytes() {
        let table = TokenTable::new(&tokenizer(
            r#"{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}"#,
        ))
        .unwrap();
        assert_eq!(bytes(&table, 2), b" b");
        assert_eq!(bytes(&table, 3), "ā é".as_bytes(), "a space is no byte-level character");
        assert_eq!(bytes(&table, 4), b"<|end|>");
        assert_eq!(table.flags, [KNOWN, KNOWN, KNOWN, KNOWN, KNOWN | SPECIAL]);
        assert!(!table.strips_leading_space);
    }

    #[test]
    fn llama_decoders_are_byte_fallback_and_a_stripped_space() {
        let table = TokenTable::new(&tokenizer(
            r#"{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
            {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]}"#,
        ))
        .unwrap();
        assert_eq!(bytes(&table, 0), b" a");
        assert_eq!(bytes(&table, 1), [0xe2]);
        assert!(table.strips_leading_space);
    }

    #[test]
    fn metaspace_keeps_the_space_of_every_token() {
        let table = TokenTable::new(&tokenizer(
            r#"{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}"#,
        ))
        .unwrap();
        assert_eq!(bytes(&table, 0), b" a");
        assert!(table.strips_leading_space);
        let table = TokenTable::new(&tokenizer(
            r#"{"type":"Metaspace","replacement":"▁","prepend_scheme":"never","split":true}"#,
        ))
        .unwrap();
        assert!(!table.strips_leading_space);
    }

    #[test]
    fn decoders_that_look_at_neighbours_are_refused() {
        for (decoder, name) in [
            (r#"{"type":"WordPiece","prefix":"@@","cleanup":true}"#, "WordPiece"),
            (r#"{"type":"BPEDecoder","suffix":"</w>"}"#, "BPEDecoder"),
            (r#"{"type":"CTC","pad_token":"x","word_delimiter_token":"|","cleanup":true}"#, "CTC"),
            ("null", "none"),
            (
                r#"{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":2,"stop":0}]}"#,
                "Strip",
            ),
            (r#"{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"ByteFallback"}]}"#, "a step after Fuse"),
        ] {
            let failure = TokenTable::new(&tokenizer(decoder)).unwrap_err();
            assert_eq!(failure.status, crate::abi::Status::Unsupported);
            assert_eq!(
                failure.message,
                format!("tokenizer.json: a tokenizer whose decoder is {name} is not supported")
            );
        }
    }

    #[test]
    fn every_byte_has_one_character() {
        let mut found = vec![0; 256];
        for code in 0..0x200 {
            if let Some(byte) = char::from_u32(code).and_then(byte_of_character) {
                found[byte as usize] += 1;
            }
        }
        assert_eq!(found, vec![1; 256]);
    }
}

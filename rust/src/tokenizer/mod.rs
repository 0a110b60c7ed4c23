//! Tokenizers: loading and encoding. Decoding happens in C++ on the table that `table` makes.

mod bound;
mod table;

use tokenizers::models::bpe::BPE;
use tokenizers::{
    DecoderWrapper, Encoding, NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer, TokenizerImpl,
};

use crate::abi::{bytes, guard, text, Array, Buffer, Failure, Ids, Status};
use table::TokenTable;

type BpeTokenizer = TokenizerImpl<BPE, NormalizerWrapper, PreTokenizerWrapper, PostProcessorWrapper, DecoderWrapper>;

/// Most files hold a BPE model. Reading it as that spares what reading it as any model costs, the whole vocabulary as a
/// tree of values before it is known which it is; whatever is wrong with the file is for the other way to say.
fn parse(json: &[u8]) -> Result<Tokenizer, tokenizers::Error> {
    match BpeTokenizer::from_bytes(json) {
        Ok(tokenizer) => Ok(tokenizer.into()),
        Err(_) => Tokenizer::from_bytes(json),
    }
}

fn load(json: &[u8]) -> Result<Tokenizer, Failure> {
    let mut tokenizer = parse(json).map_err(|error| Failure::invalid(format!("tokenizer.json: {error}")))?;
    // Left over from training in many files. A server must not shorten or stretch what it is given.
    tokenizer.with_truncation(None).map_err(|error| Failure::invalid(format!("tokenizer.json: {error}")))?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_new(
    json: *const u8,
    size: usize,
    tokenizer: *mut *mut Tokenizer,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        tokenizer.write(Box::into_raw(Box::new(load(bytes(json, size))?)));
        Ok(())
    })
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_encode(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    add_special_tokens: bool,
    ids: *mut Ids,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        let encoding =
            (*tokenizer).encode_fast(text(data, size, "the text")?, add_special_tokens).map_err(Failure::invalid)?;
        ids.write(Ids::new(encoding.get_ids().to_vec()));
        Ok(())
    })
}

/// For each token, how many characters of the text come before it. A token that continues a character begun by the one
/// before, as half of its bytes do, counts as beginning with it; one that the tokenizer adds stands for no text.
fn begins(encoding: &Encoding) -> Vec<u32> {
    let mut end_before = 0;
    let offsets = encoding.get_offsets().iter().zip(encoding.get_special_tokens_mask());
    offsets
        .map(|(&(start, end), &added)| {
            if added == 1 {
                return end_before;
            }
            let begin = start.min(end_before); // offsets may leave out the space before a word
            end_before = end_before.max(end);
            begin
        })
        .map(|characters| u32::try_from(characters).unwrap_or(u32::MAX))
        .collect()
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_encode_with_begins(
    tokenizer: *const Tokenizer,
    data: *const u8,
    size: usize,
    add_special_tokens: bool,
    ids: *mut Ids,
    begins_out: *mut Ids,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        let encoding = (*tokenizer)
            .encode_char_offsets(text(data, size, "the text")?, add_special_tokens)
            .map_err(Failure::invalid)?;
        ids.write(Ids::new(encoding.get_ids().to_vec()));
        begins_out.write(Ids::new(begins(&encoding)));
        Ok(())
    })
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_token_to_id(tokenizer: *const Tokenizer, data: *const u8, size: usize) -> i64 {
    let mut id = -1;
    let mut message = Buffer::new(Vec::new());
    guard(&mut message, || {
        id = (*tokenizer).token_to_id(text(data, size, "the token")?).map_or(-1, i64::from);
        Ok(())
    });
    crate::abi::rp_buffer_free(message);
    id
}

/// RpTokenTable of the header.
#[repr(C)]
struct NativeTable {
    bytes: Buffer,
    offsets: Ids,
    flags: Buffer,
    strips_leading_space: bool,
    max_bytes_per_token: u32,
    known_bytes: Buffer,
}

#[no_mangle]
unsafe extern "C" fn rp_tokenizer_table(
    tokenizer: *const Tokenizer,
    out: *mut NativeTable,
    message: *mut Buffer,
) -> Status {
    guard(message, || {
        let table = TokenTable::new(&*tokenizer)?;
        let bound = bound::find(&*tokenizer);
        out.write(NativeTable {
            bytes: Array::new(table.bytes),
            offsets: Array::new(table.offsets),
            flags: Array::new(table.flags),
            strips_leading_space: table.strips_leading_space,
            max_bytes_per_token: bound.as_ref().and_then(|b| u32::try_from(b.max_bytes_per_token).ok()).unwrap_or(0),
            known_bytes: Array::new(bound.map_or_else(Vec::new, |b| b.known_bytes)),
        });
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = r#"{"version":"1.0","truncation":{"direction":"Right","max_length":1,"strategy":"LongestFirst",
        "stride":0},"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},
        "post_processor":null,"decoder":null,
        "model":{"type":"WordLevel","vocab":{"a":0,"b":1,"?":2},"unk_token":"?"}}"#;

    #[test]
    fn a_bpe_file_read_as_such_is_the_same_tokenizer() {
        let json = r#"{"version":"1.0","truncation":null,"padding":null,
            "added_tokens":[{"id":3,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,
            "normalized":false,"special":true}],"normalizer":{"type":"NFC"},
            "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
            "post_processor":null,
            "decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},
            "model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,
            "end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,
            "vocab":{"a":0,"b":1,"ab":2,"<s>":3},"merges":["a b"]}}"#;
        let any = Tokenizer::from_bytes(json).unwrap();
        let bpe = Tokenizer::from(BpeTokenizer::from_bytes(json).unwrap());
        assert_eq!(any.to_string(false).unwrap(), bpe.to_string(false).unwrap());
        assert_eq!(parse(json.as_bytes()).unwrap().encode_fast("abb<s>", false).unwrap().get_ids(), [2, 1, 3]);
    }

    #[test]
    fn a_bpe_file_that_cannot_be_read_as_such_is_read_as_any_model() {
        let model = r#"{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}"#;
        let with = |model: &str| {
            format!(
                r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
                "pre_tokenizer":null,"post_processor":null,"decoder":null,"model":{model}}}"#
            )
        };
        let unknown_key = with(&model.replace("\"vocab\"", "\"added_later\":1,\"vocab\""));
        assert!(BpeTokenizer::from_bytes(&unknown_key).is_err());
        for json in [with(model), with(&model.replace("\"type\":\"BPE\",", "")), unknown_key] {
            let tokenizer = parse(json.as_bytes()).unwrap();
            assert_eq!(tokenizer.encode_fast("ab", false).unwrap().get_ids(), [2], "{json}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_as_of_any_model() {
        let wrong = WORDS.replace("WordLevel", "BPE");
        assert_eq!(
            load(wrong.as_bytes()).unwrap_err().message,
            format!("tokenizer.json: {}", Tokenizer::from_bytes(&wrong).unwrap_err())
        );
    }

    #[test]
    fn truncation_in_the_file_is_ignored() {
        let tokenizer = load(WORDS.as_bytes()).unwrap();
        assert_eq!(tokenizer.encode_fast("a b c", false).unwrap().get_ids(), [0, 1, 2]);
    }

    #[test]
    fn what_is_no_tokenizer_is_refused() {
        for json in ["", "{", "[]", "{}", r#"{"model":{"type":"Magic"}}"#] {
            let failure = load(json.as_bytes()).unwrap_err();
            assert_eq!(failure.status, Status::Invalid);
            assert!(failure.message.starts_with("tokenizer.json: "), "{}", failure.message);
        }
    }
}

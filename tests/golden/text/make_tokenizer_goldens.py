"""Makes small tokenizers and what Hugging Face's `tokenizers` encodes and decodes with them.

    make_tokenizer_goldens.py                  trains tokenizers/*.json and writes NAME_ids.json for each
    make_tokenizer_goldens.py --gguf MODEL     writes starter_ids.json for the tokenizer inside a GGUF file

Each *_ids.json is {"tokenizers": version, "cases": [...]} with a case for each text of corpus.json:
    text, ids, ids_with_special (add_special_tokens=True),
    decoded, decoded_without_special (skip_special_tokens=True), both from ids_with_special.

The tokenizers stand for the three kinds that models have: byte-level BPE (Llama 3, Qwen, SmolLM), SentencePiece BPE
with byte fallback (Llama 2, Mistral), and Unigram with Metaspace (T5 and others). Training a Unigram model gives
slightly other pieces each time, so its two files change together.

Needs tokenizers (0.23), and gguf for --gguf.
"""

import argparse
import json
import pathlib

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).parent
CORPUS = json.loads((HERE / "corpus.json").read_text())
TURNS = ["<|im_start|>", "<|im_end|>"]
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=TURNS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", normalized=False)])
    return tokenizer


def sentencepiece_bpe():
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    trained.train_from_iterator(CORPUS[:20], trainers.BpeTrainer(vocab_size=300, show_progress=False))
    model = json.loads(trained.to_str())["model"]

    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces += sorted(model["vocab"], key=model["vocab"].get)
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=[tuple(merge) for merge in model["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(piece, normalized=False, special=True) for piece in pieces[:3]])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", pieces.index("<s>"))]
    )
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS[:40], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


def from_gguf(path):
    """A byte-level BPE tokenizer with single digits, as SmolLM2's, from the metadata of a GGUF file."""
    import gguf

    fields = gguf.GGUFReader(path).fields

    def field(name):
        return fields[f"tokenizer.ggml.{name}"].contents()

    if (field("model"), field("pre")) != ("gpt2", "smollm"):
        raise SystemExit(f"expected a SmolLM tokenizer, got {field('model')}/{field('pre')}")
    pieces = field("tokens")
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=[tuple(merge.split(" ")) for merge in field("merges")],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = 3  # the type of special tokens in GGUF
    special = [piece for piece, kind in zip(pieces, field("token_type")) if kind == control]
    tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False) for piece in special])
    return tokenizer


def write_ids(tokenizer, path):
    cases = []
    for text in CORPUS:
        ids = tokenizer.encode(text, add_special_tokens=True).ids
        cases.append(
            {
                "text": text,
                "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                "ids_with_special": ids,
                "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                "decoded_without_special": tokenizer.decode(ids, skip_special_tokens=True),
            }
        )
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f'{{"tokenizers": "{tokenizers.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{path.name}: {sum(len(case['ids']) for case in cases)} ids for {len(cases)} texts")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gguf", type=pathlib.Path, metavar="MODEL")
    arguments = parser.parse_args()
    if arguments.gguf:
        write_ids(from_gguf(arguments.gguf), HERE / "starter_ids.json")
        return
    (HERE / "tokenizers").mkdir(exist_ok=True)
    for make in (byte_level, sentencepiece_bpe, unigram):
        tokenizer = make()
        tokenizer.save(str(HERE / "tokenizers" / f"{make.__name__}.json"), pretty=False)
        write_ids(tokenizer, HERE / f"{make.__name__}_ids.json")


if __name__ == "__main__":
    main()

"""The tokenizer of models with random weights: that of a GGUF file, at any size, in the form of either side."""

import dataclasses
import pathlib

import gguf

NORMAL, CONTROL = int(gguf.TokenType.NORMAL), int(gguf.TokenType.CONTROL)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """Byte-level BPE that splits off single digits first: the pre-tokenizer that GGUF files call smollm."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    end: int  # id that ends an answer

    def sized(self, size: int) -> "Vocabulary":
        """Padded with entries that no text is made of, so that random ids have something to say; or the first ones, and
        the merges that need no others."""
        more = [f"~{i}" for i in range(len(self.tokens), size)]
        tokens = self.tokens[:size] + more
        known = set(tokens)
        merges = [merge for merge in self.merges if merge.replace(" ", "") in known and known.issuperset(merge.split())]
        return Vocabulary(tokens, self.types[:size] + [NORMAL] * len(more), merges, self.end)

    def add_to(self, writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        writer.add_token_merges(self.merges)
        writer.add_eos_token_id(self.end)
        writer.add_add_bos_token(False)

    def tokenizer_json(self) -> dict:
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": i, "content": token} | plain for i, token in enumerate(self.tokens)
                             if self.types[i] == CONTROL],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence",
                              "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level]},
            "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {token: i for i, token in enumerate(self.tokens)}, "merges": self.merges},
        }  # fmt: skip


def read_vocabulary(path: pathlib.Path) -> Vocabulary:
    """Of a GGUF file whose pre-tokenizer is smollm."""
    fields = gguf.GGUFReader(path).fields

    def field(name):
        return fields["tokenizer.ggml." + name].contents()

    if field("pre") != "smollm":
        raise ValueError(f"{path}: expected the pre-tokenizer smollm, got {field('pre')}")
    return Vocabulary(field("tokens"), field("token_type"), field("merges"), field("eos_token_id"))

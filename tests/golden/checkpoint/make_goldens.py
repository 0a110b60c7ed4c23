"""Makes the files beside it: small GGUF files and what an independent reader says about them.

  block_types.gguf          a llama of three layers whose matrices have every block type that we read
  block_types.safetensors   the same matrices, dequantized by gguf-py in float32, rows in Hugging Face's order
  sentencepiece.gguf        the vocabulary of a SentencePiece BPE model trained on the text below
  sentencepiece_merges.json the merges that the transformers library derives from its scores

Everything is seeded. Run it again only to add a case: pip install gguf numpy safetensors sentencepiece transformers
"""

import io
import json
import pathlib

import gguf
import numpy as np
import sentencepiece
from gguf import GGMLQuantizationType as Type
from safetensors.numpy import save_file
from transformers.tokenization_utils_base import generate_merges

HERE = pathlib.Path(__file__).parent
HIDDEN, INTERMEDIATE, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 256, 32, 2, 1, 4, 4
MAX_ROWS = 8  # of a matrix in the expected values, to keep them small
RNG = np.random.default_rng(20261129)


def random_k_blocks(shape, block_type):
    """Random bits with sane scales: gguf-py cannot quantize to these types, only back."""
    block, size = gguf.GGML_QUANT_SIZES[block_type]
    raw = RNG.integers(0, 256, (shape[0], shape[1] // block, size), dtype=np.uint8)
    halves = {Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}[block_type]
    for at in halves:
        scale = RNG.uniform(-0.02, 0.02, raw.shape[:2]).astype(np.float16)
        raw[..., at : at + 2] = scale[..., None].view(np.uint8)
    return raw.reshape(shape[0], -1)


def encode(shape, block_type):
    """Stored bytes and their float32 values."""
    values = RNG.normal(0, 0.1, shape).astype(np.float32)
    if block_type in (Type.Q4_K, Type.Q5_K, Type.Q6_K):
        raw = random_k_blocks(shape, block_type)
    elif block_type == Type.F32:
        raw = values
    elif block_type == Type.F16:
        raw = values.astype(np.float16)
    else:
        raw = gguf.quants.quantize(values, block_type)
    return raw, gguf.quants.dequantize(raw, block_type).astype(np.float32).reshape(shape)


def hugging_face_rows(values, heads):
    """(heads, dim / 2, 2) to (heads, 2, dim / 2)."""
    dim = values.shape[0] // heads
    return values.reshape(heads, dim // 2, 2, -1).swapaxes(1, 2).reshape(values.shape)


def make_block_types():
    writer = gguf.GGUFWriter(HERE / "block_types.gguf", "llama")
    writer.add_block_count(3)
    writer.add_context_length(64)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(["a", "b", "ab", "<end>"])
    writer.add_token_types([1, 1, 1, 3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(3)

    expected = {}

    def add(name, hf_name, shape, block_type, heads=0):
        raw, values = encode(shape, block_type)
        if block_type in (Type.F32, Type.F16):
            writer.add_tensor(name + ".weight", raw)
        else:
            writer.add_tensor(name + ".weight", raw, raw_shape=raw.shape, raw_dtype=block_type)
        if heads:
            values = hugging_face_rows(values, heads)
        kept = MAX_ROWS if values.ndim == 2 else None
        expected[hf_name] = np.ascontiguousarray(values[:kept])

    #          q          k          v          gate       up         down
    types = [
        (Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.Q4_0, Type.Q4_1, Type.Q5_0),
        (Type.Q6_K, Type.Q4_0, Type.F16, Type.Q5_1, Type.Q8_0, Type.Q5_1),
        (Type.BF16, Type.F32, Type.Q8_0, Type.Q4_K, Type.Q5_K, Type.Q4_1),
    ]
    add("token_embd", "model.embed_tokens", (VOCAB, HIDDEN), Type.Q8_0)
    add("output_norm", "model.norm", (HIDDEN,), Type.F32)
    for layer, (q, k, v, gate, up, down) in enumerate(types):
        blk, hf = f"blk.{layer}.", f"model.layers.{layer}."
        add(blk + "attn_norm", hf + "input_layernorm", (HIDDEN,), Type.F32)
        add(blk + "ffn_norm", hf + "post_attention_layernorm", (HIDDEN,), Type.F32)
        add(blk + "attn_q", hf + "self_attn.q_proj", (HEADS * HEAD_DIM, HIDDEN), q, HEADS)
        add(blk + "attn_k", hf + "self_attn.k_proj", (KV_HEADS * HEAD_DIM, HIDDEN), k, KV_HEADS)
        add(blk + "attn_v", hf + "self_attn.v_proj", (KV_HEADS * HEAD_DIM, HIDDEN), v)
        add(blk + "attn_output", hf + "self_attn.o_proj", (HIDDEN, HEADS * HEAD_DIM), Type.F16)
        add(blk + "ffn_gate", hf + "mlp.gate_proj", (INTERMEDIATE, HIDDEN), gate)
        add(blk + "ffn_up", hf + "mlp.up_proj", (INTERMEDIATE, HIDDEN), up)
        add(blk + "ffn_down", hf + "mlp.down_proj", (HIDDEN, INTERMEDIATE), down)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(expected, HERE / "block_types.safetensors")


TEXT = """The quick brown fox jumps over the lazy dog. A journey of a thousand miles begins with a single step.
Numbers such as 1, 12, 123 and 2026 appear here; so do words like naïve, café and jalapeño.
To be, or not to be, that is the question: whether it is nobler in the mind to suffer or to act.
for (int i = 0; i < 10; ++i) { total += values[i]; }
"""


def make_sentencepiece():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT.splitlines() * 4), model_writer=model, vocab_size=420, model_type="bpe",
        byte_fallback=True, character_coverage=1.0, user_defined_symbols=["<tool>"], num_threads=1,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)  # fmt: skip
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    tokens, scores, types = [], [], []
    for i in range(processor.get_piece_size()):
        tokens.append(processor.id_to_piece(i))
        scores.append(processor.get_score(i))
        kind = gguf.TokenType.NORMAL
        if processor.is_unknown(i):
            kind = gguf.TokenType.UNKNOWN
        elif processor.is_control(i):
            kind = gguf.TokenType.CONTROL
        elif processor.is_byte(i):
            kind = gguf.TokenType.BYTE
        elif tokens[-1] == "<tool>":
            kind = gguf.TokenType.USER_DEFINED
        types.append(kind)
    writer = gguf.GGUFWriter(HERE / "sentencepiece.gguf", "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(processor.bos_id())
    writer.add_eos_token_id(processor.eos_id())
    writer.add_unk_token_id(processor.unk_id())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    vocabulary = {token: i for i, token in enumerate(tokens)}
    others = {token for token, kind in zip(tokens, types) if kind != gguf.TokenType.NORMAL}
    merges = generate_merges(vocabulary, dict(zip(tokens, scores)), others)
    with open(HERE / "sentencepiece_merges.json", "w", encoding="utf-8") as file:
        json.dump([list(pair) for pair in merges], file, ensure_ascii=False, separators=(",", ":"))
    return model.getvalue()


if __name__ == "__main__":
    make_block_types()
    make_sentencepiece()

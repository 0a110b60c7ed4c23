"""The reference of the numerics gate: a float64 forward pass of a llama-type GGUF file, written down from the
definition and sharing nothing with Redpoll but the file."""

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize


class Reference:
    def __init__(self, path):
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        if fields["general.architecture"] != "llama" or "llama.rope.scaling.type" in fields:
            raise ValueError(f"{path}: the reference knows only the llama architecture without scaled rope")
        self.num_layers = fields["llama.block_count"]
        self.num_heads = fields["llama.attention.head_count"]
        self.num_kv_heads = fields["llama.attention.head_count_kv"]
        self.epsilon = fields["llama.attention.layer_norm_rms_epsilon"]
        self.theta = fields["llama.rope.freq_base"]
        self.weights = {}
        for tensor in reader.tensors:
            shape = [int(size) for size in reversed(tensor.shape)]
            values = dequantize(tensor.data, tensor.tensor_type).reshape(shape)
            self.weights[tensor.name.removesuffix(".weight")] = values.astype(np.float64)
        self.head = "output" if "output" in self.weights else "token_embd"

    def logits(self, ids):
        """(tokens) ids -> (tokens, vocabulary), each token seeing itself and those before it."""
        x = self.weights["token_embd"][ids]
        for layer in range(self.num_layers):
            block = f"blk.{layer}."
            x = x + self._attention(self._norm(x, block + "attn_norm"), block)
            h = self._norm(x, block + "ffn_norm")
            gate = self.product(h, block + "ffn_gate")
            h = gate / (1 + np.exp(-gate)) * self.product(h, block + "ffn_up")
            x = x + self.product(h, block + "ffn_down")
        return self.product(self._norm(x, "output_norm"), self.head)

    def stored(self, x):
        """What a cache would make of keys or values (heads, tokens, head_dim): here, nothing."""
        return x

    def product(self, x, name):
        return x @ self.weights[name].T

    def _norm(self, x, name):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon) * self.weights[name]

    def _attention(self, h, block):
        q = self._rotate(self._heads(self.product(h, block + "attn_q"), self.num_heads))
        k = self._rotate(self._heads(self.product(h, block + "attn_k"), self.num_kv_heads))
        v = self._heads(self.product(h, block + "attn_v"), self.num_kv_heads)
        k, v = self.stored(k), self.stored(v)
        share = self.num_heads // self.num_kv_heads
        scores = q @ k.repeat(share, axis=0).transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = shares @ v.repeat(share, axis=0)  # (heads, tokens, head_dim)
        return self.product(mixed.transpose(1, 0, 2).reshape(len(h), -1), block + "attn_output")

    @staticmethod
    def _heads(x, num_heads):
        return x.reshape(len(x), num_heads, -1).transpose(1, 0, 2)  # (heads, tokens, head_dim)

    def _rotate(self, x):
        """By position; GGUF files of this type keep the two values of a pair side by side."""
        num_tokens, dims = x.shape[1:]
        angles = np.arange(num_tokens)[:, None] * self.theta ** (-np.arange(0, dims, 2) / dims)
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = np.empty_like(x)
        turned[..., 0::2] = even * np.cos(angles) - odd * np.sin(angles)
        turned[..., 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return turned

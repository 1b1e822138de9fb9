"""A language model of some layers, as small ones are written, with Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nbfused as nf

from .block import jax_norm
from .program import Numbers, Program

__all__ = ["gpt"]

#: Parameters of a layer.
_EACH = 12


@dataclass(frozen=True)
class _Sizes:
    layers: int
    width: int
    heads: int
    batch: int
    length: int
    vocabulary: int

    def numbers(self) -> Numbers:
        rng = np.random.default_rng(3)
        width = self.width

        def weights(*shape: int) -> np.ndarray:
            return rng.normal(size=shape) * 0.02

        parameters = [weights(self.vocabulary, width), weights(self.length, width)]
        for _ in range(self.layers):
            parameters += [
                np.ones(width), np.zeros(width), weights(width, 3*width),
                np.zeros(3*width), weights(width, width), np.zeros(width),
                np.ones(width), np.zeros(width), weights(width, 4*width),
                np.zeros(4*width), weights(4*width, width), np.zeros(width)]
        parameters += [np.ones(width), np.zeros(width), weights(width, self.vocabulary)]
        tokens = rng.integers(self.vocabulary, size=(self.batch, self.length + 1))
        return parameters, [tokens[:, :-1].copy(), tokens[:, 1:].copy(),
                            np.tri(self.length, dtype=bool)], None

    def layer(self, k: int, parameters: Any) -> Any:
        return parameters[2 + _EACH*k:2 + _EACH*(k + 1)]

    def heads_of(self, qkv: Any) -> Any:
        return qkv.reshape(self.batch, self.length, 3, self.heads,
                           self.width // self.heads)

    def torch(self, parameters: Any, tokens: Any, targets: Any, mask: Any,
              attention: Any = None) -> Any:
        import torch.nn.functional as F

        norm = (self.width,)
        x = F.embedding(tokens, parameters[0]) + parameters[1]
        for k in range(self.layers):
            p = self.layer(k, parameters)
            qkv = self.heads_of(F.layer_norm(x, norm, *p[:2]) @ p[2] + p[3])
            q, keys, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
            mixed = attention(q, keys, v, mask) if attention else \
                F.scaled_dot_product_attention(q, keys, v, is_causal=True)
            x = x + (mixed.transpose(1, 2).reshape(x.shape) @ p[4] + p[5])
            x = x + (F.gelu(F.layer_norm(x, norm, *p[6:8]) @ p[8] + p[9]) @ p[10]
                     + p[11])
        logits = F.layer_norm(x, norm, *parameters[-3:-1]) @ parameters[-1]
        return F.cross_entropy(logits.reshape(-1, self.vocabulary),
                               targets.reshape(-1))

    def exact(self, parameters: Any, tokens: Any, targets: Any, mask: Any) -> Any:
        """Attention by its formula."""
        def attention(q: Any, keys: Any, v: Any, mask: Any) -> Any:
            scores = q @ keys.transpose(-1, -2) / q.shape[-1]**0.5
            return scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v

        return self.torch(parameters, tokens, targets, mask, attention)

    def jax(self, parameters: Any, tokens: Any, targets: Any, mask: Any) -> Any:
        import jax
        import jax.numpy as jnp

        x = parameters[0][tokens] + parameters[1]
        for k in range(self.layers):
            p = self.layer(k, parameters)
            qkv = self.heads_of(jax_norm(x, *p[:2]) @ p[2] + p[3])
            q, keys, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
            scores = q @ keys.transpose(0, 1, 3, 2) * (self.width // self.heads)**-0.5
            seen = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
            mixed = (seen @ v).transpose(0, 2, 1, 3).reshape(x.shape)
            x = x + (mixed @ p[4] + p[5])
            x = x + (jax.nn.gelu(jax_norm(x, *p[6:8]) @ p[8] + p[9], approximate=False)
                     @ p[10] + p[11])
        logits = jax_norm(x, *parameters[-3:-1]) @ parameters[-1]
        scores = jax.nn.log_softmax(logits.astype(jnp.float32))
        return -jnp.take_along_axis(scores, targets[..., None], -1).mean()


def _ours(heads: int, parameters: Any, tokens: Any, targets: Any, mask: Any) -> Any:
    """With no more than numbers around it: `nf.fuse` knows that these stay."""
    ops, width = nf.ops, parameters[0].shape[1]
    x = ops.take(parameters[0], tokens, axis=0) + parameters[1]
    for first in range(2, len(parameters) - 3, _EACH):
        p = parameters[first:first + _EACH]
        qkv = ops.linear(ops.layer_norm(x, *p[:2]), *p[2:4]).reshape(
            *tokens.shape, 3, heads, width // heads)
        q, keys, v = (ops.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3))
        scores = ops.matmul(q, ops.transpose(keys, (0, 1, 3, 2))) \
            * (width // heads)**-0.5
        seen = ops.softmax(ops.where(mask, scores, -1e9), axis=-1)
        mixed = ops.transpose(ops.matmul(seen, v), (0, 2, 1, 3)).reshape(x.shape)
        x = x + ops.linear(mixed, *p[4:6])
        inner = ops.linear(ops.layer_norm(x, *p[6:8]), p[8], p[9], activation="gelu")
        x = x + ops.linear(inner, *p[10:])
    logits = ops.matmul(ops.layer_norm(x, *parameters[-3:-1]), parameters[-1])
    return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def gpt(name: str, *, layers: int, width: int, heads: int, batch: int, length: int,
        vocabulary: int, dtype: str = "float32") -> Program:
    """A model of these sizes; attention is causal."""
    s = _Sizes(layers, width, heads, batch, length, vocabulary)

    def ours(parameters: Any, *given: Any) -> Any:
        return _ours(heads, parameters, *given)

    return Program(name, s.numbers, ours, s.torch, s.jax, s.exact, dtype)

"""The programs that are measured, by device."""

from __future__ import annotations

from .block import block
from .gpt import gpt
from .mlp import mlp
from .program import Program
from .swish import swish

__all__ = ["PROGRAMS"]

PROGRAMS: dict[str, tuple[Program, ...]] = {
    "cuda": (
        mlp("mlp 64x256x256x10", 64, 64, 256, 256, 10),
        mlp("mlp 4096x1024x4096x1000 bfloat16", 4096, 1024, 4096, 1000,
            dtype="bfloat16"),
        block("block 8192x2048x8192 bfloat16", 8192, 2048, 8192, "bfloat16"),
        gpt("gpt 4 layers bfloat16", layers=4, width=768, heads=12, batch=8,
            length=1024, vocabulary=32000, dtype="bfloat16"),
        swish("swish 67M", 1 << 26)),
    "cpu": (
        mlp("mlp 16x32x32x10", 16, 16, 32, 32, 10),
        mlp("mlp 64x256x256x10", 64, 64, 256, 256, 10),
        block("block 256x256x1024", 256, 256, 1024),
        gpt("gpt 2 layers", layers=2, width=64, heads=4, batch=2, length=64,
            vocabulary=256),
        swish("swish 10M", 10_000_000)),
}

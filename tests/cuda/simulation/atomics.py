"""Stand-ins for atomics on global memory, and for the bits of 16-bit floats."""

from __future__ import annotations

from functools import partial

import numpy as np

__all__ = ["add", "add_half", "bits", "fetches", "value"]


def add(pointer, index, value):
    pointer[index] += value


def add_half(dtype):
    def add(pointer, index, x):
        pointer[index] = bits(dtype, value(dtype, pointer[index]) + x)
    return add


def _fetch(op, decode=None, encode=None):
    def fetch(pointer, index, *values):
        old = pointer[index] if decode is None else decode(pointer[index])
        new = UPDATES[op](old, *values)
        pointer[index] = new if encode is None else encode(new)
        return old
    return fetch


UPDATES = {
    "add": lambda old, x: old + x, "exch": lambda old, x: x,
    "min": lambda old, x: np.minimum(old, x), "max": lambda old, x: np.maximum(old, x),
    "and": lambda old, x: old & x, "or": lambda old, x: old | x,
    "xor": lambda old, x: old ^ x,
    "cas": lambda old, compare, x: x if old == compare else old,
}


def fetches():
    """What `nbfused.cuda.isa.raw_intrinsics` calls ``fetch_add`` and so on."""
    from ml_dtypes import bfloat16

    found = {f"fetch_{op}": _fetch(op) for op in UPDATES}
    for name, dtype in (("f16", np.float16), ("bf16", bfloat16)):
        found |= {f"fetch_{op}_{name}": _fetch(op, partial(value, dtype),
                                               partial(bits, dtype)) for op in UPDATES}
    return found


def bits(dtype, x):
    return np.asarray(x, dtype).view(np.uint16)[()]


def value(dtype, x):
    return np.asarray(x, np.uint16).view(dtype).astype(np.float32)[()]

"""A warp in NumPy: what the PTX that `nbfused.cuda.isa.mma` writes does in 32 lanes.

A register is an array of 32 values.  Layouts of fragments are those of the PTX manual's
figures for ``ldmatrix`` and ``mma``, written here a second time.
"""

from __future__ import annotations

import re

import numpy as np
from ml_dtypes import bfloat16

LANES = np.arange(32)
KINDS = {"f32": np.float32, "f64": np.float64, "b16": np.uint32}


class Builder:
    """What `nbfused.cuda.isa.mma` asks of llvmlite's, on arrays."""

    def bitcast(self, value, kind):
        return value.view(np.float32 if str(kind) == "float" else np.uint32)

    def fma(self, a, b, c):
        return a*b + c

    def xor(self, value, constant):
        return value ^ constant.constant


class Warp:
    """Shared memory, and the instructions.

    Parameters
    ----------
    size
        Bytes of shared memory.
    """

    def __init__(self, size):
        self.memory = np.full(size, 0xFF, np.uint8)  # NaN

    def view(self, dtype):
        return self.memory.view(dtype)

    def several(self, builder, kind, count, text, inputs, *values):
        """In place of `inline_ptx.several`."""
        if text.startswith("mma"):
            return self.mma(text, values)
        at = values[0] + int(re.search(r"\+(\d+)\]", text)[1])
        if text.startswith("ldmatrix"):
            return self.matrices(at, ".trans" in text)
        dtype = np.dtype(KINDS[text.split(" ")[0][-3:]])
        assert (at % (count*dtype.itemsize) == 0).all(), "a load is not aligned"
        return [self.view(dtype)[at//dtype.itemsize + k] for k in range(count)]

    def asm(self, builder, result, text, constraints, *values, effect=False):
        """In place of `inline_ptx.asm`."""
        if text.startswith("cvt.rna.tf32"):
            (x,) = values
            return (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        found = re.match(r"st(?:\.volatile)?\.shared(?:\.v\d)?\.(f\d\d) "
                         r"\[\$0\+(\d+)\]", text)
        at, dtype = values[0] + int(found[2]), np.dtype(KINDS[found[1]])
        for k, value in enumerate(values[1:]):
            self.view(dtype)[at//dtype.itemsize + k] = value
        return None

    def matrices(self, at, transposed):
        """Four of 8 rows: lanes 8j to 8j + 7 say where those of matrix j are."""
        assert (at % 16 == 0).all(), "a row is not aligned"
        found = []
        for j in range(4):
            rows = np.stack([self.memory[a:a + 16].view(np.uint16)
                             for a in at[8*j:8*j + 8]])
            rows = rows.T if transposed else rows
            pairs = np.ascontiguousarray(rows).view(np.uint32)
            found.append(pairs[LANES//4, LANES % 4])
        return found

    def mma(self, text, values):
        """A product of fragments."""
        if ".f64" in text:
            return self._doubles(text, values)
        a, b, c = values[:4], values[4:6], values[6:]
        per = 1 if "tf32" in text else 2  # elements of a register
        dtype = np.float32 if per == 1 else bfloat16 if "bf16" in text else np.float16
        left = np.zeros((16, 8*per), np.float32)
        right = np.zeros((8*per, 8), np.float32)
        for r, word in enumerate(a):
            row, k = LANES//4 + 8*(r % 2), (LANES % 4 + 4*(r//2))*per
            for e in range(per):
                left[row, k + e] = _element(word, e, dtype)
        for r, word in enumerate(b):
            for e in range(per):
                right[(LANES % 4 + 4*r)*per + e, LANES//4] = _element(word, e, dtype)
        d = left @ right
        return [c[r] + d[LANES//4 + 8*(r//2), 2*(LANES % 4) + r % 2] for r in range(4)]

    def _doubles(self, text, values):
        """Of float64: parts of 8 rows, and of 4 places along k."""
        rows, depth = map(int, re.search(r"m(\d+)n8k(\d+)", text).groups())
        down, count = rows//8, rows*depth//32
        a, b, c = values[:count], values[count:-2*down], values[-2*down:]
        left, right = np.zeros((rows, depth)), np.zeros((depth, 8))
        for r, x in enumerate(a):
            left[LANES//4 + 8*(r % down), LANES % 4 + 4*(r//down)] = x
        for r, x in enumerate(b):
            right[LANES % 4 + 4*r, LANES//4] = x
        d = left @ right
        return [x + d[LANES//4 + 8*(r//2), 2*(LANES % 4) + r % 2]
                for r, x in enumerate(c)]


def _element(word, which, dtype):
    if dtype == np.float32:
        return word.view(np.float32)
    return np.ascontiguousarray(word).view(dtype).reshape(32, 2)[:, which]

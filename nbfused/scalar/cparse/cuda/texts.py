"""Functions of CUDA's that give more than one value, written in C."""

from __future__ import annotations

import re

__all__ = ["CUDA_FUNCTIONS", "CUDA_TEXT"]

_FUNCTIONS = {
    "sincos": "*s = sin(x); *c = cos(x);",
    "sincospi": "*s = sinpi(x); *c = cospi(x);",
}

#: A text that may call one of them.
CUDA_FUNCTIONS = re.compile("|".join(_FUNCTIONS))

#: Their definitions; a preamble may have functions of the same names.
CUDA_TEXT = "".join(
    f"template <typename T> void __cuda_{name}(T x, T* s, T* c) {{ {body} }}\n"
    f"void __cuda_{name}f(float x, float* s, float* c) {{ {body} }}\n"
    for name, body in _FUNCTIONS.items())

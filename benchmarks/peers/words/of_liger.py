"""The families by Liger's Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from liger_kernel.transformers.functional import (
    liger_cross_entropy,
    liger_fused_add_rms_norm,
    liger_layer_norm,
    liger_rms_norm,
    liger_softmax,
    liger_swiglu,
)

from ..workload import Workload

__all__ = ["FAMILIES", "OVERWRITES"]

Function = Callable[..., Any]

#: Its forward pass writes the gradient over the logits: from the second call on it
#: computes from what it wrote, which takes as long.
OVERWRITES = {"cross_entropy"}


def _simple(function: Function) -> Callable[[Workload, Sequence[Any]], Function]:
    return lambda work, arrays: function


FAMILIES: dict[str, Callable[[Workload, Sequence[Any]], Function]] = {
    "layer_norm": _simple(lambda x, w, b: liger_layer_norm(x, w, b, 1e-5)),
    "rms_norm": _simple(lambda x, w: liger_rms_norm(x, w, 1e-6, in_place=False)),
    "softmax": _simple(liger_softmax),
    "cross_entropy": _simple(liger_cross_entropy),
    "add_rms_norm": _simple(lambda x, r, w: liger_fused_add_rms_norm(
        x, r, w, 1e-6, in_place=False)[0]),
    "swiglu": _simple(lambda x, gate: liger_swiglu(gate, x)),
}

"""The workloads by Liger's Triton kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from liger_kernel.ops.cross_entropy import LigerCrossEntropyFunction
from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction
from liger_kernel.ops.layer_norm import LigerLayerNormFunction
from liger_kernel.ops.rms_norm import LigerRMSNormFunction
from liger_kernel.ops.softmax import LigerSoftmaxFunction
from liger_kernel.ops.swiglu import LigerSiLUMulFunction

from ..workload import Workload

__all__ = ["FAMILIES", "OVERWRITES"]

Function = Callable[..., Any]

#: Gradients are written over the logits, and over both inputs of swiglu: from the
#: second call on it computes from what it wrote, which takes as long.
OVERWRITES = {"cross_entropy", "swiglu"}


def _simple(function: Function) -> Callable[[Workload, Sequence[Any]], Function]:
    return lambda work, arrays: function


#: Gradients are not written over cotangents, which the next call needs again.
APART = (0.0, "llama", False)

FAMILIES: dict[str, Callable[[Workload, Sequence[Any]], Function]] = {
    "layer_norm": _simple(lambda x, w, b: LigerLayerNormFunction.apply(x, w, b, 1e-5)),
    "rms_norm": _simple(lambda x, w: LigerRMSNormFunction.apply(x, w, 1e-6, *APART)),
    "softmax": _simple(LigerSoftmaxFunction.apply),
    "cross_entropy": _simple(
        lambda x, labels: LigerCrossEntropyFunction.apply(x, labels, None)[0]),
    "add_rms_norm": _simple(
        lambda x, r, w: LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-6, *APART)[0]),
    "swiglu": _simple(lambda x, gate: LigerSiLUMulFunction.apply(gate, x)),
}

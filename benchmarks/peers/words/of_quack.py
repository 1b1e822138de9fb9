"""The workloads by quack's CuTe kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from quack import cross_entropy, rmsnorm, softmax
from quack.rmsnorm import layernorm_bwd, layernorm_fwd

from ..workload import Workload

__all__ = ["FAMILIES"]

Function = Callable[..., Any]


class _LayerNorm(torch.autograd.Function):
    """An autograd function that joins quack's two passes of layer norm."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, wide: Any) -> Any:
        y, rstd, mean = layernorm_fwd(x, *wide, 1e-5, True, True)
        ctx.save_for_backward(x, wide[0], rstd, mean)
        ctx.dtype = weight.dtype
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, rstd, mean = ctx.saved_tensors
        dx, dw, db = layernorm_bwd(x, weight, g, rstd, mean)
        return dx, dw.to(ctx.dtype), db.to(ctx.dtype), None


def _layer_norm(work: Workload, arrays: Sequence[Any]) -> Function:
    """Layer norm; weight and bias are converted to float32 ahead."""
    wide = tuple(a.float() for a in arrays[1:])
    if work.both:
        return lambda x, w, b: _LayerNorm.apply(x, w, b, wide)
    return lambda x, w, b: layernorm_fwd(x, *wide, 1e-5)


def _simple(function: Function) -> Callable[[Workload, Sequence[Any]], Function]:
    return lambda work, arrays: function


FAMILIES: dict[str, Callable[[Workload, Sequence[Any]], Function]] = {
    "layer_norm": _layer_norm,
    "rms_norm": _simple(lambda x, w: rmsnorm(x, w, eps=1e-6)),
    "softmax": _simple(softmax),
    "cross_entropy": _simple(cross_entropy),
    "add_rms_norm": _simple(lambda x, r, w: rmsnorm(x, w, residual=r, eps=1e-6)),
}

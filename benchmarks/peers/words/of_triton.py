"""The workloads in Triton, written as its tutorials do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton

from ..workload import Workload
from . import triton_kernels as kernels

__all__ = ["FAMILIES"]

Function = Callable[..., Any]

#: Elements of a program of an elementwise kernel, and of a reduction over everything.
BLOCK = 4096
#: Longest row that one program keeps.
ROW = 32768


def swish(x: Any) -> Any:
    """``x·sigmoid(x)``."""
    y = torch.empty_like(x)
    kernels.swish[(triton.cdiv(x.numel(), BLOCK),)](x, y, x.numel(), BLOCK, num_warps=8)
    return y


class _SwishSum(torch.autograd.Function):
    """Swish whose upstream gradient is one number, as that of a sum."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return total(swish(x))

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), BLOCK),)
        kernels.swish_gradient[grid](x, g, dx, x.numel(), BLOCK, num_warps=8)
        return dx


def squared_diff(x: Any, y: Any) -> Any:
    """``(x - y)²``."""
    z = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    kernels.squared_diff[grid](x, y, z, x.numel(), BLOCK, num_warps=8)
    return z


def total(x: Any) -> Any:
    """Sum of all elements: partial sums of some programs, then one program."""
    programs = min(4*_multiprocessors(x), triton.cdiv(x.numel(), BLOCK))
    partial = torch.empty(programs, device=x.device, dtype=torch.float32)
    result = torch.empty((), device=x.device, dtype=x.dtype)
    kernels.partial_sums[(programs,)](x, partial, x.numel(), programs, BLOCK,
                                      num_warps=8)
    kernels.last_sum[(1,)](partial, result, programs, triton.next_power_of_2(programs))
    return result


def squared_sums(x: Any, y: Any, axis: int, root: bool) -> Any:
    """``Σ (x - y)²`` along an axis, or its root; ``Σ x²`` without `y`."""
    rows, columns = x.shape
    result = torch.empty(rows if axis else columns, device=x.device, dtype=x.dtype)
    if axis:
        kernels.row_squares[(rows,)](x, y, result, columns, x is not y, root, 4096,
                                     num_warps=8)
        return result
    parts = 64
    partial = torch.empty(parts, columns, device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(columns, 128), parts)
    kernels.column_squares[grid](x, y, partial, rows, columns, x is not y,
                                 triton.cdiv(rows, parts), 128, 16)
    kernels.column_sums[(triton.cdiv(columns, 64),)](
        partial, result, parts, columns, root, 64, 64)
    return result


class _Norm(torch.autograd.Function):
    """Layer norm; rms norm if there is no bias."""

    @staticmethod
    def forward(ctx: Any, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        rows, columns = x.shape
        y = torch.empty_like(x)
        mean, scale = torch.empty(2, rows, device=x.device, dtype=torch.float32)
        kernels.norm[(rows,)](x, weight, weight if bias is None else bias, y, mean,
                              scale, columns, eps, bias is not None, **_row(columns))
        ctx.save_for_backward(x, weight, mean, scale)
        ctx.centred = bias is not None
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, weight, mean, scale = ctx.saved_tensors
        rows, columns = x.shape
        dx = torch.empty_like(x)
        programs = min(_multiprocessors(x)*(1 if columns > 8192 else 2), rows)
        partial = torch.empty(2, programs, columns, device=x.device,
                              dtype=torch.float32)
        kernels.norm_gradient[(programs,)](
            x, weight, g, mean, scale, dx, partial[0], partial[1], rows, columns,
            ctx.centred, **_row(columns))
        dw = partial[0].sum(0).to(weight.dtype)
        return dx, dw, partial[1].sum(0).to(weight.dtype) if ctx.centred else None, None


class _Softmax(torch.autograd.Function):
    """Softmax of rows, or its logarithm if `logged`."""

    @staticmethod
    def forward(ctx: Any, x: Any, logged: bool) -> Any:
        y = torch.empty_like(x)
        kernels.softmax[(x.shape[0],)](x, y, x.shape[1], logged, **_row(x.shape[1]))
        ctx.save_for_backward(y)
        ctx.logged = logged
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        dx = torch.empty_like(y)
        kernels.softmax_gradient[(y.shape[0],)](y, g, dx, y.shape[1], ctx.logged,
                                                **_row(y.shape[1]))
        return dx, None


def _row(columns: int) -> dict[str, int]:
    block = triton.next_power_of_2(columns)
    return {"BLOCK": block, "num_warps": min(max(block//1024, 4), 32)}


def _multiprocessors(x: Any) -> int:
    return int(torch.cuda.get_device_properties(x.device).multi_processor_count)


def _simple(function: Function) -> Callable[[Workload, Sequence[Any]], Function]:
    return lambda work, arrays: function


def _rows(function: Function) -> Callable[[Workload, Sequence[Any]], Function | None]:
    return lambda work, arrays: function if arrays[0].shape[-1] <= ROW else None


def _squares(root: bool) -> Callable[[Workload, Sequence[Any]], Function]:
    def make(work: Workload, arrays: Sequence[Any]) -> Function:
        axis = work.options["axis"]
        return lambda *xs: squared_sums(xs[0], xs[-1], axis, root)

    return make


FAMILIES: dict[str, Callable[[Workload, Sequence[Any]], Function | None]] = {
    "swish": _simple(swish),
    "swish_sum": _simple(_SwishSum.apply),
    "squared_diff": _simple(squared_diff),
    "squared_distance": _squares(root=False),
    "l2norm": _squares(root=True),
    "sum": _simple(total),
    "layer_norm": _rows(lambda x, w, b: _Norm.apply(x, w, b, 1e-5)),
    "rms_norm": _rows(lambda x, w: _Norm.apply(x, w, None, 1e-6)),
    "softmax": _rows(lambda x: _Softmax.apply(x, False)),
    "log_softmax": _rows(lambda x: _Softmax.apply(x, True)),
}

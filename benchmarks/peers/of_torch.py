"""The families by PyTorch; in float64 they are the reference for everybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from .workloads import cotangent_of

__all__ = ["FAMILIES", "both", "reference", "tensors"]


def tensors(arrays: Sequence[np.ndarray], dtype: str, device: str) -> list[Any]:
    """Copies on the device; floats in `dtype`."""
    found = [torch.from_numpy(a) for a in arrays]
    return [t.to(device, getattr(torch, dtype)) if t.is_floating_point()
            else t.to(device) for t in found]


def both(function: Callable[..., Any], given: Sequence[Any]) -> Callable[[], Any]:
    """A call that gives the gradients."""
    leaves = [t.requires_grad_() if t.is_floating_point() else t for t in given]
    result = function(*leaves).detach()
    cotangent = torch.from_numpy(cotangent_of(tuple(result.shape))).to(result)

    def call() -> list[Any]:
        result = function(*leaves)
        wanted = [t for t in leaves if t.requires_grad]
        return list(torch.autograd.grad(result, wanted, cotangent))

    return call


_KEPT: dict[Any, Any] = {}


def swish(x: Any, into: bool = False) -> Any:
    """`into`: a tensor that is kept; PyTorch has no ``out=`` but its operator has."""
    if not into or x.dtype == torch.float64:
        return F.silu(x)
    out = _KEPT.setdefault(x.shape, torch.empty_like(x))
    return torch.ops.aten.silu.out(x, out=out)


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu, "gelu": F.gelu, "swish": F.silu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


def linear(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """With the epilogue of cuBLASLt where PyTorch offers it."""
    fused = activation in ("relu", "gelu_tanh") and x.is_cuda \
        and x.dtype in (torch.float16, torch.bfloat16) and not x.requires_grad
    if fused:
        return torch._addmm_activation(bias, x, weight,
                                       use_gelu=activation == "gelu_tanh")
    return _ACTIVATIONS[activation](torch.addmm(bias, x, weight))


def add_rms_norm(x: Any, residual: Any, weight: Any) -> Any:
    """The first of two results."""
    return F.rms_norm(x + residual, weight.shape, weight, 1e-6)


def adam_step(p: Any, g: Any, m: Any, v: Any) -> None:
    """PyTorch's fused optimizer kernel."""
    step = torch.tensor(9.0)
    torch._fused_adam_([p], [g], [m], [v], [], [step], lr=1e-3, beta1=0.9, beta2=0.999,
                       weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)


FAMILIES: dict[str, Callable[..., Any]] = {
    "swish": swish,
    "swish_sum": lambda x: F.silu(x).sum(),
    "squared_diff": lambda x, y: (x - y)*(x - y),
    "squared_distance": lambda x, y, axis: ((x - y)*(x - y)).sum(axis),
    "l2norm": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
    "sum": torch.sum,
    "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "add_rms_norm": add_rms_norm,
    "swiglu": lambda x, gate: x*F.silu(gate),
    "cross_entropy": F.cross_entropy,
    "linear": linear,
    "matmul": torch.matmul,
    "batched_permuted": lambda a, b, bias, scale: (
        (torch.matmul(a, b) + bias)*scale).permute(1, 0, 2).contiguous(),
    "adam_step": adam_step,
}


def reference(family: str, options: dict[str, Any], arrays: Sequence[np.ndarray],
              dtype: str, device: str, gradients: bool) -> list[np.ndarray]:
    """The results in float64 on inputs rounded to `dtype`."""
    rounded = [t.double() if t.is_floating_point() else t
               for t in tensors(arrays, dtype, device)]
    function = partial(FAMILIES[family], **options)
    if gradients:
        return [t.cpu().numpy() for t in both(function, rounded)()]
    with torch.no_grad():
        return [function(*rounded).cpu().numpy()]

"""The workloads in PyTorch, which in float64 are the reference for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from ..inputs import cotangent_of
from ..workload import Workload

__all__ = ["COMPILED", "FAMILIES", "called", "reference", "tensors"]


def tensors(arrays: Sequence[Any]) -> list[torch.Tensor]:
    """Convert arrays to tensors, sharing memory if NumPy has the dtype."""
    return [a if isinstance(a, torch.Tensor) else _tensor(a) for a in arrays]


def _tensor(a: np.ndarray) -> torch.Tensor:
    if a.dtype.name != "bfloat16":
        return torch.from_numpy(a)
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)


def called(function: Callable[..., Any], work: Workload, given: Sequence[torch.Tensor],
           ) -> Callable[[], Any]:
    """A call of `function`, or of its derivative, that returns tensors.

    Gradients are those of leaves, as ours: none shares memory with the cotangent, which
    `torch.autograd.grad` gives back as the gradient of a sum.
    """
    torch.backends.cuda.matmul.allow_tf32 = work.dtype == "tfloat32"
    if not work.both:
        return torch.no_grad()(partial(function, *given))
    leaves = [t.detach().requires_grad_(t.is_floating_point()) for t in given]
    wanted = [t for t in leaves if t.requires_grad]
    cotangents: list[torch.Tensor] = []

    def call() -> list[torch.Tensor]:
        result = function(*leaves)
        if not cotangents:
            made = cotangent_of(tuple(result.shape), work.storage, str(result.device))
            cotangents.append(tensors([made])[0].to(result))
        for leaf in wanted:
            leaf.grad = None
        result.backward(cotangents[0])
        return [leaf.grad for leaf in wanted if leaf.grad is not None]

    return call


_KEPT: dict[Any, Any] = {}


def swish(x: Any, into: bool = False) -> Any:
    """Swish, stored to the kept tensor `into` through the raw operator's ``out=``."""
    if not into or x.dtype == torch.float64:
        return F.silu(x)
    if x.shape not in _KEPT:
        _KEPT[x.shape] = torch.empty_like(x)
    return torch.ops.aten.silu.out(x, out=_KEPT[x.shape])


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu, "gelu": F.gelu, "swish": F.silu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
}


def linear(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """A linear layer, with cuBLASLt's epilogue where PyTorch offers it."""
    fused = activation in ("relu", "gelu_tanh") and x.is_cuda and weight.ndim == 2 \
        and x.dtype in (torch.float16, torch.bfloat16) and not x.requires_grad
    if not fused:
        return _linear_plain(x, weight, bias, activation)
    y = torch._addmm_activation(bias, x.flatten(0, -2), weight,
                                use_gelu=activation == "gelu_tanh")
    return y.unflatten(0, x.shape[:-1])


def _linear_plain(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """A linear layer in plain operations: compiled, and the reference."""
    if weight.ndim > 2:
        return _ACTIVATIONS[activation](torch.baddbmm(bias, x, weight))
    y = torch.addmm(bias, x.flatten(0, -2), weight)
    return _ACTIVATIONS[activation](y).unflatten(0, x.shape[:-1])


def add_rms_norm(x: Any, residual: Any, weight: Any) -> Any:
    """The normalised sum, the first of the op's two results."""
    return F.rms_norm(x + residual, weight.shape, weight, 1e-6)


def adam_step(p: Any, g: Any, m: Any, v: Any) -> Any:
    """A step of PyTorch's fused Adam in place, the tenth."""
    step = torch.tensor(10.0, device=p.device)
    torch._fused_adam_([p], [g], [m], [v], [], [step], lr=1e-3, beta1=0.9, beta2=0.999,
                       weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    return p, m, v


def _adam_plain(p: Any, g: Any, m: Any, v: Any) -> Any:
    """A step of Adam in plain operations: compiled, and the reference."""
    m.lerp_(g, 0.1)
    v.mul_(0.999).addcmul_(g, g, value=0.001)
    p.addcdiv_(m, (v/(1 - 0.999**10)).sqrt() + 1e-8, value=-1e-3/(1 - 0.9**10))
    return p, m, v


_MAPS: dict[str, Callable[..., Any]] = {"relu": torch.relu, "gelu": F.gelu,
                                        "swish": F.silu}
_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, axis: torch.sum(x, axis),
    "mean": lambda x, axis: torch.mean(x, axis),
    "max": lambda x, axis: torch.amax(x, () if axis is None else axis),
    "var": lambda x, axis: torch.var(x, axis, correction=0),
    "norm": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
    "logsumexp": lambda x, axis: torch.logsumexp(
        x, tuple(range(x.ndim)) if axis is None else axis),
    "argmax": torch.argmax,
}

FAMILIES: dict[str, Callable[..., Any]] = {
    "swish": swish,
    "swish_sum": lambda x: F.silu(x).sum(),
    "squared_diff": lambda x, y: (x - y)*(x - y),
    "squared_distance": lambda x, y, axis: ((x - y)*(x - y)).sum(axis),
    "l2norm": lambda x, axis: torch.linalg.vector_norm(x, dim=axis),
    "sum": torch.sum,
    "layer_norm": lambda x, w, b: F.layer_norm(x, w.shape, w, b),
    "rms_norm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-6),
    "softmax": lambda x, axis=-1: F.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: F.log_softmax(x, axis),
    "add_rms_norm": add_rms_norm,
    "swiglu": lambda x, gate: x*F.silu(gate),
    "cross_entropy": F.cross_entropy,
    "linear": linear,
    "matmul": torch.matmul,
    "batched_permuted": lambda a, b, bias, scale: (
        (torch.matmul(a, b) + bias)*scale).permute(1, 0, 2).contiguous(),
    "adam_step": adam_step,
    "map": lambda x, function: (_MAPS.get(function) or getattr(torch, function))(x),
    "map2": lambda x, y, function: getattr(torch, function)(x, y),
    "ratio": lambda x, y: x/(1 + y*y),
    "reduce": lambda x, function, axis: _REDUCTIONS[function](x, axis),
    "take": lambda x, rows: x[rows],
}
#: The families as they are compiled.
COMPILED = {**FAMILIES, "adam_step": _adam_plain, "linear": _linear_plain}


def reference(work: Workload, arrays: Sequence[Any]) -> list[torch.Tensor]:
    """Compute a workload in float64 on the device of the arrays."""
    return _reference(work, _doubles(arrays))


def at_the_kink(work: Workload, arrays: Sequence[Any]) -> list[torch.Tensor]:
    """What rounding may do to derivatives by the kink of relu; empty: there is none.

    Differences of the results for a bias that is some rounding errors larger and
    smaller: a sum that is nearly 0 may have either sign.
    """
    if not work.both or work.options.get("activation") != "relu":
        return []
    x, weight, bias, *others = _doubles(arrays)
    sums = _linear_plain(x, weight, bias, "relu")
    eps = torch.finfo(torch.float64 if work.dtype == "float64" else torch.float32).eps
    near = eps*sums.abs().max()
    more, less = (_reference(work, [x, weight, bias + d, *others])
                  for d in (near, -near))
    return [(a - b).abs() for a, b in zip(more, less, strict=True)]


def _doubles(arrays: Sequence[Any]) -> list[torch.Tensor]:
    return [t.double() if t.is_floating_point() else t for t in tensors(arrays)]


def _reference(work: Workload, doubles: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    function = partial(COMPILED[work.family], **work.options)
    found = called(function, work, doubles)()
    return list(found) if isinstance(found, (list, tuple)) else [found]

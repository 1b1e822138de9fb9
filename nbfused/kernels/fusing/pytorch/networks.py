"""``torch.nn.functional``: activations, normalisations, losses, attention."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....registry.operations import NUMPY, OPS
from .dtypes import promoted
from .table import of_torch

__all__: list[str] = []

# Activations --------------------------------------------------------------------------


def _activation(name: str, function: Callable[..., Any]) -> None:
    """A function of each element; in place it is stored into the tensor."""

    def call(x: Any, *args: Any, inplace: bool = False, **options: Any) -> Any:
        try:
            made = promoted(lambda y: function(y, *args, **options), (x,))
        except TypeError:
            return NotImplemented
        if not inplace:
            return made
        x[...] = made
        return x

    of_torch(name)(call)


def _op(name: str) -> Callable[..., Any]:
    return lambda x: OPS[name](x)


def _softplus(x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    if beta == 1 and threshold == 20:
        return OPS["softplus"](x)
    scaled = OPS["multiply"](x, beta)
    return OPS["where"](OPS["greater"](scaled, threshold), x,
                        OPS["divide"](OPS["softplus"](scaled), beta))


def _hardtanh(x: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    x = OPS["where"](OPS["less_equal"](x, min_val), min_val, x)
    return OPS["where"](OPS["greater_equal"](x, max_val), max_val, x)


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    **{name: _op(name) for name in ("relu", "silu", "mish", "selu", "sigmoid", "tanh")},
    "hardswish": _op("hard_swish"),
    "gelu": lambda x, approximate="none": OPS["gelu"](x, approximate=approximate),
    "elu": lambda x, alpha=1.0: OPS["elu"](x, alpha),
    "leaky_relu": lambda x, negative_slope=0.01: OPS["leaky_relu"](x, negative_slope),
    "softplus": _softplus, "hardtanh": _hardtanh,
    "relu6": lambda x: _hardtanh(x, 0.0, 6.0),
    "softsign": lambda x: OPS["divide"](x, OPS["add"](1.0, OPS["absolute"](x))),
    "tanhshrink": lambda x: OPS["subtract"](x, OPS["tanh"](x)),
}
for _name, _function in ACTIVATIONS.items():
    _activation(_name, _function)


@of_torch()
def softmin(x: Any, dim: Any = None, _stacklevel: int = 3) -> Any:
    """The softmax of the negative."""
    return NotImplemented if dim is None else OPS["softmax"](
        OPS["negative"](x), axis=dim)


@of_torch()
def glu(x: Any, dim: int = -1) -> Any:
    """The first half of an axis by the sigmoid of the second."""
    if x.shape[dim] % 2:
        return NotImplemented
    first, second = NUMPY["numpy.split"](x, 2, axis=dim)
    return OPS["multiply"](first, OPS["sigmoid"](second))


@of_torch()
def dropout(x: Any, p: float = 0.5, training: bool = True,
            inplace: bool = False) -> Any:
    """The tensor itself, where nothing is dropped."""
    return x if not training or p == 0 else NotImplemented


# Layers -------------------------------------------------------------------------------


@of_torch()
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    """The product with a transposed matrix."""
    made = promoted(lambda a, w: OPS["matmul"](a, OPS["transpose"](w)), (x, weight))
    return made if bias is None else promoted(OPS["add"], (made, bias))


@of_torch()
def layer_norm(x: Any, normalized_shape: Any, weight: Any = None, bias: Any = None,
               eps: float = 1e-5) -> Any:
    """Rows with mean 0 and variance 1, scaled and shifted."""
    if len(normalized_shape) != 1 or tuple(normalized_shape) != tuple(x.shape[-1:]):
        return NotImplemented
    return OPS["layer_norm"](x, weight, bias, eps)


@of_torch()
def rms_norm(x: Any, normalized_shape: Any, weight: Any = None,
             eps: float | None = None) -> Any:
    """Rows divided by the root of their mean square, scaled."""
    if len(normalized_shape) != 1 or tuple(normalized_shape) != tuple(x.shape[-1:]):
        return NotImplemented
    if eps is None:
        if dtype_of(x).kind != "f":
            return NotImplemented
        eps = float(np.finfo(dtype_of(x)).eps)
    return OPS["rms_norm"](x, weight, eps)


@of_torch()
def normalize(x: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Any:
    """Vectors divided by their norm, or by `eps` if that is more."""
    if not isinstance(dim, int):
        return NotImplemented
    size = NUMPY["numpy.linalg.vector_norm"](x, axis=dim, keepdims=True, ord=p)
    return OPS["divide"](x, OPS["maximum"](size, eps))


@of_torch()
def embedding(indices: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None,
              norm_type: float = 2.0, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Any:
    """Rows of a table."""
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    return OPS["embedding"](weight, indices)


@of_torch()
def scaled_dot_product_attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
        is_causal: bool = False, scale: float | None = None,
        enable_gqa: bool = False) -> Any:
    """Attention, by its parts; a row that a mask leaves out whole is 0."""
    if dropout_p or enable_gqa or (is_causal and attn_mask is not None) or (
            attn_mask is not None and dtype_of(attn_mask).kind != "b"):
        return NotImplemented
    scale = 1/sqrt(query.shape[-1]) if scale is None else scale
    scores = OPS["multiply"](OPS["matmul"](query, NUMPY["numpy.swapaxes"](
        key, -1, -2)), scale)
    if is_causal:
        attn_mask = query.constant(
            np.tril(np.ones((query.shape[-2], key.shape[-2]), bool)))
    if attn_mask is None:
        return OPS["matmul"](OPS["softmax"](scores, axis=-1), value)
    # A finite number: of minus infinity alone the softmax and its gradient are NaN.
    low = -6e4 if dtype_of(scores).name == "float16" else -3e38
    weights = OPS["softmax"](OPS["where"](attn_mask, scores, low), axis=-1)
    return OPS["matmul"](OPS["where"](attn_mask, weights, 0.0), value)


# Losses -------------------------------------------------------------------------------


def _reduced(x: Any, reduction: str) -> Any:
    return x if reduction == "none" else OPS[reduction](x)


def _is_usual(size_average: Any, reduce: Any, reduction: str) -> bool:
    """Whether none of the old options is given."""
    return size_average is None and reduce is None and reduction in (
        "mean", "sum", "none")


def _of_differences(name: str, function: Callable[..., Any], *options: str) -> None:
    """A loss of the differences of two tensors of one shape."""

    def loss(x: Any, target: Any, size_average: Any = None, reduce: Any = None,
             reduction: str = "mean", weight: Any = None, **given: Any) -> Any:
        if not _is_usual(size_average, reduce, reduction) or weight is not None or \
                tuple(x.shape) != tuple(target.shape) or not given.keys() <= {*options}:
            return NotImplemented
        return _reduced(promoted(lambda a, b: function(a, b, **given), (x, target)),
                        reduction)

    of_torch(name)(loss)


def _huber(a: Any, b: Any, delta: float = 1.0) -> Any:
    size = OPS["absolute"](OPS["subtract"](a, b))
    return OPS["where"](OPS["less_equal"](size, delta),
                        OPS["multiply"](OPS["square"](size), 0.5),
                        OPS["multiply"](OPS["subtract"](size, 0.5*delta), delta))


def _with_logits(x: Any, target: Any) -> Any:
    return OPS["subtract"](OPS["softplus"](x), OPS["multiply"](x, target))


_of_differences("mse_loss", lambda a, b: OPS["square"](OPS["subtract"](a, b)))
_of_differences("l1_loss", lambda a, b: OPS["absolute"](OPS["subtract"](a, b)))
_of_differences("huber_loss", _huber, "delta")
_of_differences("binary_cross_entropy_with_logits", _with_logits)


@of_torch()
def smooth_l1_loss(x: Any, target: Any, size_average: Any = None, reduce: Any = None,
                   reduction: str = "mean", beta: float = 1.0) -> Any:
    """The loss of Huber, divided by its bound."""
    if not _is_usual(size_average, reduce, reduction) or beta <= 0 or \
            tuple(x.shape) != tuple(target.shape):
        return NotImplemented
    return _reduced(promoted(lambda a, b: OPS["divide"](_huber(a, b, beta), beta),
                             (x, target)), reduction)


@of_torch()
def cross_entropy(x: Any, target: Any, weight: Any = None, size_average: Any = None,
                  ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Any:
    """The cross entropy of rows of logits and labels."""
    if weight is not None or not _is_usual(size_average, reduce, reduction) or \
            x.ndim != 2 or target.ndim != 1 or dtype_of(target).kind not in "iu":
        return NotImplemented
    return OPS["cross_entropy"](
        x, target, reduction=reduction, ignore_index=ignore_index,
        label_smoothing=label_smoothing)

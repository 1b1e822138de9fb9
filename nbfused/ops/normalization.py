"""Softmax and normalisations along one axis, in one launch each."""

from __future__ import annotations

import numpy as np

from ..errors import KernelTypeError
from ..op import AnyArray, Case, op, row, stage
from ..op.base import check_floating, is_number, non_negative
from ..scalar.language import names as nb

__all__ = ["add_rms_norm", "layer_norm", "log_softmax", "rms_norm", "softmax"]


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


_ROWS = (Case(((4, 7),)), Case(((3, 129),)), Case(((5, 6),), {"axis": 0}),
         Case(((2, 5, 3),), {"axis": 1}), Case(((1, 1),)))


@op(_softmax, *_ROWS)
@row
def softmax(x):
    """``exp(x) / sum(exp(x))`` along an axis.

    The largest element is subtracted first, so nothing overflows.  A row with NaN or
    +inf is NaN, so is one of -inf only; elsewhere -inf gives 0.

    Parameters
    ----------
    x : array
        Of at least one dimension, floating.
    axis : int
        Default: the last.
    out : array, optional
        Where to store.

    Returns
    -------
    array
        Of the shape and dtype of `x`.

    Raises
    ------
    KernelTypeError
        `x` is not floating; differences of integers would wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.zeros((2, 4)), axis=0)[0]
    array([0.5, 0.5, 0.5, 0.5])
    """

    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum")
    def total(x, top):
        return nb.exp(x - top)

    return nb.exp(x - top) / total


@op(lambda x, axis=-1: np.log(_softmax(x, axis)), *_ROWS)
@row
def log_softmax(x):
    """``x - log(sum(exp(x)))`` along an axis.

    Finite where `softmax` underflows; NaN in the same rows, -inf where that gives 0 for
    -inf.  Parameters, result and errors are those of `softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """

    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum", post=nb.log)
    def log_total(x, top):
        return nb.exp(x - top)

    return x - top - log_total


softmax.check = log_softmax.check = check_floating


def _columns(x: AnyArray | None, op_name: str, name: str, default: float) -> AnyArray:
    """A weight or bias for each column, or the default if it is left out.

    Raises
    ------
    KernelTypeError
        It is a number, or a shape: PyTorch's second argument.
    """
    if x is None:
        return default
    if is_number(x) or isinstance(x, (tuple, list)):
        raise KernelTypeError(
            f"{op_name}: '{name}' must be an array with one number for each column, "
            f"got {x!r}; what PyTorch calls normalized_shape is the last axis here, "
            "and is left out")
    return x


@row(weight="column", bias="column")
def _layer_norm(x, weight, bias, eps):
    @stage("sum", post=lambda total, size: total / size)
    def mean(x):
        return x

    @stage("sum", post=lambda total, size, eps: nb.rsqrt(total / size + eps))
    def rstd(x, mean):
        return (x - mean) * (x - mean)

    return (x - mean) * rstd * weight + bias


def _layer_norm_reference(x, weight=1.0, bias=0.0, eps=1e-5):
    scale = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return (x - x.mean(axis=-1, keepdims=True)) / scale * weight + bias


@op(_layer_norm_reference, Case(((4, 7),)), Case(((3, 2, 33), (33,), (33,))),
    Case(((5, 130), (130,)), {"eps": 1e-3}), tolerance=64.0)
def layer_norm(x: AnyArray, weight: AnyArray | None = None,
               bias: AnyArray | None = None, eps: float = 1e-5, *,
               out: AnyArray | None = None) -> AnyArray:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` along the last axis.

    Parameters
    ----------
    x : array
        Shape ``(..., n)``.
    weight, bias : array, optional
        Shape ``(n,)``.
    eps : float
        Added to the variance; at least 0.
    out : array, optional
        Where to store.

    Returns
    -------
    array
        Of the shape of `x`.

    Notes
    -----
    One launch; mean and variance in two passes over a row, in float32 for 16-bit
    floats.  Source: Ba, Kiros, Hinton 2016, arXiv:1607.06450.

    Examples
    --------
    >>> import numpy as np
    >>> layer_norm(np.array([[1.0, 3.0]]), eps=0.0)
    array([[-1.,  1.]])
    """
    weight = _columns(weight, "layer_norm", "weight", 1.0)
    bias = _columns(bias, "layer_norm", "bias", 0.0)
    return _layer_norm(x, weight, bias, non_negative(eps, "layer_norm", "eps"), out=out)


@row(weight="column")
def _rms_norm(x, weight, eps):
    @stage("sum", post=lambda total, size, eps: nb.rsqrt(total / size + eps))
    def rstd(x):
        return x * x

    return x * rstd * weight


def _rms_norm_reference(x, weight=1.0, eps=1e-6):
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps) * weight


@op(_rms_norm_reference, Case(((4, 7),)), Case(((3, 2, 33), (33,))), tolerance=64.0)
def rms_norm(x: AnyArray, weight: AnyArray | None = None, eps: float = 1e-6, *,
             out: AnyArray | None = None) -> AnyArray:
    """``x / sqrt(mean(x**2) + eps) * weight`` along the last axis.

    Parameters
    ----------
    x : array
        Shape ``(..., n)``.
    weight : array, optional
        Shape ``(n,)``.
    eps : float
        Added to the mean square; at least 0.
    out : array, optional
        Where to store.

    Returns
    -------
    array
        Of the shape of `x`.

    Raises
    ------
    KernelTypeError
        `x` is not floating; squares of integers would wrap around.

    Notes
    -----
    Source: Zhang, Sennrich 2019, arXiv:1910.07467.

    Examples
    --------
    >>> import numpy as np
    >>> rms_norm(np.array([[1.0, 7.0]]), eps=0.0)
    array([[0.2, 1.4]])
    """
    check_floating(x, "rms_norm", "x")
    weight = _columns(weight, "rms_norm", "weight", 1.0)
    return _rms_norm(x, weight, non_negative(eps, "rms_norm", "eps"), out=out)


@row(weight="column")
def _add_rms_norm(x, residual, weight, eps):
    @stage("sum", post=lambda total, size, eps: nb.rsqrt(total / size + eps))
    def rstd(x, residual):
        return (x + residual) * (x + residual)

    return (x + residual) * rstd * weight, x + residual


def _add_rms_norm_reference(x, residual, weight=1.0, eps=1e-6):
    return _rms_norm_reference(x + residual, weight, eps), x + residual


@op(_add_rms_norm_reference, Case(((4, 7), (4, 7))), Case(((5, 33), (5, 33), (33,))),
    tolerance=64.0)
def add_rms_norm(x: AnyArray, residual: AnyArray, weight: AnyArray | None = None,
                 eps: float = 1e-6, *, out: tuple[AnyArray, AnyArray] | None = None,
                 ) -> tuple[AnyArray, AnyArray]:
    """``rms_norm(x + residual)`` and ``x + residual``, in one launch.

    Parameters
    ----------
    x, residual : array
        Shape ``(..., n)``.
    weight : array, optional
        Shape ``(n,)``.
    eps : float
        Added to the mean square; at least 0.
    out : tuple of two arrays, optional
        Where to store.

    Returns
    -------
    normalised, sum : array
        The second one is the residual of the next layer.

    Raises
    ------
    KernelTypeError
        `x` or `residual` is not floating; squares of integers would wrap around.

    Examples
    --------
    >>> import numpy as np
    >>> y, h = add_rms_norm(np.array([[1.0, 3.0]]), np.array([[0.0, 4.0]]), eps=0.0)
    >>> y
    array([[0.2, 1.4]])
    >>> h
    array([[1., 7.]])
    """
    check_floating(x, "add_rms_norm", "x")
    check_floating(residual, "add_rms_norm", "residual")
    weight = _columns(weight, "add_rms_norm", "weight", 1.0)
    return _add_rms_norm(x, residual, weight, non_negative(eps, "add_rms_norm", "eps"),
                         out=out)

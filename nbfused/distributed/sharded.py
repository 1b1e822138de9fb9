"""Layers and losses of which each rank has a part of an axis.

The parts of a reduction are merged over ranks as those of blocks are in a kernel: the
largest and the sums of a softmax, the count, mean and squares of a norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ops
from ..arrays import dtype_of
from ..arrays.traced import extents
from ..autograd import Function
from ..errors import KernelTypeError, ShapeError
from ..op import row, stage
from ..ops.checks import check_range
from ..scalar.language import names as nb
from .collectives import AllReduce, all_reduce, gathered
from .communicators import Communicator, given

__all__ = ["copy_to_ranks", "cross_entropy", "layer_norm", "sum_over_ranks"]


def copy_to_ranks(x: Any, comm: Any) -> Any:
    """Use an array that is the same on every rank in what differs: ``x`` itself.

    Its gradient is the sum of those of all ranks.  It stands before a product whose
    columns are split: ``h = copy_to_ranks(x, comm) @ w_columns``, and
    `sum_over_ranks` after the one whose rows are: ``sum_over_ranks(h @ w_rows, comm)``.

    Parameters
    ----------
    x : array, shape (...)
        The same on every rank.
    comm
        The user's communicator, or a `Communicator`.

    Returns
    -------
    array, shape (...)
    """
    return CopyToRanks.apply(x, given(comm))


def sum_over_ranks(x: Any, comm: Any) -> Any:
    """Sum partial results into one that is the same on every rank.

    Its gradient is that of the sum, unchanged: what follows is computed alike by every
    rank, and counts once.  See `copy_to_ranks`.

    Parameters
    ----------
    x : array, shape (...)
        Partial sums.
    comm
        The user's communicator, or a `Communicator`.

    Returns
    -------
    array, shape (...)
    """
    return SumOverRanks.apply(x, given(comm))


class CopyToRanks(Function):
    """The identity; backward, the sum over ranks."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Communicator) -> Any:
        """Pass it on."""
        ctx.group = group
        return ops.multiply(x, 1.0)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Sum the cotangents."""
        return SumOverRanks.apply(g, ctx.group), None


class SumOverRanks(Function):
    """The sum over ranks; backward, the identity."""

    @staticmethod
    def forward(ctx: Any, x: Any, group: Communicator) -> Any:
        """Sum the arrays."""
        ctx.group = group
        return all_reduce(x, group)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Pass the cotangent on."""
        return CopyToRanks.apply(g, ctx.group), None


class GatherAlike(Function):
    """Arrays of all ranks, of which every rank computes the same.

    So the cotangent of a rank's own is that of what counts once: nothing is sent back.
    """

    @staticmethod
    def forward(ctx: Any, x: Any, group: Communicator, what: str) -> Any:
        """Gather the arrays, the rank in front."""
        ctx.rank = group.rank
        return gathered(x, group, what)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        """Take the cotangent of the rank's own."""
        return g[ctx.rank], None, None


def _parts_in(number: type[np.generic]) -> Callable[..., Any]:
    """Reduce the logits of a rank to what others need; with results of a dtype."""

    @row(labels="row")
    def part(x, labels, first, classes):  # type: ignore[no-untyped-def]
        """The logsumexp of a rank's classes, and the label's logit if it has it."""
        @stage("max", detach=True)
        def top(x):  # type: ignore[no-untyped-def]
            return x

        @stage("sum", post=nb.log)
        def log_total(x, top):  # type: ignore[no-untyped-def]
            return nb.exp(x - top)

        @stage("sum")
        def picked(x, labels, first, index):  # type: ignore[no-untyped-def]
            # Compared so, it is read at one column and needs no pass of its own.
            return x if index == np.int64(labels) - np.int64(first) else 0.0

        label = np.int64(labels)
        if label < 0 or label >= np.int64(classes):
            return number(math.nan), number(picked)
        return number(top + log_total), number(picked)

    return part


#: By whether logits are float64; 16-bit ones would lose the loss's digits on the way.
_PARTS = {wide: _parts_in(np.float64 if wide else np.float32) for wide in (True, False)}


def cross_entropy(logits: Any, labels: Any, comm: Any) -> Any:
    """Cross entropy of logits whose classes are split over ranks.

    ``logsumexp(all logits) - the label's logit``, of each sample.

    Parameters
    ----------
    logits : array, shape (..., classes/size)
        Rank r has the classes from ``r*classes/size`` on.
    labels : array of integers, shape (...)
        Classes, the same on every rank.
    comm
        The user's communicator, or a `Communicator`.

    Returns
    -------
    array, shape (...)
        The same on every rank.

    Raises
    ------
    ShapeError, KernelTypeError
        The arguments are no logits and labels.
    RangeError
        A label is out of range; on a GPU the loss is NaN, as of `ops.cross_entropy`.
    DeviceError, DistributedError
        As `all_reduce`.

    Notes
    -----
    Every rank computes what follows alike, and its gradient is that of the whole: of
    the logits of a rank, ``softmax - onehot``.
    """
    shape, group = extents(logits), given(comm)
    if not shape or extents(labels) != shape[:-1]:
        raise ShapeError(f"cross_entropy: 'logits' has shape {shape} and 'labels' "
                         f"{extents(labels)}; expected (..., classes/size) and (...)")
    if np.dtype(dtype_of(labels)).kind not in "iu":
        raise KernelTypeError(f"cross_entropy: 'labels' is {dtype_of(labels)}; "
                              "expected integers")
    dtype = dtype_of(logits)
    part = _PARTS[dtype == np.float64]
    classes = group.size*shape[-1]
    labels = check_range(labels, 0, classes, "cross_entropy: 'labels' out of range",
                         "give classes of all ranks", name="labels")
    own = ops.stack(part(logits, labels, group.rank*shape[-1], classes))
    parts = GatherAlike.apply(own, group, f"{shape[-1]} classes")  # (size, 2, ...)
    return ops.subtract(ops.logsumexp(parts[:, 0], axis=0),
                        ops.sum(parts[:, 1], axis=0), dtype=dtype)


def layer_norm(x: Any, weight: Any, bias: Any, comm: Any, eps: float = 1e-5) -> Any:
    """Layer norm over a last axis that is split over ranks.

    Parameters
    ----------
    x : array, shape (..., width/size)
        Each rank has as many columns.
    weight, bias : array, shape (width/size,), or None
        Those of the rank's columns.
    comm
        The user's communicator, or a `Communicator`.
    eps : float
        Added to the variance.

    Returns
    -------
    array, shape (..., width/size)

    Raises
    ------
    DeviceError, KernelTypeError, DistributedError
        As `all_reduce`.

    Notes
    -----
    Means and squares of differences from the mean: two sums over ranks.
    """
    group = given(comm)
    shape = extents(x)
    if not shape:
        raise ShapeError("layer_norm: 'x' has no dimensions; expected (..., "
                         "width/size)")
    width, what = shape[-1]*group.size, f"{shape[-1]} columns"
    mean = AllReduce.apply(ops.sum(x, axis=-1, keepdims=True), group, what)*(1.0/width)
    apart = ops.subtract(x, mean)
    squares = AllReduce.apply(ops.sum(ops.square(apart), axis=-1, keepdims=True), group,
                              what)
    normed = apart*ops.rsqrt(squares*(1.0/width) + eps)
    scaled = normed if weight is None else normed*weight
    return scaled if bias is None else scaled + bias

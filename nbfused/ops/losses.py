"""Loss functions along the last axis."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ..arrays import dtype_of
from ..errors import KernelTypeError, ShapeError
from ..op import AnyArray, Case, op, row, size, stage
from ..op.base import check_array, check_floating, fraction, whole_number
from ..scalar.language import names as nb
from .arithmetic import divide
from .checks import check_range
from .comparison import not_equal
from .reductions import mean as average
from .reductions import sum as total_of

__all__ = ["cross_entropy"]


@row(labels="row")
def _cross_entropy(x, labels, ignored):
    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum", post=nb.log)
    def log_total(x, top):
        return nb.exp(x - top)

    @stage("sum")
    def picked(x, labels, index):
        return x if index == np.int64(labels) else 0.0  # a narrow label would wrap

    label = np.int64(labels)
    if label == ignored:
        return 0.0
    if label < 0 or label >= size:
        return math.nan
    return top + log_total - picked


@row(labels="row")
def _smoothed(x, labels, smoothing, ignored):
    @stage("max", detach=True)
    def top(x):
        return x

    @stage("sum", post=nb.log)
    def log_total(x, top):
        return nb.exp(x - top)

    @stage("sum")
    def picked(x, labels, index):
        return x if index == np.int64(labels) else 0.0

    @stage("sum", post=lambda total, size: total / size)
    def mean(x):
        return x

    label = np.int64(labels)
    if label == ignored:
        return 0.0
    if label < 0 or label >= size:
        return math.nan
    return top + log_total - (1.0 - smoothing) * picked - smoothing * mean


def _reference(logits, labels, reduction="mean", label_smoothing=0.0,
               ignore_index=None):
    n = logits.shape[-1]
    log_p = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
    target = (1 - label_smoothing) * np.eye(n)[np.clip(labels, 0, n - 1)] \
        + label_smoothing / n
    kept = labels != (-1 if ignore_index is None else ignore_index)
    loss = -np.sum(target * log_p, axis=-1) * kept
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / kept.sum()}[reduction]


_LABELS = ((-4.0, 4.0), (0, 7, int))


@op(_reference, Case(((5, 7), (5,)), {}, _LABELS),
    Case(((5, 7), (5,)), {"reduction": "none", "label_smoothing": 0.1}, _LABELS),
    Case(((2, 3, 7), (2, 3)), {"reduction": "sum", "ignore_index": 3}, _LABELS),
    Case(((9, 7), (9,)), {"ignore_index": 2}, _LABELS))
def cross_entropy(logits: AnyArray, labels: AnyArray, *,
                  reduction: Literal["mean", "sum", "none"] = "mean",
                  label_smoothing: float = 0.0,
                  ignore_index: int | None = None) -> AnyArray:
    """The cross-entropy ``-log(softmax(logits)[label])`` along the last axis.

    Parameters
    ----------
    logits : array
        Shape ``(..., classes)``, floating.
    labels : integer array
        Shape ``(...)``, values in ``[0, classes)`` or `ignore_index`.
    reduction : {"mean", "sum", "none"}
        The mean divides by the number of rows that are not ignored; NaN of none.
    label_smoothing : float
        The share of the target that is spread over all classes.  Without it, logits of
        -inf leave a class out.
    ignore_index : int, optional
        A label whose rows count nothing.

    Returns
    -------
    array
        One number, or shape ``(...)``.

    Raises
    ------
    RangeError
        A label is out of range (a `ValueError`).  On a GPU that would mean to wait for
        it, so the loss of such a row is NaN there, unless ``NBFUSED_DEBUG=1`` is set.

    Notes
    -----
    One launch for all rows: the largest logit is subtracted first, so nothing
    overflows.  Smoothing as in Szegedy et al. 2015, arXiv:1512.00567.

    Examples
    --------
    >>> import numpy as np
    >>> float(cross_entropy(np.zeros((2, 4)), np.array([0, 3])).round(6))
    1.386294
    """
    if reduction not in ("mean", "sum", "none"):
        raise KernelTypeError("cross_entropy: 'reduction' must be 'mean', 'sum' or "
                              f"'none', got {reduction!r}")
    smoothing = fraction(label_smoothing, "cross_entropy", "label_smoothing",
                         "the share spread over all classes", closed=True)
    ignored = -1 if ignore_index is None else whole_number(
        ignore_index, "cross_entropy", "ignore_index")
    _check(logits, labels)
    classes = int(logits.shape[-1])
    labels = check_range(
        labels, 0, classes, "cross_entropy: 'labels' out of range",
        "to leave rows out, give them one label and name it in ignore_index",
        name="labels", ignored=ignore_index)
    label = np.int64(ignored)  # a Python integer would be checked at each call
    loss = _smoothed(logits, labels, smoothing, label) if smoothing else \
        _cross_entropy(logits, labels, label)  # -inf times 0 would be NaN
    if reduction == "none":
        return loss
    if reduction == "sum" or ignore_index is None or not _holds(
            dtype_of(labels), ignored):
        return (total_of if reduction == "sum" else average)(loss)
    dtype = dtype_of(loss)
    wide = np.float32 if dtype.itemsize == 2 else dtype  # many rows are no float16
    kept = total_of(not_equal(labels, ignored), dtype=wide)
    return divide(total_of(loss, dtype=wide), kept, dtype=dtype)


def _holds(dtype: np.dtype, number: int) -> bool:
    """Whether integers of a dtype can be `number`."""
    held = np.iinfo(dtype)
    return bool(held.min <= number <= held.max)


#: Types, shapes and dtypes that `_check` has let pass.
_PASSED: set[tuple[Any, ...]] = set()
_LIMIT = 1024


def _check(logits: AnyArray, labels: AnyArray) -> None:
    """Check types, shapes and dtypes."""
    key = tuple([(type(x), getattr(x, "shape", None), getattr(x, "dtype", None))
                 for x in (logits, labels)])
    try:
        if key in _PASSED:
            return
    except TypeError:  # extents that a compiler of PyTorch leaves open have no hash
        key = ()
    for x, name in ((logits, "logits"), (labels, "labels")):
        check_array(x, "cross_entropy", name)
    if not len(logits.shape):
        raise ShapeError("cross_entropy: 'logits' must have an axis of classes, got "
                         "shape (); reshape it")
    check_floating(logits, "cross_entropy", "logits")
    if dtype_of(labels).kind not in "iu":
        raise KernelTypeError("cross_entropy: 'labels' must be integers, got dtype "
                              f"{dtype_of(labels)}; convert with astype, or take the "
                              "argmax of probabilities")
    if tuple(labels.shape) != tuple(logits.shape[:-1]):
        raise ShapeError(f"cross_entropy: 'labels' must have shape "
                         f"{tuple(logits.shape[:-1])} for 'logits' of shape "
                         f"{tuple(logits.shape)}, got {tuple(labels.shape)}; the "
                         "classes are the last axis: transpose the logits")
    if len(_PASSED) >= _LIMIT:
        _PASSED.clear()
    if key:
        _PASSED.add(key)

"""``np.r_[a, b]`` and ``np.c_[a, b]`` of traced arrays, as NumPy joins them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....arrays.traced import TracedNumber
from ....errors import KernelTypeError
from ....support.records import record

__all__ = ["JOINING", "join_items", "slice_numbers"]

#: The types of ``np.r_`` and ``np.c_``.
JOINING = (type(np.r_), type(np.c_))


@record(frozen=True)
class _Directive:
    """Dimensions and axis of joined items, as text in front of them says.

    Attributes
    ----------
    axis
        The axis to join along.
    ndmin
        The number of dimensions that every item gets at least.
    first
        The place of the first axis of an item among new ones; -1 for the last.
    """

    axis: int
    ndmin: int
    first: int

    def placed(self, x: Any) -> Any:
        """An item with as many dimensions as there have to be."""
        ndim = len(x.shape)
        new = self.ndmin - ndim
        if new <= 0:
            return x
        made = np.reshape(x, (*(1,) * new, *x.shape))
        if self.first == -1:
            return made
        start = self.first + new + 1 if self.first < 0 else self.first
        axes = [*range(self.ndmin)]
        return np.transpose(made, axes[:start] + axes[new:] + axes[start:new])


def join_items(maker: Any, key: Any, as_array: Callable[[Any], Any]) -> Any:
    """Join what stands between the brackets of ``np.r_`` or ``np.c_``.

    Parameters
    ----------
    maker
        One of these two.
    as_array : callable
        Makes a traced array of numbers, lists, slices and arrays.

    Raises
    ------
    KernelTypeError
        A `numpy.matrix` is asked for.
    """
    items = list(key) if isinstance(key, tuple) else [key]
    how = _Directive(maker.axis, maker.ndmin, maker.trans1d)
    if items and isinstance(items[0], str):
        how = _directive(items.pop(0), how)
    made, kinds = [], []
    for item in items:
        if isinstance(item, str):
            raise ValueError(f"numpy.r_: the text {item!r} is between items, expected "
                             "it in front of them")
        x = as_array(item)
        kinds.append(_kind(item, x))
        made.append(how.placed(x))
    kind = np.result_type(*kinds)
    return np.concatenate([x if dtype_of(x) == kind else x.astype(kind) for x in made],
                          axis=how.axis)


def _directive(text: str, how: _Directive) -> _Directive:
    if text in ("r", "c"):
        raise KernelTypeError(f"numpy.r_: {text!r} makes a numpy.matrix, which nbfused "
                              "does not compute with; leave it out, and reshape")
    try:
        numbers = [int(x) for x in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"numpy.r_: {text!r}, expected one to three integers, as in "
                         "'0,2,1'")
    return _Directive(*numbers, *(how.axis, how.ndmin, how.first)[len(numbers):])


def slice_numbers(start: Any, stop: Any, step: Any) -> np.ndarray:
    """The numbers of a slice; an imaginary step is how many there are."""
    start, step = 0 if start is None else start, 1 if step is None else step
    if isinstance(step, (complex, np.complexfloating)):
        return np.linspace(start, stop, int(np.abs(step)))
    return np.arange(start, stop, step)


def _kind(item: Any, x: Any) -> Any:
    """An item as it counts for the common dtype: numbers of Python are weak."""
    if isinstance(item, TracedNumber) and item.python is not None:
        return item.python(0)
    return item if type(item) in (bool, int, float, complex) else dtype_of(x)

"""Machine code that repeats functions made of views, one launch, and a view of it.

`ops.take` looks at its arguments, checks that indices are in range, takes two views of
them, launches, and gives a view of the result: all but the launch is Python, and takes
three times as long as a gather of some hundred rows.  The addresses of views are those
of the arrays, so a direct call (`dispatch.direct`) can begin with the arrays
themselves: benchmarks/notes/cpu.md#gathers-of-rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...backend import Backend, Direct, DirectCall, IntegerRange
from ...registry.backends import registry
from ...specs import Spec
from ...support.stamp import stamp
from ..callers import USUAL, Caller
from ..launch_plans import arguments
from ..launches import LAUNCHES
from ..prepared_call import PreparedCall

__all__ = ["ComposedCalls"]

#: The address, the shape and the dtype of a result, and whether it is in Fortran's
#: order.
Result = tuple[int, tuple[int, ...], np.dtype, bool]

#: Layouts of arrays that are noted as learnt.
_LIMIT = 256


def _unknown(*arrays: Any) -> None:
    """Stand for a call that was not learnt."""


class ComposedCalls:
    """Calls of a function of NumPy arrays, repeated by machine code.

    Attributes
    ----------
    function
        ``function(*arrays)``: a tuple of the result; None for arrays unlike those of
        all calls that were learnt, and for integers out of range.
    """

    def __init__(self) -> None:
        self.function: Callable[..., Any] = _unknown
        self._calls: Direct | None = None
        self._seen: dict[Any, int] = {}

    def learn(self, arrays: Sequence[Any], spec: Spec, values: Sequence[Any],
              result: Any, ranges: Mapping[int, tuple[int, int]]) -> None:
        """Learn a call that was made just now; nothing where a view is a copy.

        Parameters
        ----------
        arrays
            What the function was called with.
        spec, values
            What it launched: views of all arrays, in their order, and numbers.
        result
            What it gave: a view of the launch's only result.
        ranges
            For the arrays of integers that it checked, by position, the least that is
            allowed and the first that is not.
        """
        now = stamp()  # before the look-up: a change meanwhile makes the entry old
        if not all(type(x) is np.ndarray for x in (*arrays, result)):
            return
        layout = tuple([(x.shape, x.strides, x.dtype) for x in arrays])
        if self._seen.get(layout) == now:
            return
        if len(self._seen) >= _LIMIT:
            self._seen.clear()
        self._seen[layout] = now
        found = _prepared(spec, values)
        call = found and _described(found, arrays, spec, values, result, ranges)
        if found and call and self._begin(found.place.backend):
            cast(Direct, self._calls).add(arrays, call, now)

    def _begin(self, backend: Backend) -> bool:
        """Make the function; False if the backend has no direct calls."""
        if self._calls is None:
            make = getattr(backend, "direct_calls", None)
            self._calls = make and make(_unknown, (registry.restricted, LAUNCHES))
            if self._calls is not None:
                self.function = self._calls.function
        return self._calls is not None


def _prepared(spec: Spec, values: Sequence[Any]) -> PreparedCall | None:
    """The prepared call of a launch that was made."""
    callers: dict[Any, Caller] = spec.__dict__.get("_callers", {})
    caller = callers.get((*map(type, values), None))
    read = caller and caller.call(values, None, None, *USUAL[1:], False)
    return caller.prepared.get(read[0]) if caller and read else None


def _described(found: PreparedCall, arrays: Sequence[np.ndarray], spec: Spec,
               values: Sequence[Any], result: np.ndarray,
               ranges: Mapping[int, tuple[int, int]]) -> DirectCall | None:
    """The direct call of a launch on the arrays behind its views, or None."""
    numbers = [kind == "scalar" for kind in arguments(spec).kinds]
    views = [x for x, number in zip(values, numbers, strict=True) if not number]
    given = [x for x, number in zip(values, numbers, strict=True) if number]
    checked = [_range_of(k, arrays[k], *bounds) for k, bounds in ranges.items()]
    if None in checked or not all(map(_begins_at, views, arrays)):
        return None
    call = found.direct(0, tuple(given), tuple(map(type, given)), [False]*len(arrays))
    whole = call and _result(call, result)
    return call and whole and replace(call, results=(whole,), ranges=tuple(
        [one for one in checked if one is not None]))


def _begins_at(view: Any, x: np.ndarray) -> bool:
    """Whether a view is no copy, and its first element is that of its array."""
    return type(view) is np.ndarray and view.ctypes.data == x.ctypes.data


def _result(call: DirectCall, view: np.ndarray) -> Result | None:
    """The result of a call as the view of it; None if that has gaps, or is a copy."""
    ((address, shape, dtype, fortran),) = call.results  # type: ignore[misc]
    if fortran:
        return call.results[0] if shape == view.shape else None
    straight = view.flags.c_contiguous
    return (address, view.shape, dtype, not straight) \
        if straight or view.flags.f_contiguous else None


def _range_of(at: int, x: np.ndarray, low: int, high: int) -> IntegerRange | None:
    """The check of an array's elements; None if machine code has none for it."""
    itemsize = x.dtype.itemsize
    even = x.flags.c_contiguous or x.ndim == 1
    if x.dtype.kind not in "iu" or itemsize not in (4, 8) or not even:
        return None
    step = 1 if x.flags.c_contiguous else x.strides[0] // itemsize
    unsigned = x.dtype.kind == "u"  # the largest are read as negative ones
    return IntegerRange(at, itemsize, x.size, step, 0 if unsigned else low, high)

"""Direct calls: functions that repeat a call of a spec for arguments of given types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np

from ...arrays import describe, library_of
from ...arrays.detect import exact_library
from ...arrays.libraries.dlpack import header_function
from ...backend import Direct, NumberOf
from ...errors import KernelTypeError
from ...registry.backends import registry
from ...specs import Spec, View
from ...support.loop_nests import dense_strides
from ...support.stamp import stamp
from ..allocation import OUT_OF_MEMORY
from ..callers import USUAL, Caller, key_of
from ..calls import COPY, ZERO, validate_and_run
from ..launch_plans import arguments
from ..launches import LAUNCHES
from ..prepared_call import PreparedCall
from ..views import direct_view, window

__all__ = ["direct_call"]

Dtypes = tuple[np.dtype | None, ...]


def direct_call(spec: Spec, inputs: Sequence[Any], outs: Sequence[Any] | None,
                defaults: tuple[Any, ...] = (), dtypes: Dtypes | None = None,
                ) -> Callable[..., Any] | None:
    """The cached direct caller of `spec` for arguments of these types, or None.

    Parameters
    ----------
    defaults
        What it takes for the last inputs where they are left out.
    dtypes
        Of the outputs, as for `execute`.

    Returns
    -------
    callable or None
        ``direct(*outs, *inputs)``: the results that were made, None in place of those
        that were given; None where nothing is prepared for such arguments, or they need
        a closer look: `execute` has to be asked then.
    """
    if not spec.launches:
        view = cast(View, spec)
        if outs is not None or dtypes is not None or len(inputs) != 1:
            return None
        return _unsliced(view, type(inputs[0])) if view.kind == "unslice" else \
            direct_view(view, type(inputs[0]))
    callers = spec.__dict__.get("_callers", {})
    caller: Caller | None = callers.get((*map(type, inputs), None,
                                         *map(type, outs or ())))
    if caller is None:
        return None
    known = caller.direct
    assert isinstance(known, FunctionType)
    made = FunctionType(known.__code__, known.__globals__, known.__name__, defaults)
    made.__kwdefaults__ = {"asked": (dtypes, *USUAL[1:]), "last": [(None, None)]}
    if not all(map(_readable, map(type, (*inputs, *(outs or ()))))):
        return made
    for found in caller.prepared.copy().values():  # of any backend: others ask `made`
        own = getattr(found.place.backend, "direct_calls", None)
        if own is not None:
            return _Native(spec, caller, made, len(outs or ()), own).function
    return made


#: Types of arguments that machine code reads, besides those of tensors.
_READABLE = {np.ndarray, float, int, np.float64, np.float32, np.int64, np.int32}


def _readable(kind: type) -> bool:
    """Whether machine code reads arguments of a type."""
    return kind in _READABLE or (
        hasattr(exact_library(kind), "questions") and header_function(kind) is not None)


def _unsliced(spec: View, kind: type) -> Callable[[Any], Any] | None:
    """A function that puts an array of this type into zeros, or gives None."""
    key = key_of(kind)
    if key is None:
        return None
    known: dict[Any, Callable[[Any], Any] | None] = {}

    def direct(x: Any) -> Any:
        try:
            layout = key(x)
        except Exception:  # of many kinds, from many libraries: a closer look will tell
            return None
        if layout is None:
            return None
        if layout not in known:
            if len(known) >= _LIMIT:
                known.clear()
            known[layout] = _filling(spec, x)
        fill = known[layout]
        return None if fill is None else fill(x)

    return direct


def _filling(spec: View, x: Any) -> Callable[[Any], Any] | None:
    """A function that puts arrays like `x` into zeros by two direct calls."""
    array, library = describe(x), library_of(x)
    (shape,) = spec.out_shapes((array.shape,))
    strides, offset = window(dense_strides(shape), spec.params[1])
    own: Any = getattr(library, "viewer", None)
    if not library.writable:
        return None

    def plain(x: Any) -> Any:
        return library.view(x, array.shape, strides, offset)

    new = library.maker(shape, array.dtype, array.device)
    try:
        out = new()
        view = own(out, array.shape, strides, offset) if own else plain
        validate_and_run(ZERO, (), (out,))
        validate_and_run(COPY, (x,), (view(out),))
    except (KernelTypeError, *OUT_OF_MEMORY):  # no such view: as always then
        return None
    zero, copy = direct_call(ZERO, (), (out,)), direct_call(COPY, (x,), (view(out),))
    if zero is None or copy is None:
        return None

    def fill(x: Any) -> Any:
        try:
            made = new()
        except OUT_OF_MEMORY:  # others are asked, who free memory first
            return None
        done = zero(made) is not None and copy(view(made), x) is not None
        return (made,) if done else None

    return fill


class _Native:
    """Direct calls by a backend's machine code, which learns them from Python's.

    Attributes
    ----------
    function
        What is called.
    """

    def __init__(self, spec: Spec, caller: Caller, direct: FunctionType, outs: int,
                 make: Callable[..., Direct | None]) -> None:
        self._kinds = arguments(spec).kinds
        self._caller, self._direct, self._outs = caller, direct, outs
        self._last = (direct.__kwdefaults__ or {})["last"]
        #: Prepared calls that were described, and the stamp at that time.
        self._seen: dict[PreparedCall, int] = {}
        self._calls = make(self._otherwise, (registry.restricted, LAUNCHES))
        self.function: Callable[..., Any] = direct if self._calls is None else \
            self._calls.function

    def _otherwise(self, *args: Any) -> Any:
        """Call in Python; the next call like it is made by machine code."""
        now = stamp()  # before: who changes something meanwhile makes it old
        made = self._direct(*args)
        # What came last may be another thread's, which learns it then.
        if made is not None and self._seen.get(self._last[0][1]) != now:
            self._learn(args, now)
        return made

    def _learn(self, args: tuple[Any, ...], now: int) -> None:
        whole = self._outs + len(self._kinds)
        defaults = self._direct.__defaults__ or ()
        full = args + defaults[len(defaults) - (whole - len(args)):] \
            if len(args) < whole else args
        dtypes = (self._direct.__kwdefaults__ or {})["asked"][0]
        read = self._caller.call(full[self._outs:], full[:self._outs] or None, dtypes,
                                 *USUAL[1:], False)
        found = None if read is None else self._caller.prepared.get(read[0])
        if found is None or self._seen.get(found) == now:
            return
        if len(self._seen) >= _LIMIT:
            self._seen.clear()
        self._seen[found] = now
        given = len(args) - self._outs
        numbers = [(k, x) for k, (kind, x) in enumerate(zip(
            self._kinds, full[self._outs:], strict=True)) if kind == "scalar"]
        described = found.direct(
            self._outs, tuple([NumberOf(n) if k < given else x
                               for n, (k, x) in enumerate(numbers)]),
            tuple([type(x) for _, x in numbers]),
            [kind == "scalar" for kind in self._kinds[:given]])
        if described is not None and self._calls is not None:
            self._calls.add(args, described, now)


_LIMIT = 256

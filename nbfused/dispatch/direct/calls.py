"""Direct calls: functions that repeat a call of a spec for arguments of given types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np

from ...arrays import Array, describe, library_of
from ...arrays.detect import exact_library
from ...arrays.libraries.dlpack import header_function
from ...backend import Direct, NumberOf
from ...errors import KernelTypeError
from ...registry.backends import registry
from ...specs import Spec, View
from ...support.loop_nests import Strides, dense_strides
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
        if outs is not None or dtypes is not None:
            return None
        if not view.rearranges:
            return _gathered(view, [*map(type, inputs)])
        return direct_view(view, type(inputs[0])) if len(inputs) == 1 else None
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


def _gathered(spec: View, kinds: Sequence[type]) -> Callable[..., Any] | None:
    """A function that puts arrays of these types into a new one, or gives None."""
    keys = [key for key in map(key_of, kinds) if key is not None]
    if len(keys) < len(kinds):
        return None
    known: dict[Any, Callable[..., Any] | None] = {}
    single = keys[0] if len(keys) == 1 else None

    def direct(*inputs: Any) -> Any:
        try:
            layout = (single(inputs[0]),) if single is not None else tuple(
                [key(x) for key, x in zip(keys, inputs, strict=True)])
        except Exception:  # of many kinds, from many libraries: a closer look will tell
            return None
        if None in layout:
            return None
        if layout not in known:
            if len(known) >= _LIMIT:
                known.clear()
            known[layout] = _filling(spec, inputs)
        fill = known[layout]
        return None if fill is None else fill(*inputs)

    return direct


def _filling(spec: View, inputs: Sequence[Any]) -> Callable[..., Any] | None:
    """A function that puts arrays like `inputs` into a new one by direct calls."""
    arrays, library = [*map(describe, inputs)], library_of(inputs[0])
    (shape,) = spec.out_shapes(tuple([array.shape for array in arrays]))
    alike = {(library_of(x), array.dtype, array.device)
             for x, array in zip(inputs, arrays, strict=True)}
    if len(alike) > 1 or not library.writable:
        return None
    new = library.maker(shape, arrays[0].dtype, arrays[0].device)
    try:
        out = new()
        views = [_viewer(library, out, array.shape, *place) for array, place in
                 zip(arrays, _places(spec, arrays, shape), strict=True)]
        validate_and_run(ZERO, (), (out,))
        for x, view in zip(inputs, views, strict=True):
            validate_and_run(COPY, (x,), (view(out),))
    except (KernelTypeError, *OUT_OF_MEMORY):  # no such view: as always then
        return None
    zero = direct_call(ZERO, (), (out,))
    copies = [direct_call(COPY, (x,), (view(out),))
              for x, view in zip(inputs, views, strict=True)]
    if zero is None or None in copies:
        return None
    steps, clear = [*zip(views, copies, strict=True)], spec.kind == "unslice"

    def fill(*inputs: Any) -> Any:
        try:
            made = new()
        except OUT_OF_MEMORY:  # others are asked, who free memory first
            return None
        if clear and zero(made) is None:
            return None
        for (view, copy), x in zip(steps, inputs, strict=True):
            if copy(view(made), x) is None:  # type: ignore[misc]
                return None
        return (made,)

    return fill


def _places(spec: View, arrays: Sequence[Array], shape: tuple[int, ...],
            ) -> Iterator[tuple[Strides, int]]:
    """Strides and offset of each input in the result."""
    strides = dense_strides(shape)
    if spec.kind == "unslice":
        yield window(strides, spec.params[1])
        return
    (axis,), start = spec.params, 0
    for array in arrays:
        yield strides, start*strides[axis]
        start += array.shape[axis]


def _viewer(library: Any, out: Any, shape: tuple[int, ...], strides: Strides,
            offset: int) -> Callable[[Any], Any]:
    """A function that views a part of arrays like `out`."""
    own = getattr(library, "viewer", None)
    return own(out, shape, strides, offset) if own else \
        lambda out: library.view(out, shape, strides, offset)


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

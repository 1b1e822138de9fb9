"""Direct calls: functions that repeat a call of a spec for arguments of given types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, cast

import numpy as np

from ..backend import Direct, NumberOf
from ..registry.backends import registry
from ..specs import Spec, View
from ..support.stamp import stamp
from .callers import USUAL, Caller
from .launch_plans import arguments
from .launches import LAUNCHES
from .prepared_call import PreparedCall
from .views import direct_view

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
        plain = outs is None and dtypes is None and len(inputs) == 1
        return direct_view(cast(View, spec), type(inputs[0])) if plain else None
    callers = spec.__dict__.get("_callers", {})
    caller: Caller | None = callers.get((*map(type, inputs), None,
                                         *map(type, outs or ())))
    if caller is None:
        return None
    known = caller.direct
    assert isinstance(known, FunctionType)
    made = FunctionType(known.__code__, known.__globals__, known.__name__, defaults)
    made.__kwdefaults__ = {"asked": (dtypes, *USUAL[1:]), "last": [(None, None)]}
    if not _READABLE.issuperset(map(type, (*inputs, *(outs or ())))):
        return made
    for found in (*caller.prepared.copy().values(),)[:1]:
        own = getattr(found.place.backend, "direct_calls", None)
        if own is not None:
            return _Native(spec, caller, made, len(outs or ()), own).function
    return made


#: Types of arguments that machine code reads.
_READABLE = {np.ndarray, float, int}


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

"""Calls of a mapped function that earlier ones foretell, without calling it.

How a function computes with NumPy's arrays follows from their shapes, strides and
dtypes, from the values of numbers, from settings, and from what it reads outside, if
`examination` finds nothing else.  The second call with these is noted, later ones are
replays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...support.stamp import stamp
from ..calls.batched import LEVEL, Level
from ..calls.keeping import KEEPING
from ..calls.replays import Replay
from ..recording import RECORDING
from .examination import Outside, examine

__all__ = ["Reading", "Repeated", "RepeatedCalls"]

#: Most kinds of calls of a function that are remembered.
_LIMIT = 64
#: How often what is read outside may change before another call was a replay of it.
_PATIENCE = 8


class Reading(NamedTuple):
    """The arguments of a call: the key of what it computes, and its arrays."""

    key: tuple[Hashable, ...]
    arrays: list[np.ndarray]


class Repeated(NamedTuple):
    """A replay between the caller's arrays and the caller's results.

    Attributes
    ----------
    orders
        For each array the order of its axes with that of the samples in front; None
        for one that is taken as it is.
    final
        Whether what the replay makes is what the caller gets.
    """

    replay: Replay
    orders: list[tuple[int, ...] | None]
    final: bool

    def run(self, arrays: Sequence[np.ndarray]) -> list[Any] | None:
        """The arrays of the results; None where the function has to be called."""
        return self.replay.run([
            x if order is None else x.transpose(order)
            for x, order in zip(arrays, self.orders, strict=True)])

    def results(self, held: Sequence[Any], level: Level) -> Any:
        """Placeholders for the results, in the tree that the function returns."""
        return self.replay.structure.build([
            level.hold(x, has) for x, has in zip(held, self.replay.batched,
                                                 strict=True)])


class _Known(NamedTuple):
    """Replays by the keys of their calls; None where there can be none."""

    outside: Outside
    replays: dict[Hashable, Repeated | None]


class RepeatedCalls:
    """The replays of a mapped function.

    Parameters
    ----------
    function
        What is mapped.
    axes
        Its `in_axes` and `out_axes`.
    """

    __nbfused_constant__ = True  # to `nf.fuse`

    def __init__(self, function: Callable[..., Any], axes: Any) -> None:
        self._function = function
        self._possible = _is_fixed(axes)
        self._seen: set[Hashable] = set()
        self._known: _Known | None = None
        self._left = _PATIENCE

    def read(self, function: Callable[..., Any], args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> Reading | None:
        """Read the arguments; None for a call that has to be made.

        `nf.fuse` calls copies of functions, with placeholders for what they close over:
        `function` is then another one.
        """
        if not self._possible or function is not self._function or KEEPING \
                or LEVEL.get() is not None:
            return None
        made = Reading((), [])
        key: list[Hashable] = [RECORDING.get(), stamp()]
        if not _read(args, key, made.arrays) or not _read(kwargs, key, made.arrays):
            return None
        return made._replace(key=tuple(key))

    def find(self, reading: Reading) -> Repeated | None:
        """The replay of a call."""
        known = self._known
        if known is None:
            return None
        found = known.replays.get(reading.key)
        if found is None:
            return None
        if known.outside.same():
            self._left = _PATIENCE
            return found
        self._lose()
        return None

    def forget(self, reading: Reading) -> None:
        """Forget a replay that is no longer one: the next such call is noted again."""
        if self._known is not None:
            self._known.replays.pop(reading.key, None)

    def wants(self, reading: Reading) -> Outside | None:
        """Decide whether a call is to be noted: what it reads outside; else None."""
        known = self._known
        if known is not None and reading.key in known.replays:
            return None
        if reading.key not in self._seen:  # another value of a number at each call
            if len(self._seen) >= _LIMIT:
                self._seen.clear()
            self._seen.add(reading.key)
            return None
        if known is None or not known.outside.same():
            outside = examine(self._function)
            if outside is None:
                self._possible = False
                return None
            self._known = known = _Known(outside, {})
        return known.outside

    def keep(self, reading: Reading, outside: Outside,
             repeated: Repeated | None) -> None:
        """Keep a replay, unless the call has changed what is read outside."""
        known = self._known
        if not outside.same():
            self._lose()
        if known is None or known is not self._known or known.outside is not outside:
            return
        if len(known.replays) >= _LIMIT:
            known.replays.clear()
        known.replays[reading.key] = repeated

    def _lose(self) -> None:
        """Forget all replays, as what is read outside is another."""
        self._known = None
        self._left -= 1
        self._possible = self._left > 0


def _read(x: Any, key: list[Hashable], arrays: list[np.ndarray]) -> bool:
    """Read a tree of arguments; whether it is of arrays and constants only."""
    kind: type = type(x)
    if kind is np.ndarray:
        arrays.append(x)
        key += (x.shape, x.strides, x.dtype)
        return True
    key.append(kind)
    if kind is tuple or kind is list:
        key.append(len(x))
        return all(_read(item, key, arrays) for item in x)
    if kind is dict:
        key.append(len(x))
        for name, item in x.items():
            if type(name) is not str:
                return False
            key.append(name)
            if not _read(item, key, arrays):
                return False
        return True
    if kind in (float, int, bool, complex):
        key.append(repr(x))  # -0.0 is another than 0.0
    elif kind is str or x is None:
        key.append(x)
    elif isinstance(x, np.generic):
        key += (x.dtype, x.tobytes())
    else:
        return False
    return True


def _is_fixed(axes: Any) -> bool:
    """Whether `in_axes` or `out_axes` stay what they are."""
    return all(map(_is_fixed, axes)) if type(axes) is tuple else \
        axes is None or type(axes) is int

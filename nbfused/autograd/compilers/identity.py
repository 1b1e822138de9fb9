"""Calls of operations, with names that processes share."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from ... import cache
from ...arrays.detect import is_array
from ...specs import Spec
from ...specs.base import Hashed
from ...support.records import record

__all__ = ["Bound", "Call", "Gradient", "Part", "Placed", "call_of", "identifier",
           "load", "store", "text_of"]


@record(frozen=True)
class Call(Hashed):
    """A spec, called with arrays and numbers of these kinds.

    Attributes
    ----------
    spec
        What to compute.
    dtypes
        Of the outputs, where they were asked for.
    numbers
        For each input None if it is an array; of a number its dtype, "" for that of a
        Python number.
    outputs
        How many there are.
    """

    spec: Spec
    dtypes: tuple[str | None, ...] | None
    numbers: tuple[str | None, ...]
    outputs: int

    __hash__ = Hashed.__hash__

    @property
    def asked(self) -> tuple[np.dtype | None, ...] | None:
        """The dtypes that were asked for, as NumPy's."""
        return None if self.dtypes is None else tuple(
            [None if d is None else np.dtype(d) for d in self.dtypes])

    def values(self, args: Sequence[Any]) -> list[Any]:
        """The arguments with numbers of their dtypes."""
        return [np.dtype(kind).type(x) if kind else x
                for kind, x in zip(self.numbers, args, strict=True)]


@record(frozen=True)
class Bound(Hashed):
    """A call with its numbers.

    Attributes
    ----------
    call
        The call.
    numbers
        Those of its inputs that are numbers, in order.
    """

    call: Call
    numbers: tuple[Any, ...]

    __hash__ = Hashed.__hash__

    def inputs(self, arrays: Sequence[Any]) -> list[Any]:
        """All inputs of the call."""
        rest, numbers = iter(arrays), iter(self.numbers)
        return self.call.values([next(rest) if kind is None else next(numbers)
                                 for kind in self.call.numbers])

    def __repr__(self) -> str:
        rest = iter(self.numbers)
        given = (f"{name}={next(rest)!r}" for (_, name), kind in zip(
            self.call.spec.parameters, self.call.numbers, strict=True)
            if kind is not None)
        return f"{self.call.spec.name}({', '.join(given)})"


@record(frozen=True)
class Placed(Hashed):
    """A call with its numbers, on arrays of given extents.

    Attributes
    ----------
    bound
        The call.
    inputs, outputs
        The shape and the dtype's name of each array.
    """

    bound: Bound
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]

    __hash__ = Hashed.__hash__

    @property
    def call(self) -> Call:
        """The call without numbers."""
        return self.bound.call


@record(frozen=True)
class Gradient(Hashed):
    """The pullback of a call.

    Attributes
    ----------
    call
        What was recorded: the results, then what was saved.
    types
        Of the inputs, by name; of numbers see `Call.numbers`, with their Python type.
    ranks
        Of the inputs.
    needs
        For which of them a cotangent is wanted.
    present
        Which outputs have a cotangent.
    gives
        The inputs whose cotangents are computed.
    """

    call: Call
    types: tuple[str, ...]
    ranks: tuple[int, ...]
    needs: tuple[bool, ...]
    present: tuple[bool, ...]
    gives: tuple[int, ...]

    __hash__ = Hashed.__hash__


#: What has a name.
Part = Call | Bound | Placed | Gradient


def call_of(spec: Spec, inputs: Sequence[Any], dtypes: Any, outputs: int) -> Call:
    """The call of a spec with these arguments."""
    numbers = tuple([
        x.dtype.name if isinstance(x, np.generic) else
        None if is_array(x) else "" for x in inputs])
    asked = None if dtypes is None else tuple(
        [None if d is None else np.dtype(d).name for d in dtypes])
    if asked is not None and not any(asked):
        asked = None
    return Call(spec, asked, numbers, outputs)


def identifier(part: Part) -> str:
    """A name that equal calls have in every process, and only they."""
    spec = (part if isinstance(part, Call) else part.call).spec
    name = re.sub(r"\W", "_", spec.name).strip("_") or "op"
    kind = "_gradient" if isinstance(part, Gradient) else ""
    return f"{name}{kind}_{cache.digest('op', text_of(part))[:16]}"


def store(name: str, part: Any) -> None:
    """Keep a call on disk under its name, for other processes."""
    key = cache.digest("called by name", name)
    if cache.noted(key) is None:
        cache.note(key, pickle.dumps(part))


def load(name: str) -> Any:
    """The call of that name, if a process that shares the cache has stored it."""
    return cache.noted(cache.digest("called by name", name), pickle.loads)


def text_of(part: Any) -> str:
    """Equal text for equal parts, and different text for others."""
    if isinstance(part, tuple):
        return f"({','.join(map(text_of, part))})"
    if is_dataclass(part):
        inner = ",".join(text_of(getattr(part, f.name)) for f in fields(part)
                         if f.compare)
        return f"{type(part).__name__}({inner})"
    return repr(part)

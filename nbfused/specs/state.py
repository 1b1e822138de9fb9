"""The state of a reduction, typed: what Reduce and Row's stages share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import UNFOLDED, Function, Literal, Value, literal
from ..scalar.typing.types import Typed, Weak, compute_dtype, promoted_dtype
from ..support.records import record
from .pointwise import pointwise
from .vjp.functions import compose

if TYPE_CHECKING:
    from ..scalar.typing.types import Type
    from .combine import Combine

__all__ = ["State", "implicit_of_one", "lifted", "state_of", "state_of_one"]

#: What the parameters of these names, or kinds, are to a single element.
_ALONE = {"index": 0, "size": 1}


@record(frozen=True)
class State:
    """The state of a reduction: how it is made, merged and kept.

    Attributes
    ----------
    element
        The map, then the combine's lift, cast to the state's dtypes; then what the map
        gives beyond the combine's operands.
    logical
        Dtypes by NumPy's rules (float16 stays float16).
    dtypes
        Dtypes in which the state is kept.
    """

    element: Typed
    merge: Typed
    identity: tuple[Literal, ...]
    logical: tuple[np.dtype, ...]
    dtypes: tuple[np.dtype, ...]

    def kinds(self, kinds: tuple[str, ...]) -> tuple[str, ...]:
        """`kinds` of the map's parameters, with the index that lift may add."""
        extra = len(self.element.function.params) - len(kinds)
        return kinds + ("index",) * extra


def lifted(map_: Function, combine: Combine, dtypes: tuple[np.dtype, ...] = (),
           index: str = "index") -> Function:
    """``lift(map(...))``, cast to `dtypes`; then what `combine` does not take.

    `index` names the parameter that is the index, the last one if `map_` has none.
    """
    params = map_.params
    if combine.indexed and index not in params:
        params = (*params, index)

    def build(b: Builder) -> tuple[Value, ...]:
        mapped = b.call(map_, *map_.params)
        taken, rest = mapped[:combine.arity], mapped[combine.arity:]
        state = b.call(combine.lift, *taken, *([index] if combine.indexed else []))
        if not dtypes:
            return (*state, *rest)
        return (*(b.let("cast", v, attr=d.name)
                  for v, d in zip(state, dtypes, strict=True)), *rest)

    return compose(map_.name, params, build)


def implicit_of_one(b: Builder) -> dict[str, Value]:
    """The index of a single element, and the number of elements.

    They are typed as those of several are: ``x*(index - 1)`` is right for unsigned `x`.
    """
    return {name: b.let("cast", literal(number), attr=UNFOLDED)
            for name, number in _ALONE.items()}


def state_of_one(b: Builder, map_: Function, combine: Combine, state: State,
                 scope: Mapping[str, Value], index: str = "index",
                 ) -> tuple[Value, ...]:
    """The state of a single element, whose map's parameters `scope` has.

    Sums begin at 0: that of -0.0 is 0.0, and an infinite one has no variance, as in
    NumPy.  A bound is neutral.
    """
    element = lifted(map_, combine, state.logical, index)
    values = b.call(element, *(scope[p] for p in element.params))
    if {"lowest", "highest"} & {*combine.identity}:
        return values
    neutral = [b.let("cast", literal(int(x)), attr=d.name)
               for x, d in zip(combine.identity, state.logical, strict=True)]
    return b.call(combine.merge, *neutral, *values)


def _widened(dtype: np.dtype) -> np.dtype:
    """The accumulator of `numpy.sum`."""
    if dtype.kind not in "biu":
        return dtype
    return np.dtype(np.add.reduce(np.zeros(1, dtype)).dtype)


@lru_cache(maxsize=4096)
def state_of(map_: Function, types: tuple[Type, ...], combine: Combine,
             index: str = "index") -> State:
    """Type a reduction's map and combine for parameters of `types`."""
    plain = lifted(map_, combine, index=index)
    types = types + (Weak("int"),) * (len(plain.params) - len(types))
    logical = pointwise(plain, types).results[:len(combine.identity)]
    if combine.widen:
        logical = tuple(_widened(d) for d in logical)
    while True:  # merging may widen: bool + bool, say
        merge = pointwise(combine.merge, (*logical, *logical))
        grown = tuple(promoted_dtype(a, b)
                      for a, b in zip(logical, merge.results, strict=True))
        if grown == logical:
            break
        logical = grown
    dtypes = tuple(compute_dtype(d) for d in logical)
    identity = tuple(_bound(which, d)
                     for which, d in zip(combine.identity, dtypes, strict=True))
    element = pointwise(lifted(map_, combine, logical, index), types)
    return State(element, merge, identity, logical, dtypes)


def _bound(which: str, dtype: np.dtype) -> Literal:
    """A neutral element as a number of `dtype`."""
    if dtype.kind == "b":
        return Literal("bool", str(which not in ("0", "lowest")))
    if which in ("lowest", "highest"):
        if dtype.kind in "fc":
            end = -np.inf if which == "lowest" else np.inf
            return Literal(dtype.name, repr(
                end if dtype.kind == "f" else complex(end, end)))
        info = np.iinfo(dtype)
        return Literal(dtype.name, str(info.min if which == "lowest" else info.max))
    number = {"f": float, "c": complex}.get(dtype.kind, int)(which)
    return Literal(dtype.name, repr(number))

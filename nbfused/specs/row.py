"""`Row`: stages of reductions along one axis, then a map, in one launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.ir import Function, Literal
    from ..scalar.types import Typed
    from .combine import Combine

__all__ = ["Out", "Row", "Stage", "TypedOut", "TypedRow", "TypedStage"]


@dataclass(frozen=True)
class Stage:
    """A reduction of each row to the values `names`.

    `map` reads inputs, names of earlier stages, ``index`` (the column) and ``size``
    (the number of columns) by parameter name; so does `post`, whose first
    parameters are the state.
    """

    names: tuple[str, ...]
    map: Function
    combine: Combine
    post: Function
    detach: bool = False


@dataclass(frozen=True)
class Out:
    """An output: ``"element"`` (one value for each element), ``"row"`` (one for each
    row), ``"column"`` (`function` summed over the rows) or ``"scalar"`` (summed over
    all elements).  `function` wires its parameters by name and has one result."""

    kind: str
    function: Function


@dataclass(frozen=True)
class Row:
    """Inputs (`kinds`: element, row, column, scalar), `stages` in order, `outs`."""

    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    stages: tuple[Stage, ...]
    outs: tuple[Out, ...]
    axis: int = -1


@dataclass(frozen=True)
class TypedStage:
    """Parameters of `element` and `post` are names to look up; see `TypedRow`."""

    names: tuple[str, ...]
    element: Typed
    merge: Typed
    post: Typed
    identity: tuple[Literal, ...]
    state: tuple[np.dtype, ...]


@dataclass(frozen=True)
class TypedOut:
    """An output's kind and function; ``column`` and ``scalar`` sums are kept in
    `accumulator`."""

    kind: str
    function: Typed
    accumulator: np.dtype


@dataclass(frozen=True)
class TypedRow:
    """A Row with every value typed.

    Every function's parameters are names: of an input (loaded, in its computing
    dtype), of a stage's value, ``index`` or ``size``; `post`'s first
    ``len(state)`` parameters are the state.  `dtypes` has the computing dtype of
    each input and stage value.
    """

    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    stages: tuple[TypedStage, ...]
    outs: tuple[TypedOut, ...]
    dtypes: dict[str, np.dtype]

"""Arrays that a function reads from outside, passed to it as hidden arguments.

To trace it, the function and those it calls are copied with symbols in their place.
Copies also have an ``isinstance`` and a ``type`` that take what is traced for what it
stands for, and functions of NumPy that look at what they are called with.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Hashable, Mapping
from types import CellType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import dtype_of
from ....arrays.detect import exact_library, is_symbolic
from ....arrays.dtypes import SUPPORTED
from ....autograd import Variable
from ....scalar.printing.identifiers import identifier
from ..symbols.arrays import Symbol
from ..symbols.numbers import Number
from .containers import (
    holds_array,
    is_array_argument,
    is_container,
    items_of,
)
from .host_arrays import looking

if TYPE_CHECKING:
    from .scope import Scope

__all__ = ["UNBOUND", "Hidden", "Place", "asks_types", "content"]

#: How to read a value, and from where.
Place = tuple[Callable[..., Any], Any]
UNBOUND = object()


class Hidden:
    """The arrays that a function reads from outside, and functions that it calls.

    Parameters
    ----------
    scope_of
        Gives the `Scope` of a function.
    taken
        Names that mean something else.

    Attributes
    ----------
    functions
        Those that can be copied; for each the functions that it reads.
    names
        For the key of each binding of an array the name that it is passed by.
    """

    def __init__(self, scope_of: Callable[[Any], Scope],
                 taken: Collection[str] = ()) -> None:
        self._scope_of, self._taken = scope_of, taken
        self.functions: dict[FunctionType, list[FunctionType]] = {}
        self.names: dict[Hashable, str] = {}
        self._places: dict[str, Place] = {}
        self._own: set[FunctionType] = set()  # functions that need a copy themselves

    def places(self) -> list[tuple[str, Place]]:
        """List where each array is read."""
        return list(self._places.items())

    def collect(self, function: FunctionType) -> None:
        """Add what a function reads, and the functions of users that it reads."""
        scope = self._scope_of(function)
        if function in self.functions or not scope.hides:
            return
        inner = self.functions[function] = []
        if scope.asks_types:
            self._own.add(function)
        for name, x, read, where, key in scope.bindings():
            if _can_hide(x):
                self._add(function, key, name, (read, where))
            elif looking(x) is not x:
                self._own.add(function)
            else:
                self._collect_from(x, scope, inner)
        for k, x in enumerate(function.__defaults__ or ()):
            if _can_hide(x):
                self._add(function, (id(function), k), "default", (
                    _default, (function, k)))

    def _collect_from(self, x: Any, scope: Scope, inner: list[FunctionType]) -> None:
        """Add a function of a user, or one of another module that wraps it."""
        if scope.is_users(x):
            self.collect(x)
            inner.append(x)
        elif scope.wraps_users(x):
            inner.append(x)
            if x not in self.functions:
                held = self.functions[x] = []
                for cell in x.__closure__ or ():
                    self._collect_from(content(cell), scope, held)

    def _add(self, function: FunctionType, key: Hashable, name: str,
             place: Place) -> None:
        self._own.add(function)
        if key not in self.names:
            unique = identifier(name)
            while unique in self._places or unique in self._taken:
                unique += "_"
            self.names[key] = unique
            self._places[unique] = place

    def copy(self, function: FunctionType, values: Mapping[str, Any]) -> FunctionType:
        """The function, and those it calls that need it, with other values."""
        needed = set(self._own)
        while more := {f for f, inner in self.functions.items()
                       if f not in needed and needed.intersection(inner)}:
            needed |= more
        if function not in needed:
            return function
        copied: dict[int, dict[str, Any]] = {}
        cells = dict[int, CellType]()
        for f in needed:
            if id(f.__globals__) not in copied and self._scope_of(f).is_users(f):
                copied[id(f.__globals__)] = {**_TYPES, **dict(f.__globals__)}
        made = {f: self._copied(f, values, copied.get(id(f.__globals__),
                                                      f.__globals__), cells)
                for f in needed}
        for f in needed:
            outside = copied.get(id(f.__globals__))
            if outside is not None:
                self._replace(f.__globals__, outside, made, values)
        for cell in cells.values():
            x = content(cell)
            if isinstance(x, FunctionType) and x in made:
                cell.cell_contents = made[x]
        return made[function]

    def _replace(self, known: Mapping[str, Any], outside: dict[str, Any],
                 made: Mapping[FunctionType, FunctionType],
                 values: Mapping[str, Any]) -> None:
        """Put copies of functions, and values of arrays, into copied globals."""
        for name, x in known.items():
            if isinstance(x, FunctionType) and x in made:
                outside[name] = made[x]
            elif (id(known), name) in self.names:
                outside[name] = values[self.names[id(known), name]]
            else:
                outside[name] = looking(x)

    def _copied(self, f: FunctionType, values: Mapping[str, Any],
                outside: dict[str, Any], cells: dict[int, CellType]) -> FunctionType:
        own = []
        for cell in f.__closure__ or ():
            if id(cell) not in cells:
                x = content(cell)
                name = self.names.get(id(cell))
                cells[id(cell)] = CellType(values[name]) if name else (
                    cell if x is UNBOUND else CellType(looking(x)))
            own.append(cells[id(cell)])
        made = FunctionType(f.__code__, outside, f.__name__, tuple(
            values[self.names[id(f), k]] if (id(f), k) in self.names else x
            for k, x in enumerate(f.__defaults__ or ())), tuple(own))
        made.__kwdefaults__ = f.__kwdefaults__
        made.__qualname__, made.__module__ = f.__qualname__, f.__module__
        made.__dict__.update(f.__dict__)
        return made


def _can_hide(x: Any) -> bool:
    """Whether a value is an array that kernels take, or holds such and no other."""
    if is_array_argument(x):
        data = x.data if isinstance(x, Variable) else x
        return dtype_of(x) in SUPPORTED and (
            exact_library(type(data)) is not None or is_symbolic(data))
    return ((is_container(x) and not isinstance(x, tuple)) or holds_array(x)) and all(
        _can_hide(v) for _, v in items_of(x) if is_array_argument(v) or holds_array(v))


def _default(function: FunctionType, k: int) -> Any:
    return (function.__defaults__ or ())[k]


def content(cell: CellType) -> Any:
    """Read a closure's cell; `UNBOUND` if it holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def asks_types(code: CodeType) -> bool:
    """Whether a function asks for the types of values."""
    return not _TYPES.keys().isdisjoint(code.co_names) or any(
        isinstance(c, CodeType) and asks_types(c) for c in code.co_consts)


def _stands_for(x: Any) -> Any:
    """Give what a symbol is in the place of, as far as its type tells."""
    if isinstance(x, Number):
        return x.example
    if not isinstance(x, Symbol):
        return x
    given = x.tracer.given.get(x.own) if x.own else None
    if given is not None:
        return given
    if x.scalar and not x.extents and x.tracer.kind is np.ndarray:
        return dtype_of(x).type(0)
    return x.tracer.sample


def _isinstance(x: Any, kinds: Any) -> bool:
    """``isinstance``, which takes what is traced for what it stands for."""
    return isinstance(_stands_for(x), _plain(kinds))


def _plain(kinds: Any) -> Any:
    if isinstance(kinds, tuple):
        return tuple(map(_plain, kinds))
    return type if kinds is _type else kinds


def _type(*args: Any) -> Any:
    """``type``, likewise."""
    return builtins.type(*map(_stands_for, args)) if len(args) == 1 else \
        builtins.type(*args)


_TYPES = {"isinstance": _isinstance, "type": _type}

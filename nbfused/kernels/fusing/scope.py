"""Values that a fused function reads from outside: constants, and hidden arrays.

Constants are part of a program's key.  Arrays in globals, closures and defaults, also
in containers, are looked up at each call and passed like arguments; to trace it, the
function is copied with symbols in their place.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import lru_cache, partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ...arrays import dtype_of
from ...arrays.detect import exact_library
from ...arrays.dtypes import SUPPORTED
from ...autograd import Variable
from ...scalar.printing.identifiers import identifier
from .arguments import (
    PLAIN,
    can_change,
    constant_key,
    holds_array,
    is_array_argument,
    is_cached,
    items_of,
)
from .symbols import Symbol

__all__ = ["Outside", "Scope"]

#: Packages whose constants are known.
_KNOWN = frozenset({"jax", "math", "nbfused", "numpy", "torch"})
#: How to read a value, and from where.
_Place = tuple[Callable[..., Any], Any]
#: A value: how to read it again, from where, and what it is.
_Watched = tuple[Callable[..., Any], Any, Any]
_UNBOUND = object()
#: Wrappers around one another, at most.
_DEPTH = 8
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")


class Outside(NamedTuple):
    """The values outside, as they are now.

    Attributes
    ----------
    keys
        The key of the constants.
    unstable
        Names of those that may change unseen.
    arrays
        Arrays, and containers that hold some, by a name for each.
    """

    keys: tuple[Hashable, ...]
    unstable: list[str]
    arrays: dict[str, Any]


class _Kept(NamedTuple):
    """The values that were found last, and what they depend on."""

    watched: tuple[_Watched, ...]
    keys: tuple[Hashable, ...]
    arrays: tuple[tuple[str, _Place, type], ...]


class Scope:
    """The values outside that a function reads: globals, closure, bound object.

    Attributes
    ----------
    hides
        Whether arrays are hidden arguments; they are not if the function rebinds what
        is outside, or cannot be copied.
    """

    def __init__(self, function: Any) -> None:
        self.hides: bool = isinstance(function, FunctionType) and not _rebinds(
            function.__code__, function.__code__.co_freevars)
        self._function = function
        bound: list[tuple[str, Any]] = []
        while isinstance(function, partial):
            bound += [("args", function.args), *function.keywords.items()]
            function = function.func
        if not isinstance(function, (FunctionType, MethodType)) and callable(function):
            call = type(function).__call__
            if isinstance(call, FunctionType):
                bound.append((type(function).__name__, function))
                function = call
        if isinstance(function, MethodType):
            bound.append(("self", function.__self__))
        code = getattr(function, "__code__", None)
        free = () if code is None else code.co_freevars
        self.bound: tuple[tuple[str, Any], ...] = tuple(bound)
        self.globals: Any | dict[Any, Any] = getattr(function, "__globals__", {})
        paths = () if code is None else tuple(dict.fromkeys(_paths(code, free)))
        self.names: tuple[str, ...] = tuple(dict.fromkeys(path[0] for path in paths
                                         if path[0] not in free))
        self.paths: dict[str, list[tuple[str, ...]]] = {}
        for path in paths:
            if len(path) > 1 and not _is_known(self.globals.get(path[0])):
                self.paths.setdefault(path[0], []).append(path)
        self._kept: _Kept | None = None
        self.cells = dict(zip(free, getattr(function, "__closure__", None) or (),
                              strict=True))

    def look(self) -> Outside:
        """The values as they are now.

        Functions of the same module are looked into, too.  Where all constants are the
        same objects as in the last call, and none can change, so is the key.
        """
        kept = self._kept
        if kept is not None and all(
                read(*where) is value for read, where, value in kept.watched):
            arrays = {name: read(*where) for name, (read, where), _ in kept.arrays}
            if all(type(arrays[name]) is kind for name, _, kind in kept.arrays):
                return Outside(kept.keys, [], arrays)
        hidden, watched = self._hidden(), list[_Watched]()
        keys, unstable = self._constants(frozenset(), watched, hidden)
        fixed = not unstable and not any(can_change(value) for *_, value in watched)
        arrays = {name: read(*where) for name, (read, where) in hidden.places()}
        self._kept = _Kept(tuple(watched), keys, tuple([
            (name, place, type(arrays[name])) for name, place in hidden.places()
            ])) if fixed else None
        return Outside(keys, unstable, arrays)

    def stop_hiding(self) -> None:
        """Have arrays be values that may change unseen."""
        self.hides, self._kept = False, None

    def copy(self, values: Mapping[str, Any]) -> Any:
        """The function with `values` in the place of the arrays of `look`."""
        return self._hidden().copy(self._function, values)

    def _hidden(self) -> _Hidden:
        """The arrays that are hidden arguments, by other names than arguments have."""
        if not self.hides:
            return _Hidden()
        hidden = _Hidden(self._function.__code__.co_varnames)
        hidden.collect(self._function)
        return hidden

    def _constants(self, seen: frozenset[Any], watched: list[_Watched],
                   hidden: _Hidden) -> tuple[tuple[Hashable, ...], list[str]]:
        keys: list[Hashable] = []
        unstable: list[str] = []
        for name, x, read, where, key in self.bindings():
            if key in hidden.names:
                keys.append((name, "array"))
                continue
            watched.append((read, where, x))
            for path in self.paths.get(name, ()):
                watched.append((_member, (path, x), _member(path, x)))
                keys.append(_plain_member(path, x))
            keys.append(constant_key(name, x))
            if keys[-1] is None:
                unstable.append(name)
            f = self._unwrapped(x)
            if f is not None and f not in seen:
                inner, more = scope_of(f)._constants(
                    seen | {f}, watched, hidden if f in hidden.functions else _Hidden())
                keys.append(inner)
                unstable += more
        return tuple(keys), unstable

    def is_local(self, x: Any) -> bool:
        """Whether a value is a function of the same module."""
        return isinstance(x, FunctionType) and x.__globals__ is self.globals

    def wraps_local(self, x: Any) -> bool:
        """Whether a function of another module wraps one of this, as `nf.grad` does."""
        return isinstance(x, FunctionType) and not self.is_local(x) and \
            self._unwrapped(x) is not None

    def _unwrapped(self, x: Any) -> FunctionType | None:
        """The function of the same module that a value is or wraps."""
        for _ in range(_DEPTH):
            if self.is_local(x):
                found: FunctionType = x
                return found
            if not (isinstance(x, FunctionType) or is_cached(x)):
                return None
            x = getattr(x, "__wrapped__", None)
        return None

    def bindings(self) -> Iterator[tuple[str, Any, Callable[..., Any], Any, Hashable]]:
        """Name and value of each binding, how to read it again, and a key for it."""
        for name, x in self.bound:
            yield name, x, _itself, (x,), None
        for name in self.names:
            if name in self.globals:
                yield name, self.globals[name], self.globals.get, (name,), name
        for name, cell in self.cells.items():
            x = _content(cell)
            if x is not _UNBOUND:
                yield name, x, _content, (cell,), id(cell)


class _Hidden:
    """The arrays that a function reads from outside, and functions that it calls.

    Parameters
    ----------
    taken
        Names that mean something else.

    Attributes
    ----------
    functions
        Those that can be copied; for each the functions that it reads.
    names
        For the key of each binding of an array the name that it is passed by.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = taken
        self.functions: dict[FunctionType, list[FunctionType]] = {}
        self.names: dict[Hashable, str] = {}
        self._places: dict[str, _Place] = {}
        self._own: set[FunctionType] = set()  # functions that read arrays themselves

    def places(self) -> list[tuple[str, _Place]]:
        """List where each array is read."""
        return list(self._places.items())

    def collect(self, function: FunctionType) -> None:
        """Add what a function reads, and the functions of its module that it reads."""
        scope = scope_of(function)
        if function in self.functions or not scope.hides:
            return
        inner = self.functions[function] = []
        for name, x, read, where, key in scope.bindings():
            if _can_hide(x):
                self._add(function, key, name, (read, where))
            else:
                self._collect_from(x, scope, inner)
        for k, x in enumerate(function.__defaults__ or ()):
            if _can_hide(x):
                self._add(function, (id(function), k), "default", (
                    _default, (function, k)))

    def _collect_from(self, x: Any, scope: Scope, inner: list[FunctionType]) -> None:
        """Add a function of the module, or one of another module that wraps it."""
        if scope.is_local(x):
            self.collect(x)
            inner.append(x)
        elif scope.wraps_local(x):
            inner.append(x)
            if x not in self.functions:
                held = self.functions[x] = []
                for cell in x.__closure__ or ():
                    self._collect_from(_content(cell), scope, held)

    def _add(self, function: FunctionType, key: Hashable, name: str,
             place: _Place) -> None:
        self._own.add(function)
        if key not in self.names:
            unique = identifier(name)
            while unique in self._places or unique in self._taken:
                unique += "_"
            self.names[key] = unique
            self._places[unique] = place

    def copy(self, function: FunctionType, values: Mapping[str, Any]) -> FunctionType:
        """The function, and those it calls that read arrays, with other values."""
        needed = set(self._own)
        while more := {f for f, inner in self.functions.items()
                       if f not in needed and needed.intersection(inner)}:
            needed |= more
        if function not in needed:
            return function
        outside = function.__globals__
        copied, cells = dict(outside), dict[int, CellType]()
        made = {f: self._copied(f, values, copied if f.__globals__ is outside
                                else f.__globals__, cells) for f in needed}
        copied.setdefault("isinstance", _isinstance)
        for name, x in outside.items():
            if isinstance(x, FunctionType) and x in made:
                copied[name] = made[x]
            elif name in self.names:
                copied[name] = values[self.names[name]]
        for cell in cells.values():
            x = _content(cell)
            if isinstance(x, FunctionType) and x in made:
                cell.cell_contents = made[x]
        return made[function]

    def _copied(self, f: FunctionType, values: Mapping[str, Any],
                outside: dict[str, Any], cells: dict[int, CellType]) -> FunctionType:
        own = []
        for cell in f.__closure__ or ():
            if id(cell) not in cells:
                x = _content(cell)
                name = self.names.get(id(cell))
                cells[id(cell)] = CellType(values[name]) if name else (
                    cell if x is _UNBOUND else CellType(x))
            own.append(cells[id(cell)])
        made = FunctionType(f.__code__, outside, f.__name__, tuple(
            values[self.names[id(f), k]] if (id(f), k) in self.names else x
            for k, x in enumerate(f.__defaults__ or ())), tuple(own))
        made.__kwdefaults__ = f.__kwdefaults__
        made.__qualname__, made.__module__ = f.__qualname__, f.__module__
        made.__dict__.update(f.__dict__)
        return made


@lru_cache(maxsize=256)
def scope_of(function: Any) -> Scope:
    """The scope of a function."""
    return Scope(function)


def _can_hide(x: Any) -> bool:
    """Whether a value is an array that kernels take, or holds such and no other."""
    if is_array_argument(x):
        data = x.data if isinstance(x, Variable) else x
        return exact_library(type(data)) is not None and dtype_of(x) in SUPPORTED
    return holds_array(x) and all(
        _can_hide(v) for _, v in items_of(x) if is_array_argument(v) or holds_array(v))


def _rebinds(code: CodeType, free: tuple[str, ...]) -> bool:
    """Whether code binds names outside of the function, as ``global`` lets it."""
    return any(step.opname in _STORES and (
        step.opname.endswith("GLOBAL") or step.argval in free)
        for step in dis.get_instructions(code)) or any(
            isinstance(inner, CodeType) and _rebinds(inner, free)
            for inner in code.co_consts)


def _is_known(x: Any) -> bool:
    return isinstance(x, ModuleType) and x.__name__.partition(".")[0] in _KNOWN


def _itself(x: Any) -> Any:
    return x


def _isinstance(x: Any, kinds: Any) -> bool:
    """``isinstance``, which takes a traced argument for what was passed."""
    given = x.trace.given.get(x.own) if isinstance(x, Symbol) and x.own else None
    return isinstance(x if given is None else given, kinds)


def _default(function: FunctionType, k: int) -> Any:
    return (function.__defaults__ or ())[k]


def _content(cell: CellType) -> Any:
    """Read a closure's cell; `_UNBOUND` if it holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNBOUND


def _member(path: tuple[str, ...], x: Any) -> Any:
    """Follow a path of names from the module or class `x`."""
    for name in path[1:]:
        if not isinstance(x, (ModuleType, type)):
            break
        x = getattr(x, name, None)
    return x


def _plain_member(path: tuple[str, ...], x: Any) -> Hashable:
    """The key of a plain value in the module or class `x`; None for anything else."""
    x = _member(path, x)
    return constant_key(".".join(path), x) if isinstance(x, (*PLAIN, tuple)) else None


def _paths(code: CodeType, free: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The globals and `free` variables that a function reads, with attributes of them.

    Also those that the functions inside it read.
    """
    path: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        if path and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            path += (step.argval,)
            continue
        if path:
            yield path
        outside = step.opname in ("LOAD_GLOBAL", "LOAD_NAME") or (
            step.opname == "LOAD_DEREF" and step.argval in free)
        path = (step.argval,) if outside else ()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _paths(constant, free)

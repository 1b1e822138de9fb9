"""Values that a fused function reads from outside: constants, and hidden arrays.

Constants are part of a program's key.  Arrays in globals, closures and defaults, also
in containers, are looked up at each call and passed like arguments; to trace it, the
function is copied with symbols in their place.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from ....arrays.traced import Traced
from ....autograd import Function
from ....autograd.rules import checkpoint, custom_vjp
from ....errors import KernelTypeError
from ....support.forks import cached_property
from ..arguments import PLAIN, can_change, constant_key, is_cached
from .containers import is_user_class
from .hidden import UNBOUND, Hidden, Place, asks_types, content
from .lines import is_library

__all__ = ["Outside", "Scope"]

#: Packages whose constants are known.
_KNOWN = frozenset({"jax", "math", "nbfused", "numpy", "torch"})
#: A value: how to read it again, from where, and what it is.
_Watched = tuple[Callable[..., Any], Any, Any]
#: Wrappers around one another, at most.
_DEPTH = 8
_STORES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF")
#: Methods that no operator calls.
_UNCALLED = frozenset({"__init__", "__new__", "__repr__", "__str__", "__reduce__",
                       "__setstate__", "__getstate__", "__del__", "__init_subclass__"})


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
    arrays: tuple[tuple[str, Place, type], ...]

    def unchanged(self) -> Outside | None:
        """The values as they are now; None if a constant or an array's type differs."""
        for read, where, value in self.watched:
            if read(*where) is not value:
                return None
        arrays = {}
        for name, (read, where), kind in self.arrays:
            arrays[name] = x = read(*where)
            if type(x) is not kind:
                return None
        return Outside(self.keys, [], arrays)


class Scope:
    """The values outside that a function reads: globals, closure, bound object.

    Attributes
    ----------
    hides
        Whether arrays are hidden arguments; they are not if the function rebinds what
        is outside, or cannot be copied.
    asks_types
        Whether it asks for the type of a value.
    """

    def __init__(self, function: Any) -> None:
        self.hides: bool = isinstance(function, FunctionType) and not any(
            _rebound(function.__code__, function.__code__.co_freevars))
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
        #: Classes of objects among the arguments, whose methods are looked into.
        self._classes: dict[type, None] = {}
        self.code: CodeType | None = code
        self.asks_types: bool = code is not None and asks_types(code)
        self.cells = dict(zip(free, getattr(function, "__closure__", None) or (),
                              strict=True))

    def look(self) -> Outside:
        """The values as they are now.

        Functions of the same module are looked into, too.  Where all constants are the
        same objects as in the last call, and none can change, so is the key.
        """
        kept = self._kept
        found = kept and kept.unchanged()
        if found is not None:
            return found
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

    def _hidden(self) -> Hidden:
        """The arrays that are hidden arguments, by other names than arguments have."""
        if not self.hides:
            return Hidden(scope_of)
        hidden = Hidden(scope_of, self._function.__code__.co_varnames)
        hidden.collect(self._function)
        return hidden

    def _constants(self, seen: frozenset[Any], watched: list[_Watched],
                   hidden: Hidden) -> tuple[tuple[Hashable, ...], list[str]]:
        keys: list[Hashable] = list(self._classes)
        unstable: list[str] = []
        functions = self._methods() if self._classes else []
        for name, x, read, where, key in self.bindings():
            if key in hidden.names:
                keys.append((name, "array"))
                continue
            watched.append((read, where, x))
            for path in self.paths.get(name, ()):
                member = _member(path, x)
                watched.append((_member, (path, x), member))
                keys.append(_plain_member(path, x))
                functions += [f for f in _functions_of(member) if f is not x]
            keys.append(constant_key(name, x))
            if keys[-1] is None:
                unstable.append(name)
            functions += _functions_of(x)
        for f in functions:
            if f not in seen:
                inner, more = scope_of(f)._constants(
                    seen | {f}, watched,
                    hidden if f in hidden.functions else Hidden(scope_of))
                keys.append(inner)
                unstable += more
        if self.rebound:
            unstable += [f"{name}, which it assigns" for name in self.rebound]
        return tuple(keys), unstable

    @staticmethod
    def is_users(x: Any) -> bool:
        """Whether a value is a function that a user has written."""
        return isinstance(x, FunctionType) and _is_users(x)

    @classmethod
    def wraps_users(cls, x: Any) -> bool:
        """Whether a function of another module wraps such a one, as `nf.grad` does."""
        return isinstance(x, FunctionType) and not _is_users(x) and bool(
            _functions_of(x))

    @cached_property
    def rebound(self) -> tuple[str, ...]:
        """The names outside that the function assigns to."""
        return () if self.code is None else tuple(dict.fromkeys(
            _rebound(self.code, self.code.co_freevars)))

    def check_rebound(self) -> None:
        """Refuse a traced array that was assigned to a name outside.

        Raises
        ------
        KernelTypeError
            One was.
        """
        for f in [self, *map(scope_of, self._reached())]:
            for name in f.rebound:
                x = content(f.cells[name]) if name in f.cells else f.globals.get(name)
                if isinstance(x, Traced):
                    raise KernelTypeError(
                        f"nf.fuse: the function assigns a traced array to {name}, a "
                        "name outside; return it, and assign it there")

    def add_classes(self, classes: Collection[type]) -> bool:
        """Look into the methods of classes from now on; whether one is new."""
        if self._classes.keys() >= set(classes):
            return False
        self._classes |= dict.fromkeys(sorted(classes, key=lambda c: c.__qualname__))
        self._kept = None
        return True

    def codes(self) -> Iterator[CodeType]:
        """The code of the function, and of the users' functions that it reads."""
        for code in (self.code, *(f.__code__ for f in self._reached())):
            if code is not None:
                yield code

    def _reached(self) -> list[FunctionType]:
        """The functions of users that it reads, and those that they read."""
        found: dict[FunctionType, None] = {}
        stack: list[Scope] = [self]
        while stack:
            for _, x, *_ in stack.pop().bindings():
                for f in _functions_of(x):
                    if f not in found:
                        found[f] = None
                        stack.append(scope_of(f))
        return list(found)

    def _methods(self) -> list[FunctionType]:
        """The methods of the classes whose names are used, and operators."""
        found: dict[FunctionType, None] = {}
        names: set[str] = set()
        stack = [c for f in (self, *map(scope_of, self._reached()))
                 if (c := f.code) is not None]
        while stack:
            while stack:
                names |= _names(stack.pop())
            for kind in self._classes:
                for f in _methods_of(kind, names):
                    if f not in found:
                        found[f] = None
                        stack.append(f.__code__)
        return list(found)

    def bindings(self) -> Iterator[tuple[str, Any, Callable[..., Any], Any, Hashable]]:
        """Name and value of each binding, how to read it again, and a key for it."""
        for name, x in self.bound:
            yield name, x, _itself, (x,), None
        for name in self.names:
            if name in self.globals:
                yield (name, self.globals[name], self.globals.get, (name,),
                       (id(self.globals), name))
        for name, cell in self.cells.items():
            x = content(cell)
            if x is not UNBOUND:
                yield name, x, content, (cell,), id(cell)


@lru_cache(maxsize=256)
def scope_of(function: Any) -> Scope:
    """The scope of a function."""
    return Scope(function)


def _rebound(code: CodeType, free: tuple[str, ...]) -> Iterator[str]:
    """Names outside of the function that code binds, as ``global`` lets it."""
    for step in dis.get_instructions(code):
        if step.opname in _STORES and (step.opname.endswith("GLOBAL")
                                       or step.argval in free):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _rebound(inner, free)


@lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str]:
    """The names that code mentions."""
    return frozenset(code.co_names).union(*(
        _names(c) for c in code.co_consts if isinstance(c, CodeType)))


def _is_users(f: FunctionType) -> bool:
    module = str(f.__globals__.get("__name__", ""))
    return not is_library(f.__code__.co_filename) and (
        module.partition(".")[0] not in _KNOWN
        or module.startswith(("nbfused.examples", "nbfused.demo")))


def _functions_of(x: Any, depth: int = _DEPTH) -> list[FunctionType]:
    """The functions of users that a value is, wraps or is made of."""
    if isinstance(x, FunctionType) and _is_users(x):
        return [x]
    inner: tuple[Any, ...] = ()
    if isinstance(x, FunctionType) or is_cached(x):
        inner = (getattr(x, "__wrapped__", None),)
    elif isinstance(x, custom_vjp):
        inner = x.function, x.fwd, x.bwd
    elif isinstance(x, checkpoint):
        inner = (x.function,)
    elif isinstance(x, type) and issubclass(x, Function) and x is not Function:
        inner = x.forward, x.backward
    return [f for one in inner if depth and one is not None
            for f in _functions_of(one, depth - 1)]


def _methods_of(kind: type, names: Collection[str]) -> Iterator[FunctionType]:
    """The methods, properties among them, that are named or are operators."""
    for base in kind.__mro__:
        if base is object or not is_user_class(base):
            continue
        for name, x in vars(base).items():
            if name in names or (name.startswith("__") and name not in _UNCALLED):
                found = (x.fget, x.fset) if isinstance(x, property) else (
                    getattr(x, "__func__", getattr(x, "func", x)),)
                for f in found:
                    yield from _functions_of(f)


def _is_known(x: Any) -> bool:
    return isinstance(x, ModuleType) and x.__name__.partition(".")[0] in _KNOWN


def _itself(x: Any) -> Any:
    return x


def _member(path: tuple[str, ...], x: Any) -> Any:
    """Follow a path of names from the module, class or function `x`."""
    for name in path[1:]:
        if not isinstance(x, (ModuleType, type, FunctionType)):
            break
        x = getattr(x, name, None)
    return x


def _plain_member(path: tuple[str, ...], x: Any) -> Hashable:
    """The key of a plain value or function in `x`; None for anything else."""
    x = _member(path, x)
    return constant_key(".".join(path), x) if isinstance(
        x, (*PLAIN, tuple, FunctionType)) else None


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

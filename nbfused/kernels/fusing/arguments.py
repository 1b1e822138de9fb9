"""The arguments of a fused function, and their keys in its cache."""

from __future__ import annotations

import dis
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from functools import lru_cache, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from ...arrays import dtype_of, is_array, library_of
from ...arrays.detect import exact_library
from ...arrays.traced import Traced
from ...autograd import Variable
from ...autograd.rules import checkpoint, custom_vjp
from ...op import Func
from ...scalar.printing.identifiers import identifier
from ...scalar.typing.python_numbers import number_type
from ...specs.base import Shape
from ..cupy.elementwise_kernel import ElementwiseKernel
from ..cupy.reduction_kernel import ReductionKernel

__all__ = ["Arguments", "Scope", "can_change", "constant_key", "holds_array", "is_leaf",
           "is_number", "is_tracked", "shape_class"]

#: Constants that their text tells apart, and those that are told apart by identity.
_PLAIN = (str, bytes, bool, int, float, complex, np.generic, type(None), EllipsisType,
          slice, np.dtype)
_FIXED = (type, FunctionType, BuiltinFunctionType, np.ufunc, ModuleType, Enum, Func,
          ElementwiseKernel, ReductionKernel, checkpoint, custom_vjp)
#: Packages whose constants are.
_KNOWN = frozenset({"jax", "math", "nbfused", "numpy", "torch"})
#: Types whose every instance is an array or a number.
_LEAVES: set[type] = {Variable, bool, int, float, complex}
_NUMBERS = frozenset({bool, int, float, complex})


def is_number(x: Any) -> bool:
    """True if an argument is passed by value; members of enumerations are constant."""
    if type(x) in _LEAVES:
        return type(x) in _NUMBERS
    return isinstance(x, (bool, int, float, complex, np.generic)) and not isinstance(
        x, Enum)


def is_tracked(x: Any) -> bool:
    """True if an array requires grad: on our tape, or on PyTorch's."""
    return bool(getattr(x, "requires_grad", False))


def is_leaf(x: Any) -> bool:
    """True if an argument is an array or a number."""
    return type(x) in _LEAVES or _is_array(x) or is_number(x)


def _is_array(x: Any) -> bool:
    return isinstance(x, Variable) or (is_array(x) and not isinstance(x, np.generic))


def _items(x: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, (tuple, list)):
        yield from enumerate(x)


def holds_array(x: Any) -> bool:
    """True if it is a container with an array in it."""
    return any(_is_array(v) or holds_array(v) for _, v in _items(x))


class Arguments:
    """Arguments by name; those in containers that hold arrays are found in there.

    Attributes
    ----------
    leaves
        Arrays and numbers, in their order.
    constants
        The key of what else there is: containers, and values that are constant.
    unstable
        Names of those that may change unseen.
    traced
        Whether another function is being traced, which calls this one.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self.named = named
        self.leaves: list[Any] = []
        self.constants: list[Hashable] = [tuple(named)]
        self.unstable: list[str] = []
        self.traced = False
        for name, x in named.items():
            self._visit(name, x)
        self.arrays: bool = not all(map(is_number, self.leaves))

    def _visit(self, name: str, x: Any) -> None:
        if type(x) in _LEAVES:
            self.leaves.append(x)
        elif _is_array(x) or is_number(x):
            self.traced |= isinstance(x, Traced)
            if exact_library(type(x)) is not None:
                _LEAVES.add(type(x))
            self.leaves.append(x)
        elif holds_array(x):
            self.constants.append((type(x), tuple(map(repr, x)) if isinstance(x, dict)
                                   else len(x)))
            for _, item in _items(x):
                self._visit(name, item)
        else:
            self.constants.append(constant_key(name, x))
            if self.constants[-1] is None:
                self.unstable.append(name)

    @property
    def tensors(self) -> bool:
        """True if there are tensors of PyTorch."""
        return any(is_array(x) and library_of(x).name == "torch" for x in self.leaves)

    def types(self) -> tuple[Hashable, ...]:
        """Type, dtype, rank of arrays, and if they are tracked; types of numbers."""
        return tuple((number_type(x),) if is_number(x) else
                     (type(x), dtype_of(x), len(x.shape), is_tracked(x))
                     for x in self.leaves)

    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the arrays."""
        return tuple(tuple(x.shape) for x in self.leaves if not is_number(x))

    def map_leaves(self, leaf: Callable[[Any, str], Any]) -> dict[str, Any]:
        """The arguments with ``leaf(x, name)`` for each array and number."""

        def visit(name: str, x: Any) -> Any:
            if is_leaf(x):
                return leaf(x, name)
            if not holds_array(x):
                return x
            items = {k: visit(identifier(f"{name}_{k}"), v) for k, v in _items(x)}
            if isinstance(x, dict):
                return items
            made = list(items.values())
            return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)

        return {name: visit(name, x) for name, x in self.named.items()}


def shape_class(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """A key of equal extents, zeros and ones: all that broadcasting sees."""
    numbers = {0: 0, 1: 1}
    return tuple(tuple(numbers.setdefault(n, len(numbers)) for n in shape)
                 for shape in shapes)


def constant_key(name: str, x: Any) -> Hashable:
    """The key of a constant; None for one that may change unseen."""
    if isinstance(x, _PLAIN):
        return name, type(x), repr(x)
    if isinstance(x, _FIXED) or _is_cached(x):
        return name, x
    if isinstance(x, (tuple, list)):
        inner = tuple(constant_key("", v) for v in x)
        return None if None in inner else (name, type(x), inner)
    return None


def _is_cached(x: Any) -> bool:
    """True if it wraps a function, as `fuse` and `functools.lru_cache` do."""
    return not isinstance(x, ModuleType) and hasattr(x, "cache_info") and isinstance(
        getattr(x, "__wrapped__", None), FunctionType)


#: A value: how to read it again, from where, and what it is.
_Watched = tuple[Callable[..., Any], Any, Any]
_UNBOUND = object()


class Scope:
    """The values outside that a function reads: globals, closure, bound object."""

    def __init__(self, function: Any) -> None:
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
        self._kept: tuple[tuple[_Watched, ...], tuple[Hashable, ...]] | None = None
        self.cells = dict(zip(free, getattr(function, "__closure__", None) or (),
                              strict=True))

    def constants(self) -> tuple[tuple[Hashable, ...], list[str]]:
        """The key of the values now, and the names of those that may change unseen.

        Functions of the same module are looked into, too.  Where all values are the
        same objects as in the last call, and none can change, so is the key.
        """
        kept = self._kept
        if kept is not None and all(
                read(*where) is value for read, where, value in kept[0]):
            return kept[1], []
        watched: list[_Watched] = []
        keys, unstable = self._constants(frozenset(), watched)
        fixed = not unstable and not any(can_change(value) for *_, value in watched)
        self._kept = (tuple(watched), keys) if fixed else None
        return keys, unstable

    def _constants(self, seen: frozenset[Any], watched: list[_Watched],
                   ) -> tuple[tuple[Hashable, ...], list[str]]:
        keys: list[Hashable] = []
        unstable: list[str] = []
        for name, x, read, where in self._bindings():
            watched.append((read, where, x))
            for path in self.paths.get(name, ()):
                watched.append((_member, (path, x), _member(path, x)))
                keys.append(_plain_member(path, x))
            keys.append(constant_key(name, x))
            if keys[-1] is None:
                unstable.append(name)
            f = x.__wrapped__ if _is_cached(x) else x
            local = isinstance(f, FunctionType) and f.__globals__ is self.globals
            if local and f not in seen:
                inner, more = _scope(f)._constants(seen | {f}, watched)
                keys.append(inner)
                unstable += more
        return tuple(keys), unstable

    def _bindings(self) -> Iterator[tuple[str, Any, Callable[..., Any], Any]]:
        """Name and value of each binding, and how to read it again."""
        for name, x in self.bound:
            yield name, x, _itself, (x,)
        for name in self.names:
            if name in self.globals:
                yield name, self.globals[name], self.globals.get, (name,)
        for name, cell in self.cells.items():
            x = _content(cell)
            if x is not _UNBOUND:
                yield name, x, _content, (cell,)


@lru_cache(maxsize=256)
def _scope(function: Any) -> Scope:
    return Scope(function)


def _is_known(x: Any) -> bool:
    return isinstance(x, ModuleType) and x.__name__.partition(".")[0] in _KNOWN


def _itself(x: Any) -> Any:
    return x


def _content(cell: Any) -> Any:
    """Read a closure's cell; `_UNBOUND` if it holds nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _UNBOUND


def can_change(x: Any) -> bool:
    """True if a value that has a key may have another one and be the same object."""
    return isinstance(x, (list, np.void)) or (
        isinstance(x, tuple) and any(map(can_change, x)))


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
    return constant_key(".".join(path), x) if isinstance(x, (*_PLAIN, tuple)) else None


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

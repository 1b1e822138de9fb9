"""The arguments of a fused function, and what its cache knows them by."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ..arrays import dtype_of, is_array
from ..autograd import Variable
from ..specs.base import Shape
from .fuse_symbols import number_type

__all__ = ["Arguments", "frozen", "is_number"]

#: Constants that their text tells apart, and those that are told apart by identity.
_PLAIN = (str, bytes, bool, int, float, complex, np.generic, type(None), EllipsisType,
          slice, np.dtype)
_FIXED = (type, FunctionType, BuiltinFunctionType, np.ufunc, ModuleType, Enum)


def is_number(x: Any) -> bool:
    """Whether an argument is passed by value."""
    return isinstance(x, (bool, int, float, complex, np.generic))


def _is_array(x: Any) -> bool:
    return isinstance(x, Variable) or (is_array(x) and not isinstance(x, np.generic))


def _items(x: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(x, dict):
        yield from x.items()
    elif isinstance(x, (tuple, list)):
        yield from enumerate(x)


def _holds_array(x: Any) -> bool:
    return any(_is_array(v) or _holds_array(v) for _, v in _items(x))


class Arguments:
    """Arguments by name; those in containers that hold arrays are found in there.

    Attributes
    ----------
    leaves
        Arrays and numbers with their names.
    constants
        What else there is: containers, and values that are constant.  None if one of
        them may change unseen.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self.named = named
        self.leaves: list[tuple[str, Any]] = []
        constants: list[Hashable] = []
        for name, x in named.items():
            self._visit(name, x, constants)
        self.constants = None if None in constants else tuple(constants)
        self.arrays = any(_is_array(x) for _, x in self.leaves)

    def _visit(self, name: str, x: Any, constants: list[Hashable]) -> None:
        if _is_array(x) or is_number(x):
            self.leaves.append((name, x))
        elif _holds_array(x):
            constants.append((name, type(x), tuple(repr(k) for k, _ in _items(x))))
            for key, item in _items(x):
                self._visit(f"{name}_{key}", item, constants)
        else:
            constants.append(_constant(name, x))

    def types(self) -> tuple[Hashable, ...]:
        """Dtype and rank of the arrays, types of the numbers."""
        return tuple((number_type(x),) if is_number(x) else
                     (dtype_of(x), len(x.shape)) for _, x in self.leaves)

    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the arrays."""
        return tuple(tuple(x.shape) for _, x in self.leaves if not is_number(x))

    def replaced(self, leaf: Callable[[Any, str], Any]) -> dict[str, Any]:
        """The arguments with ``leaf(x, name)`` for each array and number."""

        def visit(name: str, x: Any) -> Any:
            if _is_array(x) or is_number(x):
                return leaf(x, name)
            if not _holds_array(x):
                return x
            items = {k: visit(f"{name}_{k}", v) for k, v in _items(x)}
            if isinstance(x, dict):
                return items
            made = list(items.values())
            return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)

        return {name: visit(name, x) for name, x in self.named.items()}


def shape_class(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """Which extents are equal, and which are 0 or 1: all that broadcasting sees."""
    numbers = {0: 0, 1: 1}
    return tuple(tuple(numbers.setdefault(n, len(numbers)) for n in shape)
                 for shape in shapes)


def _constant(name: str, x: Any) -> Hashable:
    """The key of a constant; None for one that may change unseen."""
    if isinstance(x, _PLAIN):
        return name, type(x), repr(x)
    if isinstance(x, _FIXED):
        return name, x
    if isinstance(x, (tuple, list)):
        inner = tuple(_constant("", v) for v in x)
        return None if None in inner else (name, type(x), inner)
    return None


def frozen(function: Any) -> Callable[[], Hashable]:
    """What a function closes over and reads from its module: numbers, functions.

    Returns
    -------
    callable
        Looks the constants up: they may have been bound anew.
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return lambda: ()
    names = [n for n in dict.fromkeys(_names(code)) if n not in code.co_freevars]
    scope = function.__globals__
    cells = list(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def constants() -> Hashable:
        found = [_constant(n, scope[n]) for n in names if n in scope]
        for name, cell in cells:
            try:
                found.append(_constant(name, cell.cell_contents))
            except ValueError:  # not bound yet
                continue
        return tuple(found)

    return constants


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)

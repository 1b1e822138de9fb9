"""The arguments of a fused function, and their keys in its cache."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    EllipsisType,
    FunctionType,
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
from .calling.callback import Callback
from .outside.bracketed import JOINING
from .outside.containers import (
    Copies,
    Place,
    holds_array,
    is_array_argument,
    is_container,
    is_object,
    items_of,
)

__all__ = [
    "PLAIN",
    "Arguments",
    "Attribute",
    "can_change",
    "constant_key",
    "is_cached",
    "is_fixed",
    "is_integer",
    "is_leaf",
    "is_number",
    "is_tracked",
    "shape_class",
    "varies",
]

#: Constants that their text tells apart, and those that are told apart by identity.
PLAIN = (str, bytes, bool, int, float, complex, np.generic, type(None), EllipsisType,
          slice, np.dtype)
_FIXED = (type, FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum), ModuleType,
          Enum, Func, ElementwiseKernel, ReductionKernel, checkpoint, custom_vjp,
          Callback, *JOINING)
#: An attribute of types whose instances mean the same at each call.
CONSTANT = "__nbfused_constant__"
#: Types whose every instance is an array or a number.
_LEAVES: set[type] = {Variable, bool, int, float, complex}
_LEAF = object()
_NUMBERS = frozenset({bool, int, float, complex})


def is_number(x: Any) -> bool:
    """True if an argument is passed by value; members of enumerations are constant."""
    if type(x) in _LEAVES:
        return type(x) in _NUMBERS
    return isinstance(x, (bool, int, float, complex, np.generic)) and not isinstance(
        x, Enum)


def is_integer(x: Any) -> bool:
    """True if an argument that is passed by value is an integer or a flag."""
    return is_number(x) and isinstance(x, (bool, int, np.bool_, np.integer))


def is_tracked(x: Any) -> bool:
    """True if an array requires grad: on our tape, or on PyTorch's."""
    return bool(getattr(x, "requires_grad", False))


def is_leaf(x: Any) -> bool:
    """True if an argument is an array or a number."""
    return type(x) in _LEAVES or is_array_argument(x) or is_number(x)


#: A class and the name of an attribute of its objects.
Attribute = tuple[type, str]


def varies(x: Any, name: str, varying: Collection[Attribute]) -> bool:
    """True if a number that is an attribute of `x` is passed by value."""
    return (type(x), name) in varying and type(vars(x)[name]) in (int, float)


def is_fixed(name: str, x: Any, asked: Collection[str]) -> bool:
    """True if the numbers of an argument are constants."""
    return not (is_leaf(x) or holds_array(x)) or (name in asked and is_integer(x))


class Arguments:
    """Arguments by name; those in containers that hold arrays are found in there.

    Parameters
    ----------
    named
        What the function is called with.
    hidden
        What it reads from outside; numbers in there are constants.
    varying
        Class and name of numbers that are attributes and passed by value: those that
        have changed.
    asked
        Names of integers whose values the function asks for, which are constants.

    Attributes
    ----------
    leaves
        Arrays and numbers, in their order.
    constants
        The key of what else there is, in the same order: containers, values that are
        constant, and the places of leaves.
    unstable
        Names of those that may change unseen.
    classes
        Of the objects among them.
    numbers
        Numbers that are attributes and constants, each with its class and name.
    traced
        Whether another function is being traced, which calls this one.
    """

    def __init__(self, named: dict[str, Any], hidden: Mapping[str, Any],
                 varying: Collection[Attribute] = (),
                 asked: Collection[str] = ()) -> None:
        self.named, self.hidden = named, hidden
        self.varying, self.asked = varying, asked
        self.numbers: list[tuple[Attribute, Any]] = []
        self.leaves: list[Any] = []
        self.constants: list[Hashable] = [tuple(named)]
        self.unstable: list[str] = []
        self.classes: set[type] = set()
        self.traced = False
        self._seen: dict[int, int] = {}
        for name, x in named.items():
            self._visit(name, x, is_fixed(name, x, asked))
        self.constants.append(tuple(hidden))
        for name, x in hidden.items():
            self._visit(name, x, True)
        self.arrays: bool = not all(map(is_number, self.leaves))

    def _visit(self, name: str, x: Any, fixed: bool) -> None:
        """Add an argument, or an item; `fixed` numbers of containers are constants."""
        if is_leaf(x) and not (fixed and is_number(x)):
            self.traced |= isinstance(x, Traced)
            if exact_library(type(x)) is not None:
                _LEAVES.add(type(x))
            self.leaves.append(x)
            self.constants.append(_LEAF)
        elif is_container(x):
            self._visit_items(name, x, fixed)
        else:
            self.constants.append(constant_key(name, x))
            if self.constants[-1] is None:
                self.unstable.append(name)

    def _visit_items(self, name: str, x: Any, fixed: bool) -> None:
        held = len(x) if isinstance(x, (tuple, list)) else tuple([
            repr(k) for k, _ in items_of(x)])
        if not isinstance(x, tuple):
            if id(x) in self._seen:
                self.constants.append(("again", self._seen[id(x)]))
                return
            self._seen[id(x)] = len(self._seen)
        self.constants.append((type(x), held))
        if not is_object(x):
            for _, item in items_of(x):
                self._visit(name, item, fixed)
            return
        self.classes.add(type(x))
        for k, item in items_of(x):
            if type(item) in (int, float) and (type(x), k) not in self.varying:
                self.numbers.append(((type(x), k), item))
            self._visit(f"{name}.{k}", item, not varies(x, k, self.varying))

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

    def map_leaves(self, leaf: Callable[[Any, str], Any],
                   copies: Copies) -> dict[str, Any]:
        """The arguments and what is hidden, with ``leaf(x, name)`` for each leaf.

        Containers are copied, and told of to `copies`.
        """

        def visit(name: str, x: Any, fixed: bool, place: Place) -> Any:
            if is_leaf(x) and not (fixed and is_number(x)):
                return leaf(x, name)
            if not is_container(x):
                return x
            own = is_object(x)
            return copies.copy(x, place, lambda k, v, inner: visit(
                identifier(f"{name}_{k}"), v,
                not varies(x, k, self.varying) if own else fixed, inner))

        return {name: visit(name, x, given is self.hidden or is_fixed(
                    name, x, self.asked), Place(name, ()))
                for given in (self.named, self.hidden) for name, x in given.items()}


def shape_class(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """A key of equal extents, zeros and ones: all that broadcasting sees."""
    numbers = {0: 0, 1: 1}
    return tuple(tuple(numbers.setdefault(n, len(numbers)) for n in shape)
                 for shape in shapes)


def constant_key(name: str, x: Any) -> Hashable:
    """The key of a constant; None for one that may change unseen."""
    if isinstance(x, PLAIN):
        return name, type(x), repr(x)
    if isinstance(x, BuiltinFunctionType) and not isinstance(
            x.__self__, (ModuleType, type, type(None))):
        return None  # a method of an object
    if isinstance(x, _FIXED) or is_cached(x) or hasattr(type(x), CONSTANT):
        return name, x
    if isinstance(x, (tuple, list)):
        inner = tuple(constant_key("", v) for v in x)
        return None if None in inner else (name, type(x), inner)
    return None


def is_cached(x: Any) -> bool:
    """True if it wraps a function, as `fuse` and `functools.lru_cache` do."""
    return not isinstance(x, ModuleType) and hasattr(x, "cache_info") and isinstance(
        getattr(x, "__wrapped__", None), FunctionType)


def can_change(x: Any) -> bool:
    """True if a value that has a key may have another one and be the same object."""
    return isinstance(x, (list, np.void)) or (
        isinstance(x, tuple) and any(map(can_change, x)))

"""Examination of a function: whether its arguments say all that it does.

Its code, and that of the functions it calls, may read arguments, and outside constants
of plain types, small arrays, lists and dictionaries of these; it may call what is known
to have no effect: operations, transforms, functions of NumPy, `math` and a few of
Python's own.  Everything else (attributes of objects, `print`, `global`) leaves it
unknown.  What is read from outside is compared before each call that relies on it, and
after the one that is noted: so a function that changes it is found out.
"""

from __future__ import annotations

import builtins
import dis
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import is_
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    ModuleType,
    NoneType,
)
from typing import Any, NamedTuple

import numpy as np

from ...registry.operations import OPS
from ..variable import Variable

__all__ = ["Outside", "examine"]

#: Types of values that cannot change.
_PLAIN = (NoneType, bool, int, float, complex, str, bytes, EllipsisType, slice)
#: Most bytes of all arrays outside, whose elements are compared at each call.
_BYTES = 1 << 17
#: Most functions that are looked into.
_FUNCTIONS = 32

#: Functions of NumPy that depend on their arguments only; so do all its ufuncs.
_NUMPY = tuple(getattr(np, name) for name in (
    "all", "amax", "amin", "any", "arange", "argmax", "argmin", "argsort", "array",
    "asarray", "average", "broadcast_to", "clip", "concatenate", "cross", "cumprod",
    "cumsum", "diag", "diagonal", "diff", "dot", "einsum", "expand_dims", "eye", "flip",
    "full", "full_like", "identity", "inner", "kron", "linspace", "matmul", "max",
    "mean", "median", "min", "moveaxis", "nanmax", "nanmean", "nanmin", "nansum",
    "ones", "ones_like", "outer", "pad", "prod", "ravel", "repeat", "reshape", "roll",
    "round", "shape", "size", "sort", "split", "squeeze", "stack", "std", "sum",
    "swapaxes", "take", "take_along_axis", "tensordot", "tile", "trace", "transpose",
    "tril", "triu", "var", "vdot", "where", "zeros", "zeros_like"))
_LINEAR_ALGEBRA = tuple(getattr(np.linalg, name) for name in (
    "cholesky", "det", "inv", "norm", "slogdet", "solve"))
_PYTHON = (abs, all, any, bool, complex, dict, divmod, enumerate, float, int,
           isinstance, len, list, map, max, min, pow, range, reversed, round, slice,
           sorted, str, sum, tuple, zip)

#: Attributes of values that are arguments or computed, beside those of arrays.
_OF_CONTAINERS = {"append", "extend", "get", "index", "insert", "items", "keys", "pop",
                  "values"}
_OF_ARRAYS = {name for name in dir(Variable) if not name.startswith("_")} - {
    "backward", "edge", "grad", "grad_fn", "is_leaf", "zero_grad"}

#: Instructions without an effect outside of the function, if what they call has none:
#: those with these names, and those that begin so.
_CODES = {
    "BINARY_OP", "BINARY_SLICE", "BINARY_SUBSCR", "CACHE", "CALL", "CALL_FUNCTION_EX",
    "CALL_KW", "COMPARE_OP", "CONTAINS_OP", "COPY", "COPY_FREE_VARS", "DELETE_FAST",
    "DICT_MERGE", "DICT_UPDATE", "END_FOR", "EXTENDED_ARG", "FOR_ITER", "GET_ITER",
    "GET_LEN", "IS_OP", "KW_NAMES", "LIST_APPEND", "LIST_EXTEND", "LIST_TO_TUPLE",
    "LOAD_ASSERTION_ERROR", "LOAD_ATTR", "LOAD_CLOSURE", "LOAD_CONST",
    "LOAD_CONST_IMMORTAL", "LOAD_CONST_MORTAL", "LOAD_DEREF", "LOAD_GLOBAL",
    "LOAD_METHOD", "LOAD_SMALL_INT", "MAKE_CELL", "MAKE_FUNCTION", "MAP_ADD", "NOP",
    "NOT_TAKEN", "POP_ITER", "POP_TOP", "PRECALL", "PUSH_NULL", "RAISE_VARARGS",
    "RERAISE", "RESUME", "RETURN_CONST", "RETURN_GENERATOR", "RETURN_VALUE",
    "SET_FUNCTION_ATTRIBUTE", "STORE_DEREF", "STORE_SLICE", "STORE_SUBSCR", "SWAP",
    "TO_BOOL", "UNPACK_EX", "UNPACK_SEQUENCE", "YIELD_VALUE"}
_PREFIXES = ("BUILD_CONST_KEY_MAP", "BUILD_LIST", "BUILD_MAP", "BUILD_SLICE",
             "BUILD_TUPLE", "JUMP_", "LOAD_FAST", "POP_JUMP_", "STORE_FAST", "UNARY_")
#: Those that read an attribute.
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


class _Read(NamedTuple):
    """A value outside: how to read it again, from where, and what it is."""

    how: Callable[..., Any]
    where: tuple[Any, ...]
    value: Any


class Outside:
    """Values that a function reads from outside.

    Attributes
    ----------
    arrays
        Small arrays among it.
    """

    def __init__(self, read: list[_Read], containers: list[Any],
                 arrays: list[np.ndarray]) -> None:
        self._read = [tuple(x) for x in read]
        self._containers = [(x, _items(x)) for x in containers]
        self.arrays: list[np.ndarray] = arrays
        self._bytes = [x.tobytes() for x in arrays]
        self._layouts = [_layout(x) for x in arrays]

    def same(self) -> bool:
        """Compare: whether all of it is as it was."""
        for how, where, value in self._read:
            if how(*where) is not value:
                return False
        for x, items in self._containers:
            now = _items(x)
            if len(now) != len(items) or not all(map(is_, now, items)):
                return False
        return not self.arrays or (
            [x.tobytes() for x in self.arrays] == self._bytes
            and [_layout(x) for x in self.arrays] == self._layouts)


def examine(function: Callable[..., Any]) -> Outside | None:
    """Find what a function reads from outside; None if it may do or need more."""
    found = _Examination()
    if not found.value(function):
        return None
    arrays = list({id(x): x for x in found.arrays}.values())
    if sum(x.nbytes for x in arrays) > _BYTES:
        return None
    return Outside(found.read, found.containers, arrays)


class _Examination:
    """Functions that are looked into, and what they read."""

    def __init__(self) -> None:
        self.read: list[_Read] = []
        self.containers: list[Any] = []
        self.arrays: list[np.ndarray] = []
        self._seen: set[FunctionType] = set()

    def function(self, f: FunctionType) -> bool:
        """Look into a function; whether nothing speaks against it."""
        if f in self._seen:
            return True
        self._seen.add(f)
        if len(self._seen) > _FUNCTIONS or not f.__dict__.keys() <= {"__wrapped__"}:
            return False
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        if _is_transform(f):  # only what it was made of is not ours
            return all(self.value(self._look(_content, (c,))) for c in cells.values())
        self._look(getattr, (f, "__code__"))
        defaults = self._look(getattr, (f, "__defaults__"))
        named = self._look(getattr, (f, "__kwdefaults__")) or {}
        if not self.value(defaults) or not all(
                self.value(self._look(named.get, (name,))) for name in named):
            return False
        return all(path is not None and self._path(f, cells, path)
                   for path in dict.fromkeys(_paths(f.__code__, frozenset(cells))))

    def _look(self, how: Callable[..., Any], where: tuple[Any, ...]) -> Any:
        """Read a value, which is to be the same at later calls."""
        value = how(*where)
        self.read.append(_Read(how, where, value))
        return value

    def _path(self, f: FunctionType, cells: dict[str, Any],
              path: tuple[str, ...]) -> bool:
        """Look at what a name outside is, with attributes behind it."""
        name, *attributes = path
        if name in cells:
            x = self._look(_content, (cells[name],))
        else:
            x = self._look(f.__globals__.get, (name, _MISSING))
            if x is _MISSING:
                x = self._look(vars(builtins).get, (name, _MISSING))
        while isinstance(x, ModuleType) and attributes:
            x = self._look(getattr, (x, attributes.pop(0), _MISSING))
        if attributes and not isinstance(x, (np.ndarray, np.generic, np.dtype)):
            return False
        return self.value(x) and _are_read(attributes)

    def value(self, x: Any) -> bool:
        """Whether a value outside cannot change unseen, and has no effect if called."""
        kind = type(x)
        if kind in _PLAIN or isinstance(x, (np.generic, np.dtype)):
            return True
        if kind is tuple:
            return all(map(self.value, x))
        if kind is np.ndarray:
            self.arrays.append(x)
            return not x.dtype.hasobject
        if kind is list or kind is dict:
            known = any(x is one for one in self.containers)
            self.containers.append(x)
            return known or all(map(self.value, _items(x)))
        if kind in _kernel_types():
            self._look(getattr, (x, "rules", None))
            return not self._look(getattr, (x, "gradcheck", False))
        if isinstance(x, np.ufunc) or id(x) in _known_callables():
            return True
        if isinstance(x, type):
            return issubclass(x, np.generic) or x in (np.ndarray, Variable)
        if kind is BuiltinFunctionType:
            return getattr(math, x.__name__, None) is x
        return kind is FunctionType and self.function(x)


_MISSING = object()


@lru_cache(maxsize=1)
def _known_callables() -> dict[int, Any]:
    """Functions without effects, by their identity."""
    OPS.fill()
    return {id(x): x for x in (*OPS.values(), *_NUMPY, *_LINEAR_ALGEBRA, *_PYTHON)}


def _is_transform(f: FunctionType) -> bool:
    """Whether a function is `grad` or the like, or was made by one of these."""
    return str(f.__globals__.get("__name__")) in _TRANSFORMS


_TRANSFORMS = {__name__.rpartition(".")[0] + "." + name
               for name in ("gradients", "jacobians", "vmap")}


@lru_cache(maxsize=1)
def _kernel_types() -> set[type]:
    """Types of operations, also of those that users define: their code is frozen."""
    OPS.fill()
    return {type(x) for x in OPS.values()} - {FunctionType}


def _items(x: Any) -> list[Any]:
    """All that a list or dictionary holds, in its order."""
    return [*x, *x.values()] if type(x) is dict else x[:]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return _MISSING


def _layout(x: np.ndarray) -> tuple[Any, ...]:
    return x.shape, x.strides, x.dtype


def _are_read(names: Any) -> bool:
    return all(name in _OF_ARRAYS or name in _OF_CONTAINERS for name in names)


def _paths(code: CodeType, free: frozenset[str]) -> Iterator[tuple[str, ...] | None]:
    """Names outside that code reads, with attributes of them.

    None for an instruction that may have an effect, and for other attributes.
    """
    path: tuple[str, ...] = ()
    for step in dis.get_instructions(code):
        name = step.opname
        if name in _ATTRIBUTES:
            if path:
                path += (step.argval,)
            elif not _are_read((step.argval,)):
                yield None
            continue
        if path:
            yield path
        path = ()
        outside = step.argval in free if name.endswith("_DEREF") else \
            name == "LOAD_GLOBAL"
        if not _is_harmless(step) or (outside and name == "STORE_DEREF"):
            yield None
        elif outside:
            path = (step.argval,)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _paths(inner, free - {*code.co_cellvars})


def _is_harmless(step: dis.Instruction) -> bool:
    if step.opname == "CALL_INTRINSIC_1":  # of generators, +x, and (*x,)
        return step.arg in (3, 5, 6)
    return step.opname in _CODES or step.opname.startswith(_PREFIXES)

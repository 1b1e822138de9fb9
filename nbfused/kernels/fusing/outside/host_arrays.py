"""NumPy arrays that a function makes of numbers while `fuse` traces it.

``np.eye(3)``, and what NumPy computes from such arrays alone, is the same in each call:
a constant of the program.  What any other array is in the next call, nobody knows.
To tell them apart, NumPy's module has another class while a function is traced: it
gives the code of users functions that look at what they are called with.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from types import BuiltinMethodType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ....arrays import check_dtype, dtype_of
from ....arrays.traced import Traced, TracedNumber
from ....autograd.numpy_api.functions import numpy_function
from ....support.forks import SharedBlock
from ....support.trees import leaves_of, map_tree
from .bracketed import JOINING, join_items, slice_numbers
from .lines import is_library, is_ours

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["HostArray", "looking", "making_arrays"]

#: What NumPy's module gives to everybody as it is.
_KEPT = (type, np.ufunc, ModuleType)
#: Functions that read files, which the texts that they are given do not say all of.
_READERS = frozenset({"fromfile", "fromregex", "genfromtxt", "load", "loadtxt"})
#: Objects of NumPy that make arrays of the slices between brackets.
_SUBSCRIPTED = frozenset({"c_", "mgrid", "ogrid", "r_"})
#: What gives away the memory of an array: what is stored there is not seen.
_OPENING = frozenset({"base", "ctypes", "data", "flat"})
#: Functions that make an array of nested lists.
_ARRAYS = frozenset({np.array, np.asanyarray, np.asarray})
#: Functions that copy an array which does not lie in the order that they name.
_ORDERED = frozenset({np.ascontiguousarray, np.asfortranarray})
#: Functions and methods that change an array; others do by these options.
_CHANGING = frozenset({"__setitem__", "at", "copyto", "fill", "fill_diagonal",
                       "partition", "place", "put", "put_along_axis", "putmask",
                       "resize", "setfield", "sort"})
_OPTIONS = frozenset({"copy", "out", "overwrite_input"})


class _Active(threading.local):
    """The trace that runs in a thread."""

    trace: Trace | None = None


_ACTIVE = _Active()


class HostArray(np.ndarray):
    """An array that the function being traced has made.

    Where something traced is stored into it, the function is traced again, with an
    array of the program from the beginning.
    """

    computes_as_numpy = True

    def __getitem__(self, key: Any) -> Any:
        if _traced(key):
            return _symbol(self)[key]
        return _call(np.ndarray.__getitem__, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        trace = _ACTIVE.trace
        if trace is not None and _traced((key, value)):
            trace.ask_to_trace(self)
        _call(np.ndarray.__setitem__, self, key, value)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_"):
            return found
        if name in _OPENING and _ACTIVE.trace is not None:
            _ACTIVE.trace.memories.forget(self)
        return partial(_method, self, name) if isinstance(
            found, BuiltinMethodType) else found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any,
                        **kwargs: Any) -> Any:
        if _traced((inputs, kwargs)):
            return NotImplemented
        return _call(getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Any,
                           args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        if not all(issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        return _call(function, *args, **kwargs)


def _method(array: HostArray, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of an array."""
    trace = _ACTIVE.trace
    if trace is None or not _traced((args, kwargs)):
        return _call(getattr(np.ndarray, name), array, *args, **kwargs)
    if name in _CHANGING:
        trace.ask_to_trace(array)
    return getattr(_symbol(array), name)(*args, **kwargs)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy, and tell whether its result is known."""
    trace, given = _ACTIVE.trace, list(leaves_of((args, kwargs)))
    if any(isinstance(x, Traced) for x in given):
        return _of_traced(function, *args, **kwargs)
    arrays = {id(x): (x, np.ndarray.view(x, np.ndarray)) for x in given
              if isinstance(x, HostArray)}
    args, kwargs = map_tree((args, kwargs), lambda x: _of_numpy(
        arrays.get(id(x), (x, x))[1]))
    made = function(*args, **kwargs)
    if trace is None:
        return made
    if not all(map(trace.memories.knows, given)):
        writes = function.__name__ in _CHANGING or not _OPTIONS.isdisjoint(kwargs)
        for x, plain in arrays.values():
            if writes or made is plain:  # something unknown may be in it
                trace.memories.forget(x)
        return made
    if function is np.empty:
        made[...] = 0  # as it has to be the same in each call
    wrapped = partial(_wrapped, trace, list(arrays.values()))
    return map_tree(made, wrapped) if isinstance(made, (list, tuple)) else wrapped(made)


def _of_numpy(x: Any) -> Any:
    """A dtype of PyTorch, which that of a tensor is, as NumPy's; all else as it is."""
    return check_dtype(x) if type(x).__name__ == "dtype" and \
        type(x).__module__ == "torch" else x


def _of_traced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with something traced: ``np.array`` of it, or of lists of it.

    ``np.full`` repeats it; other functions get arrays in place of such lists.
    """
    if function is np.full and kwargs.keys() <= {"dtype", "fill_value", "shape"}:
        return _filled(*args, **kwargs)
    if function in _ORDERED and kwargs.keys() <= {"a", "dtype"}:
        return _ordered(function, *args, **kwargs)
    if not args or function not in _ARRAYS or not isinstance(
            args[0], (list, tuple, Traced)) or not kwargs.keys() <= {"copy", "dtype"} \
            or not _is_of_numpy(args[0]):
        return function(*_without_lists(function, args), **kwargs)
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
    made = _array_of(args[0])
    if dtype is not None and dtype_of(made) != np.dtype(dtype):
        return made.astype(dtype)
    scalar = getattr(made, "is_scalar", False)
    copies = made is args[0] and (scalar or kwargs.get("copy", function is np.array))
    made = made.copy() if copies else made
    if scalar:
        made.scalar = False
    return made


def _without_lists(function: Callable[..., Any], args: Sequence[Any]) -> Sequence[Any]:
    """Arguments with arrays for lists of what is traced, as in ``np.min([x, y])``.

    NumPy asks only arguments, not what is in lists of them, for a function of theirs.
    """
    known = numpy_function(function)
    listed = () if known is None else known.listed_operands(args)
    return [_array_of(x) if k in listed and _traced(x) else x
            for k, x in enumerate(args)]


def _is_of_numpy(x: Any) -> bool:
    """Tell an array of NumPy from others, which it would make one of its own.

    A list of these is joined, as by ``np.stack``.
    """
    return isinstance(x, np.ndarray) or getattr(x, "scalar", True)


def _ordered(function: Callable[..., Any], a: Any, dtype: Any = None) -> Any:
    """``np.ascontiguousarray``: `a` itself or a copy, as `ravel` gives a view or one.

    As there, elements that lie evenly apart are a view.
    """
    made = _of_traced(np.asarray, a, dtype)
    made = made if made.ndim else made.reshape(1)
    turned = made.T if function is np.asfortranarray else made
    laid = turned.ravel().reshape(turned.shape)
    return laid.T if function is np.asfortranarray else laid


def _filled(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    made = np.broadcast_to(_array_of([fill_value])[0], shape).copy()
    return made if dtype is None else made.astype(dtype)


def _array_of(tree: Any) -> Any:
    """Nested lists of numbers and traced arrays as one array."""
    if not _traced(tree):
        return _symbol(_call(np.asarray, tree))
    if isinstance(tree, TracedNumber):
        number: Any = tree
        truth, other = (_symbol(_call(make, (), dtype)) for make, dtype in (
            (np.ones, bool), (np.zeros, number.dtype)))
        return np.where(truth, number, other)
    return np.stack([_array_of(x) for x in tree]) if isinstance(
        tree, (list, tuple)) else tree


def _wrapped(trace: Trace, given: Sequence[tuple[HostArray, np.ndarray]],
             made: Any) -> Any:
    """A result that is known."""
    if type(made) is not np.ndarray or made.dtype.kind not in "biufc":
        return made
    for x, plain in given:
        if made is plain:
            return x
    found = trace.made(made)
    return made.view(HostArray) if found is made else found


def _traced(tree: Any) -> bool:
    return any(isinstance(x, Traced) for x in leaves_of(tree))


def _symbol(array: HostArray) -> Any:
    """The array in the program."""
    trace = _ACTIVE.trace
    return array if trace is None else trace.symbol(trace, trace.operand(array))


class _Subscripted:
    """``np.mgrid`` and its kind."""

    def __init__(self, maker: Any) -> None:
        self._maker = maker

    def __getitem__(self, key: Any) -> Any:
        if isinstance(self._maker, JOINING) and _traced(key):
            return join_items(self._maker, key, _item)
        return _call(self._maker.__getitem__, key)


def _item(x: Any) -> Any:
    """A traced array of an item between brackets, of no dimension where it has none."""
    if isinstance(x, slice):
        return _symbol(_call(slice_numbers, x.start, x.stop, x.step))
    return _array_of([x])[0] if isinstance(x, TracedNumber) else _array_of(x)


class _Numpy(ModuleType):
    """NumPy's module while a function is traced."""

    def __getattribute__(self, name: str) -> Any:
        # Not by `super()`: another thread may have given the module its class back.
        found = ModuleType.__getattribute__(self, name)
        if _ACTIVE.trace is None or name in _READERS or isinstance(found, _KEPT):
            return found
        subscripted = name in _SUBSCRIPTED
        if name.startswith("_") or not (callable(found) or subscripted):
            return found
        frame = sys._getframe(1)
        if is_ours(frame) or is_library(frame.f_code.co_filename):
            return found
        return _Subscripted(found) if subscripted else _asking(found)


@cache
def _asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy that looks at what it is called with."""
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _call(function, *args, **kwargs)

    return call


def looking(x: Any) -> Any:
    """A function of NumPy, known by its own name, as one that looks at its arguments.

    Everything else as it is.
    """
    if isinstance(x, JOINING):
        return _Subscripted(x)
    ours = isinstance(x, _FUNCTIONS) and str(x.__module__).partition(".")[0] == "numpy"
    return _asking(x) if ours and x.__name__ not in _READERS else x


#: Types of NumPy's functions.
_FUNCTIONS = (type(np.sum), type(np.zeros), FunctionType)
#: The modules whose functions make arrays.
_MODULES = (np, np.fft, np.linalg)


def _begin() -> None:
    for module in _MODULES:
        if type(module) is ModuleType:
            module.__class__ = _Numpy


def _end() -> None:
    for module in _MODULES:
        if type(module) is _Numpy:
            module.__class__ = ModuleType  # type: ignore[assignment]


_LOOKING = SharedBlock(_begin, _end)


@contextmanager
def making_arrays(trace: Trace) -> Iterator[None]:
    """A context in which arrays are told apart for a trace, in this thread."""
    outer, _ACTIVE.trace = _ACTIVE.trace, trace
    try:
        with _LOOKING:
            yield
    finally:
        _ACTIVE.trace = outer

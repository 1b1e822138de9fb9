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
from types import BuiltinMethodType, CodeType, EllipsisType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.array_utils import byte_bounds

from ....arrays.traced import Traced
from ....support.records import record
from ....support.trees import leaves_of, map_tree
from .lines import is_library, is_ours, user_frame

if TYPE_CHECKING:
    from ..trace import Trace

__all__ = ["HostArray", "Site", "making_arrays"]

#: Where an array is made: the code of a function of the user, and a place in it.
Site = tuple[CodeType, int]

#: What says all of itself.
_PLAIN = (bool, int, float, complex, str, range, type, np.generic, np.dtype, NoneType,
          EllipsisType)
#: What NumPy's module gives to everybody as it is.
_KEPT = (type, np.ufunc, ModuleType)
#: Functions that read files, which the texts that they are given do not say all of.
_READERS = frozenset({"fromfile", "fromregex", "genfromtxt", "load", "loadtxt"})
#: Objects of NumPy that make arrays of the slices between brackets.
_SUBSCRIPTED = frozenset({"c_", "mgrid", "ogrid", "r_"})
#: Methods that change an array.
_CHANGING = frozenset({"fill", "itemset", "partition", "put", "resize", "setfield",
                       "sort"})


class _Active(threading.local):
    """The trace that runs in a thread."""

    trace: Trace | None = None


_ACTIVE = _Active()


@record
class _Memory:
    """The memory of an array and its views.

    Attributes
    ----------
    known
        Whether each call puts the same elements into it.
    """

    array: np.ndarray
    site: Site | None
    bounds: tuple[int, int]
    known: bool = True


class Memories:
    """The memory of the arrays that a function has made so far."""

    def __init__(self) -> None:
        self._all: list[_Memory] = []

    def add(self, array: np.ndarray, site: Site | None) -> None:
        """Note an array that is known; it is kept, so that no other is in its place."""
        self._all.append(_Memory(array, site, byte_bounds(array)))

    def find(self, x: np.ndarray) -> _Memory | None:
        """The memory that an array is in; None if the function has not made it."""
        low, high = byte_bounds(x)
        return next((one for one in self._all
                     if one.bounds[0] <= low and high <= one.bounds[1]), None)

    def knows(self, x: np.ndarray) -> bool:
        """Whether each call makes the same elements."""
        found = self.find(x)
        return found is not None and found.known


class HostArray(np.ndarray):
    """An array that the function being traced has made.

    Where something traced is stored into it, the function is traced again, with an
    array of the program from the beginning.
    """

    computes_as_numpy = True

    def be_traced(self, trace: Trace) -> NoReturn:
        """Have it be an array of the program, as traced values are stored into it.

        Raises
        ------
        KernelTypeError
            In any case: what is traced so far does not hold.
        """
        memory = trace.memories.find(self)
        if memory is not None and memory.site is not None:
            trace.asked_sites.add(memory.site)
        trace.refuse("a traced array is stored into a NumPy array that is none; make "
                     "it with np.zeros_like(x), or pass it as an argument")

    def __getitem__(self, key: Any) -> Any:
        if _traced(key):
            return _symbol(self)[key]
        return _call(np.ndarray.__getitem__, self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        trace = _ACTIVE.trace
        if trace is not None and _traced((key, value)):
            self.be_traced(trace)
        _call(np.ndarray.__setitem__, self, key, value)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_"):
            return found
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
        array.be_traced(trace)
    return getattr(_symbol(array), name)(*args, **kwargs)


def _call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of NumPy, and tell whether its result is known."""
    trace, given = _ACTIVE.trace, list(leaves_of((args, kwargs)))
    if any(isinstance(x, Traced) for x in given):
        return function(*args, **kwargs)
    arrays = {id(x): (x, np.ndarray.view(x, np.ndarray)) for x in given
              if isinstance(x, HostArray)}
    args, kwargs = map_tree((args, kwargs), lambda x: arrays.get(id(x), (x, x))[1])
    made = function(*args, **kwargs)
    if trace is None:
        return made
    if not all(_is_known(x, trace) for x in given):
        for x, _ in arrays.values():
            memory = trace.memories.find(x)
            if memory is not None:  # something may have been stored into it
                memory.known = False
        return made
    if function is np.empty:
        made[...] = 0  # as it has to be the same in each call
    wrapped = partial(_wrapped, trace, list(arrays.values()))
    return map_tree(made, wrapped) if isinstance(made, (list, tuple)) else wrapped(made)


def _wrapped(trace: Trace, given: Sequence[tuple[HostArray, np.ndarray]],
             made: Any) -> Any:
    """A result that is known."""
    if type(made) is not np.ndarray or made.dtype.kind not in "biufc":
        return made
    for x, plain in given:
        if made is plain:
            return x
    if trace.memories.find(made) is None:
        frame = user_frame(sys._getframe(1), behind_ours=True)
        site = None if frame is None else (frame.f_code, frame.f_lasti)
        if site in trace.traced_sites:
            return trace.from_host(made)
        trace.memories.add(made, site)
    return made.view(HostArray)


def _is_known(x: Any, trace: Trace) -> bool:
    if isinstance(x, np.ndarray):
        return trace.memories.knows(x)
    if isinstance(x, slice):
        return all(isinstance(part, _PLAIN) for part in (x.start, x.stop, x.step))
    return isinstance(x, _PLAIN)


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
        return _call(self._maker.__getitem__, key)


class _Numpy(ModuleType):
    """NumPy's module while a function is traced."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
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


_LOCK = threading.Lock()
_COUNT = [0]


@contextmanager
def making_arrays(trace: Trace) -> Iterator[None]:
    """A context in which arrays are told apart for a trace, in this thread."""
    outer, _ACTIVE.trace = _ACTIVE.trace, trace
    with _LOCK:
        _COUNT[0] += 1
        if type(np) is ModuleType:
            np.__class__ = _Numpy
    try:
        yield
    finally:
        _ACTIVE.trace = outer
        with _LOCK:
            _COUNT[0] -= 1
            if not _COUNT[0] and type(np) is _Numpy:
                np.__class__ = ModuleType  # type: ignore[assignment]

"""Arrays that NumPy makes of numbers while a function is traced: constants.

``np.arange(3)`` is the same in each call, and so is what NumPy computes of it; an array
that comes from elsewhere may be another next time.  Copies of functions see a `numpy`
whose constructors give arrays of a class that follows what they are computed from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import CodeType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

from ....arrays import is_array
from ....arrays.traced import Traced
from ....autograd import Variable
from ....support.trees import leaves_of, map_tree

__all__ = ["MadeArray", "makes_arrays", "replacement"]

#: Functions that make arrays of numbers.
_CONSTRUCTORS: Mapping[str, Callable[..., Any]] = MappingProxyType({
    name: getattr(np, name) for name in (
        "arange", "array", "asarray", "bartlett", "blackman", "empty", "eye", "full",
        "geomspace", "hamming", "hanning", "identity", "indices", "kaiser", "linspace",
        "logspace", "ones", "tri", "tril_indices", "triu_indices", "zeros")}
    | {f"fft.{name}": getattr(np.fft, name) for name in ("fftfreq", "rfftfreq")})
#: Methods that take arrays, and are functions of NumPy.
_METHODS = ("choose", "compress", "dot", "put", "repeat", "searchsorted", "take")


class MadeArray(np.ndarray):
    """An array of NumPy's that knows whether it is made of numbers alone."""

    #: Kernels may read it as a plain array.
    computes_as_numpy = True
    #: Whether it still is; one list for an array and its views.
    _pure: list[bool]

    def __array_finalize__(self, base: Any) -> None:
        self._pure = getattr(base, "_pure", [True])

    @property
    def pure(self) -> bool:
        """Whether each call would make it alike."""
        return self._pure[0]

    @property
    def flat(self) -> Any:
        """The elements; what is assigned by them is not followed."""
        self._pure[0] = False
        return super().flat

    def __setitem__(self, key: Any, value: Any) -> None:
        self._pure[0] &= _are_pure((key, value))
        self.view(np.ndarray)[_plain(key)] = _plain(value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any,
                        **kwargs: Any) -> Any:
        return _computed(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Callable[..., Any], types: Iterable[type],
                           args: Any, kwargs: Any) -> Any:
        return _computed(function, args, kwargs)


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(np, name)(self, *args, **kwargs)


for _name in _METHODS:
    setattr(MadeArray, _name, _method(_name))


def _computed(function: Callable[..., Any], args: Any,
              kwargs: Mapping[str, Any]) -> Any:
    """What a function gives; it stores into arrays of ours what it is given."""
    given = [*leaves_of((tuple(args), dict(kwargs)))]
    if any(isinstance(x, (Traced, Variable)) for x in given):
        return NotImplemented
    pure = _are_pure(given)
    if not pure:
        for x in given:
            if isinstance(x, MadeArray):  # it may be what is stored into
                x._pure[0] = x._pure[0] and not _stores(function, kwargs)
    made = function(*_plain(tuple(args)), **_plain(dict(kwargs)))
    out = kwargs.get("out")
    if out is not None:
        return out[0] if isinstance(out, tuple) and len(out) == 1 else out
    return _marked(made) if pure else made


def _stores(function: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function may store into its arguments."""
    return kwargs.get("out") is not None or function in _STORING or (
        getattr(function, "__name__", "") == "at")


_STORING = frozenset({np.copyto, np.put, np.place, np.putmask, np.put_along_axis,
                      np.fill_diagonal})


def _are_pure(found: Any) -> bool:
    """Whether arrays in a tree are made of numbers alone, and all else is no array."""
    return all(x.pure if isinstance(x, MadeArray) else not (
        is_array(x) or isinstance(x, (Traced, Variable))) or isinstance(x, np.generic)
        for x in leaves_of(found))


def _plain(tree: Any) -> Any:
    return map_tree(tree, lambda x: x.view(np.ndarray)
                    if isinstance(x, MadeArray) else x)


def _marked(tree: Any) -> Any:
    """Arrays in a result as ours."""
    return map_tree(tree, lambda x: x.view(MadeArray) if type(x) is np.ndarray else x)


def _constructor(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def made(*args: Any, **kwargs: Any) -> Any:
        given = (args, kwargs)
        if any(isinstance(x, (Traced, Variable)) for x in leaves_of(given)):
            return function(*args, **kwargs)
        found = function(*_plain(args), **_plain(kwargs))
        return _marked(found) if _are_pure(given) else found

    return made


class _Module(ModuleType):
    """A module of NumPy's whose constructors are ours."""

    def __init__(self, module: ModuleType, path: str = "") -> None:
        super().__init__(module.__name__)
        self.__dict__["__wrapped__"] = module
        for name in dir(module):
            if path + name in _MAKERS:
                self.__dict__[name] = _MAKERS[path + name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["__wrapped__"], name)


_MAKERS = {name: _constructor(function) for name, function in _CONSTRUCTORS.items()}
_FFT = _Module(np.fft, "fft.")
_NUMPY = _Module(np)
_NUMPY.__dict__["fft"] = _FFT
_REPLACED: dict[int, Any] = {
    id(np): _NUMPY, id(np.fft): _FFT,
    **{id(function): _MAKERS[name] for name, function in _CONSTRUCTORS.items()}}


def replacement(x: Any) -> Any:
    """The `numpy`, or the constructor, that a copied function sees in place of `x`."""
    return _REPLACED.get(id(x), x)


def makes_arrays(code: CodeType, names: Mapping[str, Any]) -> bool:
    """Whether a function may call a constructor: by its name in `numpy`, or another."""
    used = set(code.co_names)
    if any(name.rpartition(".")[2] in used for name in _CONSTRUCTORS) or any(
            id(names.get(name)) in _REPLACED and names.get(name) not in (np, np.fft)
            for name in used):
        return True
    return any(isinstance(c, CodeType) and makes_arrays(c, names)
               for c in code.co_consts)

"""Symbols for PyTorch's tensors while `fuse` traces, with their methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from types import FunctionType
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....autograd.numpy_api.methods import is_operand, operand_beside
from ....autograd.numpy_api.table_methods import TableMethods
from ....support.dtypes import TYPES, rank_of
from ..pytorch.dtypes import converted, promoted, torch_dtype, traced
from ..pytorch.functions import torch_function
from ..pytorch.table import TORCH
from .arrays import Symbol

__all__ = ["Tensor"]


def _plainly(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    return function(*args)


def _operator(name: str) -> Callable[..., Any]:
    plain = getattr(Symbol, name)

    def method(self: Tensor, *given: Any) -> Any:
        others = [operand_beside(self, other) for other in given]
        run = promoted if all(map(is_operand, others)) else _plainly
        return run(plain, (self, *others))

    return method


def _indices(x: Tensor, key: Any) -> Any:
    """An index whose tensors of integers are traced, as what is computed of them is."""
    keys = key if isinstance(key, tuple) else (key,)
    if not any(type(k).__module__ == "torch" for k in keys):
        return key
    found = [traced((x, k))[1] if type(k).__module__ == "torch" and dtype_of(
        k).kind in "iu" and k.ndim else k for k in keys]
    return tuple(found) if isinstance(key, tuple) else found[0]


class Tensor(Symbol):
    """A symbol that has PyTorch's methods."""

    __slots__ = ()
    decides = True

    def __getattr__(self, name: str) -> Any:
        """A function of ``torch`` as method."""
        own = getattr(sys.modules["torch"].Tensor, name, None)
        if name.startswith("_") or own is None:
            raise AttributeError(f"{self.name} has no attribute {name!r}")
        if not callable(own):
            self.tracer.refuse(f"{self.name}: .{name} is not known while nf.fuse "
                               "traces a function; read it outside of the fused "
                               "function")
        return lambda *args, **kwargs: torch_function(name, (self, *args), kwargs)

    @classmethod
    def __torch_function__(cls, function: Callable[..., Any], types: Any,
                           args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return torch_function(function.__name__, args, kwargs or {}, function)

    @property
    def size(self) -> Any:
        """A method of tensors."""
        return lambda dim=None: self.shape if dim is None else self.shape[dim]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_indices(self, key))

    def __setitem__(self, key: Any, new: Any) -> None:
        super().__setitem__(_indices(self, key), new)

    def _unknown_operator(self, other: Any) -> Any:
        """Tensors have no such operator: Python takes ``x @ y``."""
        return NotImplemented

    __imatmul__: Any = _unknown_operator

    def holds(self, dtype: np.dtype, casting: str) -> bool:
        """By PyTorch's rule: of no higher kind, of any width."""
        return casting == "unsafe" or rank_of(dtype) <= rank_of(dtype_of(self))

    @property
    def dtype(self) -> Any:
        """One of PyTorch's, so that it is equal to those."""
        return getattr(sys.modules["torch"], super().dtype.name)

    def numel(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def dim(self) -> int:
        """Number of dimensions."""
        return self.ndim

    def to(self, dtype: Any) -> Any:
        """Another dtype; the tensor itself if that is its own."""
        return converted(self, torch_dtype(dtype))

    type = to

    def clone(self) -> Any:
        """The same elements in another tensor."""
        return self.copy()

def _converting(dtype: np.dtype) -> Callable[[Any], Any]:
    return lambda self: converted(self, dtype)


def _reduction(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: torch_function(name, (self, *args), kwargs)


def _define() -> None:
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or",
                 "xor", "lshift", "rshift"):
        for method in (f"__{name}__", f"__r{name}__"):
            setattr(Tensor, method, _operator(method))
    for method in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
        setattr(Tensor, method, _operator(method))
    for t in TYPES.values():
        if t.torch:
            setattr(Tensor, t.torch, _converting(t.dtype))
    for name in ("sum", "prod", "mean", "all", "any", "argmax", "argmin", "var", "std",
                 "max", "min"):
        setattr(Tensor, name, _reduction(name))


_define()


def _of_torch(name: str) -> Callable[..., Any]:
    """A method by PyTorch's function, whose parameters differ from NumPy's."""
    return lambda self, *args, **kwargs: torch_function(name, (self, *args), kwargs)


for _name in TORCH:  # where an array of NumPy has a method of that name
    if hasattr(Symbol, _name):
        setattr(Tensor, _name, _of_torch(_name))
for _name, _method in vars(TableMethods).items():
    if isinstance(_method, FunctionType) and _name not in vars(Tensor):
        setattr(Tensor, _name, _of_torch(_name))

"""Operators of `DeviceArray`, and the namespace of functions that arrays name."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..errors import KernelTypeError, OverlapError
from ..registry.operations import NAMESPACES, OPS

__all__ = ["Operators", "array_namespace", "store_in_place"]

#: Versions of the array API standard whose functions are there.
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def array_namespace(api_version: str | None = None) -> ModuleType:
    """`nbfused.array_api`, if it has the functions of a version of the standard.

    Raises
    ------
    ValueError
        It has not.
    """
    if api_version not in (None, *_VERSIONS):
        raise ValueError(f"api_version {api_version!r}: nbfused.array_api has the "
                         f"standards {', '.join(_VERSIONS)}; pass one of these")
    found: ModuleType = NAMESPACES["array_api"]
    return found


#: Operators by the operation that each is.
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater",
                "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute",
          "invert": "bitwise_invert"}


def _operation(name: str) -> Callable[..., Any]:
    """An operation; functions of bits are those of the namespace."""
    found: Callable[..., Any] = getattr(array_namespace(), name) if name.startswith(
        "bitwise") else OPS[name]
    return found


def _is_operand(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex)) or hasattr(x, "dtype")


class Operators:
    """Python's operators by nbfused's operations, on arrays that have none."""

    __slots__ = ()

    dtype: Any
    shape: Any
    item: Callable[[], Any]

    def _number(self, kind: str) -> Any:
        if self.shape and set(self.shape) != {1}:
            raise KernelTypeError(
                f"the {kind} of an array of shape {self.shape} is not defined, only "
                "that of one element: use .to_numpy()")
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._number("truth"))

    def __int__(self) -> int:
        return int(self._number("integer"))

    def __float__(self) -> float:
        return float(self._number("number"))

    def __complex__(self) -> complex:
        return complex(self._number("number"))

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self.shape:
            raise TypeError(f"an array of {self.dtype} and shape {self.shape} is no "
                            "index; only one integer of shape () is")
        return int(self)

    __hash__ = object.__hash__


def _forward(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return _operation(name)(self, other) if _is_operand(other) else NotImplemented

    return method


def _reflected(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return _operation(name)(other, self) if _is_operand(other) else NotImplemented

    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    direct = name not in ("matmul",) and not name.startswith("bitwise")

    def method(self: Any, other: Any) -> Any:
        if not _is_operand(other):
            return NotImplemented
        if hasattr(other, "requires_grad") and other.requires_grad:
            raise KernelTypeError("x op= y: y requires grad and x is a plain array; "
                                  "write x = x op y")
        if direct:
            store_in_place(name, self, other)
        else:
            OPS["positive"](_operation(name)(self, other), out=self)
        return self

    return method


def store_in_place(name: str, x: Any, y: Any) -> None:
    """``x op= y`` by the operation's `out`; where `y` is in that memory, of a copy.

    As in ``x[1:] += x[:-1]``, which NumPy computes of what was there before.
    """
    try:
        OPS[name](x, y, out=x)
    except OverlapError:
        OPS[name](x, OPS["astype"](y, y.dtype), out=x)


def _unary(name: str) -> Callable[[Any], Any]:
    return lambda self: _operation(name)(self)


for _symbol, _name in _BINARY.items():
    setattr(Operators, f"__{_symbol}__", _forward(_name))
    setattr(Operators, f"__r{_symbol}__", _reflected(_name))
    setattr(Operators, f"__i{_symbol}__", _in_place(_name))
for _symbol, _name in _COMPARISONS.items():
    setattr(Operators, f"__{_symbol}__", _forward(_name))
for _symbol, _name in _UNARY.items():
    setattr(Operators, f"__{_symbol}__", _unary(_name))

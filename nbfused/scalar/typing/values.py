"""Values of a function that is being typed: what each became, and its type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...errors import KernelTypeError
from ..ir.build import Builder
from ..ir.nodes import Function, Let, Literal, Statement, Value, defined, raw_params
from .literals import convert, literal_type
from .promotion import (
    BOOL,
    Type,
    Weak,
    common_float,
    compute_dtype,
    dtype_named,
    is_integer,
)

__all__ = ["INT64", "UINT8", "UINT64", "Operand", "Values"]

#: A value with its logical type.
Operand = tuple[Value, Type]

INT64, UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
UINT8 = np.dtype(np.uint8)


class Values:
    """The typed names of `function` with parameters of types `params`.

    With `wide`, Python numbers are computed in float64; `rounded` says whether one that
    was not had to become float64 after all.
    """

    def __init__(self, function: Function, params: tuple[Type, ...],
                 wide: bool = False) -> None:
        if len(params) != len(function.params):
            raise KernelTypeError(f"{function.name}() takes {len(function.params)} "
                                  f"values, got {len(params)} types")
        self.source = function
        self.builder = Builder({*function.params, *defined(function.body)})
        self.alias: dict[str, Value] = {}
        self.types: dict[str, Type] = {}
        self.dtypes: dict[str, np.dtype] = {}
        self.line = 0
        self.weak = _weak_dtypes(params)
        self.default = dict(self.weak)
        self.default["float"] = common_float(params) or self.weak["float"]
        self.wide, self.rounded = wide, False
        if wide:
            self.weak |= _weak_dtypes(())
        raw = raw_params(function)
        for name, t in zip(function.params, params, strict=True):
            label = f"{function.name}: '{name}': "
            if not isinstance(t, Weak) and dtype_named(t.name, label) != t:
                raise KernelTypeError(f"{function.name}: {name} has dtype {t}, "
                                      "which is not in native byte order; convert it")
            self.types[name] = t
            self.dtypes[name] = t if name in raw and not isinstance(t, Weak) \
                else self.compute(t)

    def compute(self, t: Type) -> np.dtype:
        """The dtype in which a value of type `t` is computed."""
        return self.weak[t.kind] if isinstance(t, Weak) else compute_dtype(t)

    def operand(self, v: Value) -> Operand:
        """The typed value that `v` of the source became, and its type."""
        if isinstance(v, Literal):
            return v, literal_type(v)
        return self.alias.get(v, v), self.types[v]

    def bind(self, name: str, value: Operand) -> None:
        """Let `name` stand for `value`; nothing is computed."""
        self.alias[name], self.types[name] = value

    def emit(self, op: str, args: Sequence[Value], t: Type, *, name: str = "",
             attr: str | None = None) -> Operand:
        """Append ``name = op(*args)`` with a result of type `t`."""
        name = name or self.builder.fresh("t")
        self.alias.pop(name, None)
        self.types[name], self.dtypes[name] = t, self.compute(t)
        self.builder.statements.append(Let((name,), op, tuple(args), attr, self.line))
        return name, t

    def coerce(self, value: Operand, target: Type) -> Value:
        """`value` in the computing dtype of `target`."""
        v, source = value
        dtype = self.compute(target)
        if isinstance(v, Literal):
            try:
                return convert(v, dtype)
            except OverflowError as e:
                raise self.error(str(e)) from None
        if self.compute(source) == dtype:
            return v
        self.rounded |= isinstance(source, Weak) and self._is_narrower(source, dtype)
        return self.emit("cast", (v,), dtype, attr=dtype.name)[0]

    def _is_narrower(self, source: Weak, dtype: np.dtype) -> bool:
        """Whether numbers of a kind lose digits before they become `dtype`."""
        held = self.compute(source)
        return held.kind in "fc" and dtype.kind in "fc" and \
            np.finfo(held).eps > np.finfo(dtype).eps

    def coerce_all(self, values: Sequence[Operand],
                   targets: Sequence[Type]) -> tuple[Value, ...]:
        """Each of `values` in the computing dtype of its target."""
        return tuple(self.coerce(v, t) for v, t in zip(values, targets, strict=True))

    def error(self, text: str) -> KernelTypeError:
        """An exception that says where."""
        where = f"{self.source.pyfile}:{self.line}: " if self.source.pyfile else ""
        return KernelTypeError(f"{where}{self.source.name}: {text}")

    def complex_error(self, reason: str, way_out: str) -> KernelTypeError:
        """The error for complex operands; ops add their names to the reason."""
        error = self.error(f"{reason}; {way_out}")
        error.refuses_complex = reason  # type: ignore[attr-defined]
        return error

    def integer(self, v: Value) -> Operand:
        """An operand that must be an integer."""
        value, t = self.operand(v)
        if not is_integer(t):
            raise self.error(f"expected an integer, got {t}; use int()")
        return value, t

    @contextmanager
    def into(self, statements: list[Statement]) -> Iterator[None]:
        """Append to `statements` for a while."""
        outer, self.builder.statements = self.builder.statements, statements
        try:
            yield
        finally:
            self.builder.statements = outer

    def define(self, names: Sequence[str], types: Sequence[Type]) -> None:
        """Names that a region binds."""
        for name, t in zip(names, types, strict=True):
            self.alias.pop(name, None)
            self.types[name], self.dtypes[name] = t, self.compute(t)


def _weak_dtypes(params: Sequence[Type]) -> dict[str, np.dtype]:
    """The dtypes that Python numbers are computed in, beside strong parameters."""
    common = common_float(params)
    real = np.dtype(np.float64) if common is None else compute_dtype(common)
    return {"bool": BOOL, "int": INT64, "float": real,
            "complex": np.result_type(real, np.complex64)}

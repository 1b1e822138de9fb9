"""The intermediate representation evaluated on NumPy arrays: the printers' oracle.

A polymorphic function computes with the dtypes of its arguments, which makes float64
references; a `Typed` one computes each value in its own dtype, as a kernel does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...support.dtypes import BFLOAT16
from ..language.formats import printed_text, python_format
from ..language.vocabulary import OPS
from ..typing.literals import number
from ..typing.promotion import compute_dtype, dtype_named
from ..typing.types import Typed
from .build import inline
from .memory import Memory
from .nodes import (
    ACCESSES,
    BUFFER_WRITES,
    UNFOLDED,
    Block,
    For,
    Function,
    If,
    Let,
    Literal,
    Value,
    While,
    raw_params,
    read,
)

__all__ = ["evaluate"]

#: Operations on memory are methods of `Memory`.
_MEMORY = ACCESSES | BUFFER_WRITES | {"buffer", "buffer_load", "index"}


def evaluate(function: Function | Typed, *args: Any) -> tuple[np.ndarray, ...]:
    """The results of a scalar function at every element of its arguments.

    Parameters
    ----------
    function : Function or Typed
        Typed results are rounded to their logical dtypes.
    *args : array_like
        One for each parameter, broadcast; a raw array for a raw parameter.  What
        ``atomic_add`` adds to is changed in place.
    """
    typed = function if isinstance(function, Typed) else None
    source = inline(function) if isinstance(function, Function) else function.function
    evaluation = (_TypedEvaluation(typed) if typed else _Evaluation())
    arrays = dict(zip(source.params, map(np.asarray, args), strict=True))
    numbers = read(source.body) - raw_params(source)
    evaluation.lanes = np.broadcast_shapes(
        *(a.shape for name, a in arrays.items() if name in numbers))
    for name, arg in arrays.items():
        evaluation.parameter(name, arg)
    with np.errstate(all="ignore"):
        results = evaluation.block(source.body)
        dtypes = typed.results if typed else [None]*len(results)
        return tuple(np.asarray(r, dtype=d)
                     for r, d in zip(results, dtypes, strict=True))


class _Evaluation(Memory):
    """Values by name; `mask` says which elements take part."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.mask: Any = np.True_

    def parameter(self, name: str, arg: np.ndarray) -> None:
        self.values[name] = arg

    def bind(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self.values.update(zip(names, values, strict=True))

    def value(self, v: Value) -> Any:
        return number(v) if isinstance(v, Literal) else self.values[v]

    def truth(self, v: Value) -> Any:
        return np.asarray(self.value(v), dtype=bool)

    # Regions -----------------------------------------------------------------------

    @contextmanager
    def where(self, mask: Any) -> Iterator[None]:
        """Restrict the block to the elements of `mask`."""
        outer, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = outer

    def block(self, block: Block) -> list[Any]:
        """Evaluate the statements; the yields."""
        for s in block.statements:
            match s:
                case Let():
                    self.bind(s.results, self.let(s))
                case If():
                    self.branch(s)
                case For():
                    self.count(s)
                case While():
                    self.iterate(s)
        return [self.value(v) for v in block.yields]

    def branch(self, s: If) -> None:
        """Both branches, each for its own elements."""
        condition = self.truth(s.condition)
        sides = []
        for block, mask in ((s.then, condition), (s.orelse, ~condition)):
            with self.where(self.mask & mask):
                sides.append(self.block(block))
        self.bind(s.results, [self.choose(condition, a, b)
                              for a, b in zip(*sides, strict=True)])

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        """The values of `a` where `condition` holds, else those of `b`."""
        return np.where(condition, a, b)

    def count(self, s: For) -> None:
        """Run as many passes as the element that needs most; the others keep theirs."""
        count = np.where(self.mask, self.value(s.count), 0)
        self.bind(s.params, [self.value(v) for v in s.inits])
        for k in range(int(count.max(initial=0))):
            self.bind((s.index,), (np.int64(k),))
            self.step(s, self.mask & (k < count))
        self.bind(s.results, [self.values[p] for p in s.params])

    def iterate(self, s: While) -> None:
        """Run passes until no element's condition holds."""
        self.bind(s.params, [self.value(v) for v in s.inits])
        active = self.mask
        while True:
            with self.where(active):
                (condition,) = self.block(s.condition)
            active = active & np.asarray(condition, dtype=bool)
            if not np.any(active):
                break
            self.step(s, active)
        self.bind(s.results, [self.values[p] for p in s.params])

    def step(self, s: For | While, active: Any) -> None:
        """One pass of a loop."""
        with self.where(active):
            new = self.block(s.body)
        self.bind(s.params, [self.choose(active, n, self.values[p])
                             for n, p in zip(new, s.params, strict=True)])

    # Operations --------------------------------------------------------------------

    def let(self, s: Let) -> tuple[Any, ...]:
        """The results of one operation."""
        if s.op in _MEMORY:
            found = getattr(self, s.op)(s)
            return (found,) if s.results else ()
        args = [self.value(v) for v in s.args]
        if s.op == "print":
            self.print(printed_text(s), args)
            return ()
        if s.op == "cast":
            return (_cast(args[0], str(s.attr)),)
        if s.op == "bits":
            return (_bits(args[0], np.dtype(str(s.attr))),)
        return (OPS[s.op].implementation(*args),)


    def print(self, text: str, args: Sequence[Any]) -> None:
        """The text of each element that takes part, in their order."""
        shape = np.broadcast_shapes(self.lanes, np.shape(self.mask))
        for row in zip(*(np.broadcast_to(a, shape).ravel().tolist()
                         for a in (self.mask, *args)), strict=True):
            if row[0]:
                sys.stdout.write(python_format(text) % row[1:])


class _TypedEvaluation(_Evaluation):
    """Every value in its own dtype."""

    def __init__(self, typed: Typed) -> None:
        super().__init__()
        self.dtypes = typed.dtypes
        self.raw = raw_params(typed.function)

    def parameter(self, name: str, arg: np.ndarray) -> None:
        self.values[name] = arg if name in self.raw else arg.astype(self.dtypes[name])

    def bind(self, names: Sequence[str], values: Sequence[Any]) -> None:
        super().bind(names, [np.asarray(v).astype(self.dtypes[n])
                             for n, v in zip(names, values, strict=True)])

    def value(self, v: Value) -> Any:
        if isinstance(v, Literal):
            return np.array(number(v), dtype=v.kind)
        return self.values[v]

    def let(self, s: Let) -> tuple[Any, ...]:
        if s.op == "powi":
            base, exponent = (self.value(v) for v in s.args)
            return (_power(base, exponent),)
        return super().let(s)


def _power(base: np.ndarray, exponent: np.ndarray) -> Any:
    """Integers to a negative power are 0, where NumPy raises."""
    if base.dtype.kind not in "iu":
        return OPS["powi"].implementation(base, exponent)
    wide = np.int64 if base.dtype.kind == "i" else np.uint64
    power = np.power(base.astype(wide), np.maximum(exponent, 0).astype(wide))
    return np.where(exponent < 0, 0, power)


def _bits(a: Any, target: np.dtype) -> Any:
    """The bits of `a`, as a number of its size, as another dtype."""
    source = np.dtype(f"{'f' if target.kind in 'iu' else 'i'}{target.itemsize}")
    return np.asarray(a).astype(source).view(target).astype(compute_dtype(target))


def _cast(a: Any, attr: str) -> Any:
    """`a` as Python's ``int``, ``float`` or ``bool`` or a dtype makes it."""
    a = np.asarray(a)
    if attr in ("int", UNFOLDED):
        return a if a.dtype in (np.int64, np.uint64) else a.astype(np.int64)
    if attr == "float":
        return a if a.dtype.kind in "fc" else a.astype(np.float64)
    if attr == "complex":
        return a if a.dtype.kind == "c" else a.astype(np.complex128)
    target = dtype_named(attr)
    if a.dtype.kind == "c" and target.kind not in "bc":
        a = a.real
    if a.dtype.kind == "f" and target.kind in "iu" and target.name != "uint64":
        # The way that printed kernels take, which wraps around.
        a = a.astype(np.int32 if target.itemsize < 4 else np.int64)
    if target == BFLOAT16:
        a = _to_odd(a)
    return a.astype(target).astype(compute_dtype(target))


def _to_odd(a: Any) -> Any:
    """Numbers that bfloat16 has room for: ml_dtypes goes by way of float32.

    Their last bit tells of those that are cut off, so that it rounds as if once.
    """
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        large = (a >= 2**53) | (a <= -2**53) if a.dtype.kind == "i" else a >= 2**53
        a = np.where(large, (a | ((a & 2047) + 2047)) & ~a.dtype.type(2047), a)
    if a.dtype.kind == "f" and a.dtype.itemsize < 8:
        return a
    bits = np.atleast_1d(a.astype(np.float64)).view(np.int64)
    low = (1 << 40) - 1
    return ((bits | ((bits & low) + low)) & ~low).view(np.float64).reshape(a.shape)

"""Specs of complex numbers, rewritten before they are differentiated.

Types are not known to autodiff, and real functions keep the derivatives that they have.
Where there are complex numbers, some operations stand for others of the vocabulary
(`Op.on_complex`) whose derivatives are right for them, and a value that becomes real
says so by the operation ``real``.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ...scalar.autodiff.rules import real_linear
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import (
    Block,
    Custom,
    Function,
    Let,
    Literal,
    Statement,
    Value,
    defined,
    operands,
    regions,
    walk,
    with_regions,
)
from ...scalar.language.vocabulary import NUMPY, OPS
from ...scalar.typing.types import Type, Weak
from ..base import KEPT, Spec, functions_in

__all__ = ["is_complex", "spec_on_complex"]

S = TypeVar("S", bound=Spec)
T = TypeVar("T")


def is_complex(t: Type) -> bool:
    """Whether values of a type are complex numbers."""
    return t.kind == "complex" if isinstance(t, Weak) else t.kind == "c"


def spec_on_complex(spec: S, types: Sequence[Type], results: Sequence[np.dtype]) -> S:
    """`spec` as it is differentiated on arrays of these dtypes.

    The spec itself where there are no complex numbers.
    """
    given = any(map(is_complex, (*types, *results)))
    if not spec.launches or not (given or _makes_complex(spec)):
        return spec
    return _rewritten(spec, frozenset(
        name for (kind, name), t in zip(spec.parameters, types, strict=True)
        if kind == "raw" and not is_complex(t)))


@lru_cache(maxsize=KEPT)
def _makes_complex(spec: Spec) -> bool:
    return any(map(_writes_complex, functions_in(spec)))


@lru_cache(maxsize=KEPT)
def _rewritten(spec: S, real: frozenset[str]) -> S:
    return _rebuilt(spec, real)


def _rebuilt(part: T, real: frozenset[str]) -> T:
    """A record with its functions rewritten; itself where none is."""
    made: Any = part
    if isinstance(part, Function):
        made = _converted(part, real)
    elif isinstance(part, tuple):
        made = tuple([_rebuilt(p, real) for p in part])
    elif is_dataclass(part) and not isinstance(part, type):
        changed = {f.name: _rebuilt(old, real) for f in fields(part)
                   if isinstance(old := getattr(part, f.name), (Function, tuple))
                   or is_dataclass(old)}
        made = replace(part, **changed)
    return part if made == part else made


_REAL = {"float16", "bfloat16", "float32", "float64"}


def _writes_complex(function: Function) -> bool:
    """Whether a function writes complex numbers, or makes some of real ones."""
    return any(_is_complex_literal(v) for v in function.results) or any(
        _is_complex_statement(s) for s in walk(function.body))


def _is_complex_statement(s: Statement) -> bool:
    if isinstance(s, Custom) and _writes_complex(s.function):
        return True
    yields = (v for region in regions(s) for v in region.yields)
    return _makes_one(s) or any(map(_is_complex_literal, (*operands(s), *yields)))


def _makes_one(s: Statement) -> bool:
    """Whether the result is a complex number whatever the operands are."""
    if not isinstance(s, Let):
        return False
    return s.op == "complex_from" or (
        s.op == "cast" and str(s.attr).startswith("complex"))


def _is_complex_literal(v: Value) -> bool:
    return isinstance(v, Literal) and v.kind.startswith("complex")


@lru_cache(maxsize=1024)
def _converted(function: Function, real: frozenset[str] = frozenset()) -> Function:
    """`function` in the operations that it is on complex numbers.

    Parameters
    ----------
    function : Function
        The primal.
    real : frozenset of str
        The raw arrays whose elements are real.
    """
    rewritten = _Rewriting(function, real)
    return replace(function, body=rewritten.block(function.body))


class _Rewriting(Builder):
    def __init__(self, function: Function, real: Set[str]) -> None:
        super().__init__({*function.params, *defined(function.body)})
        self.real = real

    def block(self, block: Block) -> Block:
        """`block` with each of its statements rewritten."""
        found: list[Statement] = []
        for s in block.statements:
            found += self.let_on_complex(s) if isinstance(s, Let) else [
                _with_rules(s) if isinstance(s, Custom)
                else with_regions(s, self.block)]
        return Block(tuple(found), block.yields)

    def let_on_complex(self, s: Let) -> Sequence[Statement]:
        row = OPS.get(s.op)
        if row and row.on_complex and (not row.ordering or s.attr == NUMPY):
            return [replace(s, op=row.on_complex, attr=None)]
        if s.op == "cast" and s.attr in _REAL:
            part = self.fresh("part")
            return [Let((part,), "real", s.args, None, s.line),
                    replace(s, args=(part,))]
        if s.op == "load" and s.args[0] in self.real:
            element = self.fresh("element")
            return [replace(s, results=(element,)),
                    Let(s.results, "real", (element,), None, s.line)]
        return [s]


def _with_rules(s: Custom) -> Custom:
    """A call whose missing rule is the transpose of the other over the real numbers."""
    s = replace(s, function=_converted(s.function), vjp=s.vjp and _converted(s.vjp),
                jvp=s.jvp and _converted(s.jvp))
    return real_linear(s)

"""A builder that computes with numbers as Python does and knows what is a bool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..language.vocabulary import OPS
from .build import Builder
from .nodes import Block, Function, If, Let, Literal, Statement, Value, literal, regions

__all__ = ["Emitter", "fold"]

_CASTS: dict[str, Callable[..., Any]] = {"int": int, "float": float, "bool": bool}


def fold(op: str, args: tuple[Value, ...], attr: str | None = None) -> Literal | None:
    """The number that Python computes, where all `args` are numbers and it does."""
    compute = _CASTS.get(attr or "") if op == "cast" else \
        OPS[op].number if op in OPS else None
    if compute is None or not all(isinstance(a, Literal) for a in args):
        return None
    try:
        number = compute(*(a.value for a in args if isinstance(a, Literal)))
    except (ArithmeticError, ValueError, TypeError):
        return None
    return literal(number) if type(number) in (bool, int, float, complex) else None


def _is_boolean(op: str) -> bool:
    return op in OPS and OPS[op].boolean


class Emitter(Builder):
    """A builder for the parser and the tracer.

    Attributes
    ----------
    buffers
        The arrays that are buffers of a thread.
    alone
        What stands for the derivative of each array that came without one.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        super().__init__(taken)
        self._booleans: set[str] = set()
        self.buffers: set[str] = set()
        self.alone: dict[str, str] = {}

    def emit(self, op: str, *args: Value, stem: str = "t",
             attr: str | None = None) -> Value:
        """``op(*args)``: its result, which is a number if Python can tell it now."""
        number = fold(op, args, attr)
        if number is not None:
            return number
        name = self.let(op, *args, stem=stem, attr=attr)
        if _is_boolean(op) or attr == "bool":
            self._booleans.add(name)
        return name

    def act(self, op: str, *args: Value, attr: str | None = None) -> None:
        """An operation that has no result."""
        self.statements.append(Let((), op, args, attr, self.line))

    def load(self, array: str, *index: Value, stem: str = "t") -> Value:
        """An element of an array or buffer."""
        op = "buffer_load" if array in self.buffers else "load"
        return self.emit(op, array, *index, stem=stem)

    def store(self, array: str, *args: Value, attr: str | None = None) -> None:
        """Assign an element of an array or buffer: indices, then the value."""
        op = "buffer_store" if array in self.buffers else "store"
        self.act(op, array, *args, attr=attr)

    def mark(self, name: str) -> None:
        """Say that `name` is a bool."""
        self._booleans.add(name)

    def _note(self, s: Statement) -> None:
        """Remember which results of `s` are bools for certain."""
        if isinstance(s, Let) and (_is_boolean(s.op) or s.attr == "bool"):
            self._booleans.update(s.results)
        elif isinstance(s, If):
            for r, a, b in zip(s.results, s.then.yields, s.orelse.yields, strict=True):
                if self.is_bool(a) and self.is_bool(b):
                    self._booleans.add(r)

    def is_bool(self, value: Value) -> bool:
        """True if `value` is a bool for certain."""
        return value.kind == "bool" if isinstance(value, Literal) \
            else value in self._booleans

    def truth(self, value: Value) -> Value:
        """`value` as a bool, as Python's ``if`` sees it."""
        if isinstance(value, Literal):
            return literal(bool(value.value))
        return value if self.is_bool(value) else self.emit("cast", value, attr="bool")

    def branch(self, condition: Value, then: Block, orelse: Block,
               stems: Sequence[str]) -> tuple[str, ...]:
        """An If, with a result for each stem."""
        results = super().branch(condition, then, orelse, stems)
        self._note(self.statements[-1])
        return results

    def call(self, function: Function, *args: Value) -> tuple[Value, ...]:
        """The results of `function` at `args`; its body is copied here."""
        before = len(self.statements)
        results = super().call(function, *args)
        self._learn(self.statements[before:])
        return results

    def _learn(self, statements: Iterable[Statement]) -> None:
        """Remember the bools among statements that `emit` did not write."""
        for s in statements:
            for region in regions(s):
                self._learn(region.statements)
            self._note(s)

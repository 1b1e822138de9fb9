"""Cotangents of single operations."""

from __future__ import annotations

from collections.abc import Mapping

from .activity import linear, partials, refuse
from .build import ZERO, Builder, is_number
from .ir import Custom, Function, Let, Value, array_args
from .rule_arrays import on_cotangents
from .rules import numbers, vjp_rule

__all__ = ["Adjoint", "Adjoints"]

#: The cotangent of each name that has one so far.
Adjoint = dict[str, Value]

_SHARED = "a value of a shared array has no derivative"


class Adjoints(Builder):
    """Adds to the cotangents of the operands of one operation after another.

    Parameters
    ----------
    function
        What is differentiated.
    taken
        Names that no fresh name may equal.
    active
        The names that may have a cotangent.
    bars
        The array of cotangents of each raw array that has one.
    """

    def __init__(self, function: Function, taken: set[str], active: set[str],
                 bars: Mapping[str, str]) -> None:
        super().__init__(taken)
        self.function, self.active, self.bars = function, active, dict(bars)

    def accumulate(self, adjoint: Adjoint, v: Value, g: Value) -> None:
        """Add `g` to the cotangent of `v`."""
        if not isinstance(v, str) or v not in self.active or is_number(g, 0):
            return
        adjoint[v] = self.add(adjoint[v], g, f"{v}_bar") if v in adjoint else g

    def reverse_let(self, s: Let, adjoint: Adjoint) -> None:
        """The cotangents of the operands of `s`."""
        self.line = s.line or self.line
        rule = getattr(self, f"reverse_{s.op}", None)
        if not s.results:
            if rule is not None and s.args[0] in self.bars:
                rule(s, ZERO, adjoint)
            return
        g = adjoint.pop(s.results[0], ZERO)
        if rule is not None:
            return rule(s, g, adjoint)
        if is_number(g, 0):
            return
        for a in linear(s):
            self.accumulate(adjoint, a, g)
        for a, p in partials(s):
            if a in self.active:
                (d,) = self.call(p, *s.args, s.results[0])
                self.accumulate(adjoint, a, self.mul(g, d))

    def reverse_select(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """The side that was not taken gets an exact zero."""
        condition, *sides = s.args
        for k, v in enumerate(sides):
            if isinstance(v, str) and v in self.active and not is_number(g, 0):
                pair = (g, ZERO) if k == 0 else (ZERO, g)
                self.accumulate(adjoint, v, self.select(condition, *pair))

    def reverse_custom(self, s: Custom, adjoint: Adjoint) -> None:
        """By the rule; what the rule writes needs no cotangent to be written."""
        seeds = [adjoint.pop(r, ZERO) for r in s.results]
        if s.results and all(is_number(g, 0) for g in seeds):
            return
        for a, raw in zip(s.args, array_args(s), strict=True):
            if raw and a in self.active and a not in self.bars:
                raise refuse(self.function, s.line, _SHARED)
        rule, arrays = on_cotangents(self.function, s, vjp_rule(s), self.bars)
        found = self.call(rule, *s.args, *seeds, *arrays)
        for a, g in zip(numbers(s), found, strict=True):
            self.accumulate(adjoint, a, g)

    # Raw arrays --------------------------------------------------------------------

    def reverse_load(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """Added to the array of cotangents."""
        array = str(s.args[0])
        if is_number(g, 0):
            return
        if array not in self.bars:
            if array in self.active:
                raise self.refuse(s, _SHARED)
            return
        at = (self.bars[array], *s.args[1:])
        if s.attr == "once":
            total = self.add(self.let("load", *at, stem="g", attr="once"), g)
            self.effect("store", *at, total, attr="once")
        else:
            self.effect("atomic_add", *at, g)

    def reverse_store(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """What is stored takes its cotangent away: another store replaces it."""
        at = (self.bars[str(s.args[0])], *s.args[1:-1])
        if s.attr == "once":
            taken = self.let("load", *at, stem="g", attr="once")
            self.effect("store", *at, ZERO, attr="once")
        else:
            taken = self.let("atomic", *at, ZERO, stem="g", attr="exch")
        self.accumulate(adjoint, s.args[-1], taken)

    def reverse_atomic_add(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """Read from the array of cotangents."""
        at = (self.bars[str(s.args[0])], *s.args[1:-1])
        self.accumulate(adjoint, s.args[-1], self.let("load", *at, stem="g"))

    def reverse_atomic(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """An addition whose old value nobody differentiates, or taking a value away."""
        bar = self.bars.get(str(s.args[0]))
        if bar and s.attr == "exch" and is_number(s.args[-1], 0):
            return self.effect("store", bar, *s.args[1:-1], g)
        if not is_number(g, 0):
            raise self.refuse(s, "the old value of an atomic operation has no "
                                 "derivative; detach it")
        if bar:
            if s.attr != "add":
                raise self.refuse(s, f"an atomic {s.attr} has no derivative; detach "
                                     "the value, or give the function a rule")
            self.reverse_atomic_add(s, g, adjoint)
        return None

    def reverse_shuffle(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """Between threads nothing flows back."""
        if not is_number(g, 0):
            raise self.refuse(s, "a shuffled value has no derivative; detach it, or "
                                 "give the function a rule")

    # Buffers -----------------------------------------------------------------------

    def reverse_buffer(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """Its cotangents are made at the start of the block's reverse."""

    def reverse_buffer_load(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """Added to the buffer of cotangents."""
        if s.args[0] in self.bars and not is_number(g, 0):
            self.effect("buffer_add", self.bars[str(s.args[0])], s.args[1], g)

    def reverse_buffer_store(self, s: Let, g: Value, adjoint: Adjoint) -> None:
        """An element is written once before it is read: its cotangent is whole."""
        bar = self.bars[str(s.args[0])]
        self.accumulate(adjoint, s.args[-1],
                        self.let("buffer_load", bar, s.args[1], stem="g"))

    reverse_buffer_add = reverse_buffer_store

    def allocate(self, s: Let) -> None:
        """The cotangents of a buffer, if it has any."""
        if s.op == "buffer" and s.results[0] in self.active:
            self.bars[s.results[0]] = self.let(
                "buffer", s.args[0], stem=f"{s.results[0]}_bar", attr="zeros")

    def refuse(self, s: Let, text: str) -> Exception:
        """An error that says where."""
        return refuse(self.function, s.line, text)

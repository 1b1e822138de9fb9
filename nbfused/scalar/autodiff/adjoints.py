"""Cotangents of single operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir.build import ZERO, Builder, is_number
from ..ir.clean import has_effects
from ..ir.nodes import Block, Custom, Function, Let, Value, array_args, literal
from .activity import bounded, change, linear, partials, refuse
from .reach import ALWAYS, NEVER, NOTHING, Cotangent, Path, Reach, either, flagged, when
from .rule_arrays import on_cotangents
from .rules import numbers, vjp_rule

__all__ = ["FINAL", "GIVEN", "INITIAL", "RECORDED", "Adjoint", "Adjoints", "winner"]

#: The cotangent of each name that has one so far.
Adjoint = dict[str, Cotangent]
#: Where there are more paths, one bool says whether it is any of them.
_MOST_PATHS = 4

#: Of the operation ``recall``, which gives what was recorded at a row of an array's
#: tape: the element as it was before the launch, or after it.
INITIAL, FINAL = "initial", "final"
#: Likewise of what an atomic operation has given, its last operand.
GIVEN = "given"
#: Ends the attribute of an atomic operation whose value is recorded; a row follows its
#: array.
RECORDED = "recorded"

_SHARED = "a value of a shared array has no derivative"
#: Why an atomic operation that may have a derivative has none.
_ALONE = dict.fromkeys(("min", "max"), " where the kernel accesses the array otherwise "
                                       "too, or it is no array of a kernel of threads")


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
        #: For each buffer of cotangents, a buffer that says which have been added to.
        self.touched: dict[str, str] = {}

    def accumulate(self, adjoint: Adjoint, v: Value, g: Cotangent) -> None:
        """Add `g` to the cotangent of `v`."""
        if not isinstance(v, str) or v not in self.active:
            return
        if is_number(g.value, 0) or g.reach == NEVER:
            return
        adjoint[v] = self.sum(adjoint[v], g, f"{v}_bar") if v in adjoint else g

    def sum(self, a: Cotangent, b: Cotangent, stem: str) -> Cotangent:
        """Both; what may be NaN where it does not reach is held back there."""
        if a.reach == b.reach:
            return Cotangent(self.add(a.value, b.value, stem), a.reach,
                             a.exact and b.exact)
        reach = either(a.reach, b.reach)
        if len(reach) > _MOST_PATHS:
            reach = flagged(str(self.truth(reach)))
        return Cotangent(self.add(self.exact(a), self.exact(b), stem), reach)

    def product(self, g: Cotangent, d: Value, finite: bool) -> Cotangent:
        """`g` times a partial derivative."""
        exact = g.reach == ALWAYS or (g.exact and (finite or is_number(d, 0)))
        return Cotangent(self.mul(g.value, d), g.reach, exact)

    def pulled(self, s: Let, g: Cotangent, d: Value, finite: bool) -> Cotangent:
        """The cotangent of an operand of `s`, by which its partial derivative is `d`.

        That of a real result may be complex here, where complex numbers are computed of
        it: only its real part counts.
        """
        if change(s) == "real":
            g = replace(g, value=self.let("real", g.value, stem="g"))
        found = self.product(g, d, finite)
        if change(s) == "conjugate":
            found = replace(found, value=self.let("conj", found.value, stem="g"))
        return found

    def exact(self, g: Cotangent) -> Value:
        """The number, zero where it does not reach."""
        if g.exact:
            return g.value
        (path, *more) = g.reach
        if not more and len(path) == 1 and not next(iter(path))[1]:
            return self.select(next(iter(path))[0], ZERO, g.value)
        return self.select(self.truth(g.reach), g.value, ZERO)

    def truth(self, reach: Reach) -> Value:
        """Whether the path that runs is one of `reach`."""
        if reach in (ALWAYS, NEVER):
            return literal(reach == ALWAYS)
        return self.chain("logical_or", [
            self.chain("logical_and", [self.holds(*t) for t in sorted(path)])
            for path in sorted(reach, key=_order)])

    def chain(self, op: str, values: Sequence[Value]) -> Value:
        """``op`` of all `values`."""
        found, *rest = values
        for v in rest:
            found = self.let(op, found, v)
        return found

    def holds(self, name: str, truth: bool) -> Value:
        """Whether the bool `name` is what `truth` says."""
        return name if truth else self.let("logical_not", name)

    def reverse_let(self, s: Let, adjoint: Adjoint) -> None:
        """The cotangents of the operands of `s`."""
        self.line = s.line or self.line
        rule = getattr(self, f"reverse_{s.op}", None)
        if not s.results:
            if rule is not None and self.bars.keys() >= set(s.args[:1]):
                rule(s, NOTHING, adjoint)
            return
        g = adjoint.pop(s.results[0], NOTHING)
        if rule is not None:
            return rule(s, g, adjoint)
        if is_number(g.value, 0):
            return
        for a in linear(s):
            self.accumulate(adjoint, a, g)
        for a, p in partials(s):
            if a in self.active:
                (d,) = self.call(p, *s.args, s.results[0])
                finite = bounded(p) or not isinstance(d, str)
                self.accumulate(adjoint, a, self.pulled(s, g, d, finite))

    def reverse_select(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """The side that was not taken gets an exact zero."""
        condition, *sides = s.args
        for k, v in enumerate(sides):
            if isinstance(v, str) and v in self.active and not is_number(g.value, 0):
                pair = (g.value, ZERO) if k == 0 else (ZERO, g.value)
                self.accumulate(adjoint, v, Cotangent(
                    self.select(condition, *pair), when(g.reach, condition, k == 0),
                    g.exact))

    def reverse_custom(self, s: Custom, adjoint: Adjoint) -> None:
        """By the rule; what the rule writes needs no cotangent to be written."""
        seeds = [adjoint.pop(r, NOTHING) for r in s.results]
        if s.results and all(is_number(g.value, 0) for g in seeds):
            return
        for a, raw in zip(s.args, array_args(s), strict=True):
            if raw and a in self.active and a not in self.bars:
                raise refuse(self.function, s.line, _SHARED)
        reach = NEVER if s.results else ALWAYS
        for g in seeds:
            reach = either(reach, g.reach)
        found = self.ruled(s, [self.exact(g) for g in seeds], reach)
        for a, v in zip(numbers(s), found, strict=True):
            self.accumulate(adjoint, a, Cotangent(v, reach, reach == ALWAYS))

    def ruled(self, s: Custom, seeds: Sequence[Value],
              reach: Reach) -> tuple[Value, ...]:
        """The results of a rule; its stores are written where `seeds` arrive."""
        rule, arrays = on_cotangents(self.function, s, vjp_rule(s), self.bars)
        arguments = (*s.args, *seeds, *arrays)
        if reach == ALWAYS or not has_effects(rule.body):
            return self.call(rule, *arguments)
        with self.region() as body:
            found = self.call(rule, *arguments)
        return self.branch(self.truth(reach), Block(tuple(body), found),
                           Block((), (ZERO,)*len(found)), ["bar"]*len(found))

    # Raw arrays --------------------------------------------------------------------

    def reverse_load(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Added to the array of cotangents."""
        array = str(s.args[0])
        if is_number(g.value, 0):
            return
        if array not in self.bars:
            if array in self.active:
                raise self.refuse(s, _SHARED)
            return
        self.add_to(s, (self.bars[array], *s.args[1:]), g)

    def reverse_recall(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Added to the cotangent of the element that was loaded."""
        bar = self.bars.get(str(s.args[0]))
        if bar is not None and not is_number(g.value, 0):
            self.effect("atomic_add", bar, *s.args[2:], self.exact(g))

    def add_to(self, s: Let, at: tuple[Value, ...], g: Cotangent) -> None:
        """Add to an element of an array of cotangents."""
        if s.attr == "once":
            total = self.add(self.let("load", *at, stem="g", attr="once"),
                             self.exact(g))
            self.effect("store", *at, total, attr="once")
        else:
            self.effect("atomic_add", *at, self.exact(g))

    def reverse_store(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Reverse a store, which takes away the cotangent of its element."""
        at = (self.bars[str(s.args[0])], *s.args[1:-1])
        if s.attr == "once":
            taken = self.let("load", *at, stem="g", attr="once")
            self.effect("store", *at, ZERO, attr="once")
        else:
            taken = self.let("atomic", *at, ZERO, stem="g", attr="exch")
        self.accumulate(adjoint, s.args[-1], Cotangent(taken))

    def reverse_atomic_add(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Read from the array of cotangents."""
        at = (self.bars[str(s.args[0])], *s.args[1:-1])
        self.accumulate(adjoint, s.args[-1], Cotangent(
            self.let("load", *at, stem="g")))

    def reverse_atomic(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """An addition whose old value nobody differentiates, or taking a value away."""
        bar = self.bars.get(str(s.args[0]))
        if bar and s.attr == "exch" and is_number(s.args[-1], 0):
            return self.effect("store", bar, *s.args[1:-1], self.exact(g))
        if not is_number(g.value, 0):
            raise self.refuse(s, "the old value of an atomic operation has no "
                                 "derivative; detach it")
        if bar and str(s.attr).endswith(RECORDED):
            return self.reverse_extremum(s, bar, adjoint)
        if bar:
            if s.attr != "add":
                raise self.refuse(s, f"an atomic {s.attr} has no derivative"
                                     f"{_ALONE.get(str(s.attr), '')}; detach "
                                     "the value, or give the function a rule")
            self.reverse_atomic_add(s, g, adjoint)
        return None

    def reverse_extremum(self, s: Let, bar: str, adjoint: Adjoint) -> None:
        """The value that an element has in the end takes its cotangent away."""
        won = winner(self, s)
        with self.region() as body:
            taken = self.let("atomic", bar, *s.args[2:-1], ZERO, stem="g", attr="exch")
        (g,) = self.branch(won, Block(tuple(body), (taken,)), Block((), (ZERO,)), ["g"])
        self.accumulate(adjoint, s.args[-1], Cotangent(g, flagged(won)))

    # Buffers -----------------------------------------------------------------------

    def reverse_buffer(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Reverse a buffer; its cotangents are made where the reverse begins."""

    def reverse_buffer_load(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """Added to the buffer of cotangents."""
        bar, at = self.bars.get(str(s.args[0])), s.args[1]
        if bar is None or is_number(g.value, 0):
            return
        self.effect("buffer_add", bar, at, self.exact(g))
        touched, now = self.touched[bar], self.truth(g.reach)
        if g.reach != ALWAYS:
            now = self.let("logical_or", self.let("buffer_load", touched, at), now)
        self.effect("buffer_store", touched, at, now)

    def reverse_buffer_store(self, s: Let, g: Cotangent, adjoint: Adjoint) -> None:
        """An element is written once before it is read: its cotangent is whole."""
        bar, at = self.bars[str(s.args[0])], s.args[1]
        total = self.let("buffer_load", bar, at, stem="g")
        touched = self.let("buffer_load", self.touched[bar], at)
        self.accumulate(adjoint, s.args[-1], Cotangent(total, flagged(touched)))

    reverse_buffer_add = reverse_buffer_store

    def allocate(self, s: Let) -> None:
        """The cotangents of a buffer, if it has any."""
        if s.op == "buffer" and s.results[0] in self.active:
            bar, touched = (self.let("buffer", s.args[0], attr="zeros",
                                     stem=f"{s.results[0]}_{what}")
                            for what in ("bar", "touched"))
            self.bars[s.results[0]], self.touched[bar] = bar, touched

    def refuse(self, s: Let, text: str) -> Exception:
        """An error that says where."""
        return refuse(self.function, s.line, text)


def winner(b: Builder, s: Let) -> str:
    """Write whether the value of a recorded atomic is the element in the end."""
    was = b.let("recall", *s.args[:-1], stem="was")
    return b.let("eq", was, b.let("recall", *s.args[:-1], attr=FINAL, stem="final"))


def _order(path: Path) -> list[tuple[str, bool]]:
    return sorted(path)

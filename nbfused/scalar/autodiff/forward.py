"""Forward mode: a tangent beside every value, and beside all memory."""

from __future__ import annotations

from dataclasses import replace

from ..ir.build import ZERO, Builder, is_number
from ..ir.nodes import (
    Block,
    Custom,
    For,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    read,
)
from .activity import change, linear, partials, refuse
from .adjoints import RECORDED, winner
from .rule_arrays import on_tangents
from .rules import jvp_rule, numbers

__all__ = ["Forward"]


class Forward(Builder):
    """Writes a function again with the tangents of the names in `active`.

    `tangent` has those that are not zero; for an array, the array of tangents.
    """

    def __init__(self, function: Function, active: set[str]) -> None:
        super().__init__(defined(function.body) | set(function.params))
        self.function, self.active = function, active
        self.read = read(function.body)
        self.tangent: dict[str, Value] = {}

    def dot(self, v: Value) -> Value:
        """The tangent of `v`."""
        return ZERO if isinstance(v, Literal) else self.tangent.get(v, ZERO)

    def block(self, block: Block, dots: tuple[bool, ...]) -> Block:
        """`block` with the tangents of the marked yields as further yields."""
        with self.region() as body:
            self.write(block.statements)
        more = (self.dot(y) for y, d in zip(block.yields, dots, strict=True) if d)
        return Block(tuple(body), (*block.yields, *more))

    def write(self, statements: tuple[Statement, ...]) -> None:
        """Each statement, then its tangents."""
        for s in statements:
            match s:
                case Let():
                    self.line = s.line or self.line
                    if s.op == "print":  # the function itself does
                        continue
                    self.statements.append(s)
                    self.let_tangent(s)
                case If():
                    self.forward_if(s)
                case Custom():
                    self.custom(s)
                case For() | While():
                    self.loop(s)

    def let_tangent(self, s: Let) -> None:
        """The tangent of a result, or of what is stored."""
        rule = getattr(self, f"forward_{s.op}", None)
        if rule is not None:
            return rule(s)
        total: Value = ZERO
        for a in linear(s):
            total = self.dot(a)
        for a, p in partials(s):
            if not is_number(self.dot(a), 0):
                (d,) = self.call(p, *s.args, s.results[0])
                total = self.add(total, self.pushed(s, self.dot(a), d))
        self.bind(s, total)

    def pushed(self, s: Let, dot: Value, d: Value) -> Value:
        """The change of the result of `s`, whose partial derivative is `d`."""
        if change(s) == "conjugate":
            dot = self.let("conj", dot)
        found = self.mul(dot, d)
        return self.let("real", found) if change(s) == "real" else found

    def bind(self, s: Let, tangent: Value) -> None:
        """Note the tangent of the result of `s`."""
        if s.results and not is_number(tangent, 0):
            self.tangent[s.results[0]] = tangent

    def forward_select(self, s: Let) -> None:
        """The tangent of the side that is taken."""
        self.bind(s, self.select(s.args[0], self.dot(s.args[1]), self.dot(s.args[2])))

    # Memory ------------------------------------------------------------------------

    def access(self, s: Let) -> None:
        """The same access to the tangents."""
        dots = self.dot(s.args[0])
        if isinstance(dots, Literal):
            return
        values = (self.dot(s.args[-1]),) if not s.op.endswith("load") else ()
        at = s.args[1:len(s.args) - len(values)]
        if s.results:
            self.bind(s, self.let(s.op, dots, *at, *values, attr=s.attr))
        else:
            self.effect(s.op, dots, *at, *values, attr=s.attr)

    forward_load = forward_store = forward_atomic_add = access
    forward_buffer_load = forward_buffer_store = forward_buffer_add = access

    def forward_atomic(self, s: Let) -> None:
        """An addition, or an extremum, whose old value nobody reads."""
        if not self.active.intersection(s.results):
            return
        dots = self.dot(s.args[0])
        if s.attr == "exch" and is_number(s.args[-1], 0) and isinstance(dots, str):
            return self.bind(s, self.let("atomic", dots, *s.args[1:-1], ZERO,
                                         attr="exch"))  # a cotangent is taken away
        if not isinstance(dots, str) and s.results[0] not in self.read:
            return None  # nobody asks for its tangents
        recorded = str(s.attr).endswith(RECORDED)
        if not (s.attr == "add" or recorded) or s.results[0] in self.read:
            raise refuse(self.function, s.line, "an atomic operation has no derivative "
                         "but an addition, or a min or max of an array that is not "
                         "accessed otherwise, whose old value is not read; detach the "
                         "value, or give the function a rule")
        if isinstance(dots, str) and recorded:
            won = winner(self, s)
            with self.region() as body:
                self.effect("store", dots, *s.args[2:-1], self.dot(s.args[-1]))
            self.branch(won, Block(tuple(body), ()), Block((), ()), ())
        elif isinstance(dots, str):
            self.effect("atomic_add", dots, *s.args[1:-1], self.dot(s.args[-1]))
        return None

    def memory(self, s: Let) -> None:
        """Memory of the same size for the tangents."""
        if s.results[0] in self.active:
            self.bind(s, self.let(s.op, *s.args, attr=s.attr,
                                  stem=f"{s.results[0]}_dot"))

    forward_buffer = forward_shared = memory

    def forward_shuffle(self, s: Let) -> None:
        """The tangent of the same thread."""
        if s.results[0] in self.active:
            self.bind(s, self.let("shuffle", self.dot(s.args[0]), s.args[1],
                                  attr=s.attr))

    # Regions -----------------------------------------------------------------------

    def custom(self, s: Custom) -> None:
        """By the rule."""
        self.statements.append(s)
        if self.active.intersection(s.results) or not s.results:
            own = {a: t for a in s.args if isinstance(a, str)
                   and isinstance(t := self.dot(a), str)}
            rule = on_tangents(self.function, s, jvp_rule(s), own)
            given = s.args if len(rule.params) == 2 * len(s.args) else numbers(s)
            dots = self.call(rule, *s.args, *map(self.dot, given))
            self.tangent.update(zip(s.results, dots, strict=True))

    def marks(self, names: tuple[str, ...]) -> tuple[tuple[bool, ...], tuple[str, ...]]:
        """The names among `names` that have a tangent, and names for those."""
        marks = tuple(n in self.active for n in names)
        dots = tuple(self.fresh(f"{n}_dot")
                     for n, m in zip(names, marks, strict=True) if m)
        return marks, dots

    def note(self, names: tuple[str, ...], marks: tuple[bool, ...],
             dots: tuple[str, ...]) -> None:
        """`dots` are the tangents of the marked `names`."""
        marked = (n for n, m in zip(names, marks, strict=True) if m)
        self.tangent.update(zip(marked, dots, strict=True))

    def forward_if(self, s: If) -> None:
        """Both branches yield tangents too."""
        marks, dots = self.marks(s.results)
        then, orelse = self.block(s.then, marks), self.block(s.orelse, marks)
        self.statements.append(If((*s.results, *dots), s.condition, then, orelse))
        self.note(s.results, marks, dots)

    def loop(self, s: For | While) -> None:
        """Tangents are carried along."""
        marks, outs = self.marks(s.results)
        dots = tuple(self.fresh(f"{p}_dot")
                     for p, m in zip(s.params, marks, strict=True) if m)
        inits = tuple(self.dot(v) for v, m in zip(s.inits, marks, strict=True) if m)
        self.note(s.params, marks, dots)
        body = self.block(s.body, marks)
        results, params = (*s.results, *outs), (*s.params, *dots)
        inits = (*s.inits, *inits)
        self.statements.append(replace(s, results=results, params=params, inits=inits,
                                       body=body))
        self.note(s.results, marks, outs)

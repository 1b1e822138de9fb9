"""Equal expressions that a backend computes in fewer instructions.

A rule is tried only where the backend has a function for its operation: kernels on CUDA
have one for sigmoid of float32, those with results of 16 bits one for erfc, too.  No
rule loses accuracy: ``1 + tanh(a)`` cancels for negative `a`, ``2*sigmoid(2*a)`` does
not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from ...support.records import record
from ..ir.build import Builder, is_number
from ..ir.clean import clean
from ..ir.nodes import (
    Block,
    For,
    If,
    Let,
    Literal,
    Statement,
    Value,
    While,
    defined,
    operands,
    walk,
    with_regions,
)
from ..language.vocabulary import OPS
from ..parse.functions import parse_expression
from ..typing.types import Typed, specialize

__all__ = ["RULES", "Rule", "rewritten"]


@record(frozen=True)
class Rule:
    """``left`` is ``b*outer*op(inner*a)``; without `b` where it does not occur.

    Attributes
    ----------
    left
        An expression of ``a``, perhaps of ``b``.
    op
        The operation that the backend has a function for.
    inner, outer
        Factors.
    """

    left: str
    op: str
    inner: float = 1.0
    outer: float = 1.0


RULES = (
    Rule("select(a >= 0.0, 1.0, exp(-abs(a)))/(1.0 + exp(-abs(a)))", "sigmoid"),
    Rule("b/(1.0 + exp(-a))", "sigmoid"),
    Rule("b/(1.0 + exp(a))", "sigmoid", -1.0),
    Rule("1.0 + tanh(a)", "sigmoid", 2.0, 2.0),
    Rule("1.0 - tanh(a)", "sigmoid", -2.0, 2.0),
    Rule("1.0 + erf(a)", "erfc", -1.0),
    Rule("1.0 - erf(a)", "erfc"),
)
#: What a rule saves: where something else needs it too, it stays, and saves nothing.
_DEAR = frozenset({"exp", "tanh", "erf"})


def rewritten(typed: Typed, calls: Mapping[tuple[str, str], str]) -> Typed:
    """`typed` by the rules whose operation is in `calls`, with its dtype."""
    rules = [(r, d) for r in RULES for d in ("float32", "float64")
             if (r.op, d) in calls]
    roots = {"div", "add", "sub"}
    if not rules or not any(isinstance(s, Let) and s.op in roots
                            for s in walk(typed.function.body)):
        return typed
    work = _Rewriting(typed, rules)
    function = clean(replace(typed.function, body=work.block(typed.function.body)))
    return replace(typed, function=function, dtypes=work.dtypes)


class _Rewriting:
    """The walk; `lets` are the statements seen so far, by the names they define.

    `uses` counts, for each name, the operands that it is.
    """

    def __init__(self, typed: Typed, rules: list[tuple[Rule, str]]) -> None:
        self.dtypes, self.rules = dict(typed.dtypes), rules
        self.lets: dict[str, Let] = {}
        f = typed.function
        self.uses = _uses(f.body)
        self.builder = Builder({*f.params, *defined(f.body)})

    def block(self, block: Block) -> Block:
        with self.builder.region() as statements:
            for s in block.statements:
                self.builder.statements.append(self.statement(s))
        return Block(tuple(statements), block.yields)

    def statement(self, s: Statement) -> Statement:
        if not isinstance(s, Let):
            return with_regions(s, self.block)
        let = self.let(s)
        self.lets.update(dict.fromkeys(let.results, let))
        return let

    def let(self, s: Let) -> Let:
        for rule, dtype in self.rules:
            root, pattern = _pattern(rule.left, dtype)
            found: dict[str, Value] = {}
            if s.op == pattern[root].op and self.dtypes[s.results[0]].name == dtype \
                    and self.same(root, s.results[0], pattern, found, s) \
                    and self.saves(pattern, found):
                return self.instead(s, rule, dtype, found)
        return s

    def saves(self, pattern: Mapping[str, Let], found: Mapping[str, Value]) -> bool:
        """Whether nothing else needs what the rule does without."""
        within = Counter(v for let in pattern.values() for v in let.args)
        return all(self.uses[found[name]] == within[name]
                   for name, let in pattern.items() if let.op in _DEAR)

    def same(self, name: Value, value: Value, pattern: Mapping[str, Let],
             found: dict[str, Value], root: Let | None = None) -> bool:
        """Whether `value` is what `name` says, with the parameters in `found`."""
        if isinstance(name, Literal):
            return isinstance(value, Literal) and value.value == name.value
        if name not in pattern:
            return found.setdefault(name, value) == value
        let, wanted = root or self.lets.get(str(value)), pattern[name]
        if let is None or let.op != wanted.op or let.attr != wanted.attr:
            return False
        orders = [let.args, let.args[::-1]] if OPS[let.op].commutes else [let.args]
        for args in orders:
            tried = dict(found)
            if all(self.same(n, v, pattern, tried)
                   for n, v in zip(wanted.args, args, strict=True)):
                found.update(tried)
                found[name] = value
                return True
        return False

    def instead(self, s: Let, rule: Rule, dtype: str, found: dict[str, Value]) -> Let:
        """The last statement of the right-hand side; the others are written."""
        inner, outer = (Literal(dtype, repr(x)) for x in (rule.inner, rule.outer))
        steps: list[tuple[str, Value | None]] = []
        if rule.inner == -1.0:
            steps.append(("neg", None))
        elif rule.inner != 1.0:
            steps.append(("mul", inner))
        steps.append((rule.op, None))
        if rule.outer != 1.0:
            steps.append(("mul", outer))
        if "b" in found and not is_number(found["b"], 1.0):
            steps.append(("mul", found["b"]))
        value = found["a"]
        for op, other in steps[:-1]:
            value = self.builder.let(op, *self.arguments(value, other))
            self.dtypes[value] = np.dtype(dtype)
        op, other = steps[-1]
        return replace(s, op=op, args=self.arguments(value, other), attr=None)

    @staticmethod
    def arguments(value: Value, other: Value | None) -> tuple[Value, ...]:
        return (value,) if other is None else (other, value)


def _uses(block: Block) -> Counter[Value]:
    """The number of uses of each value, in `block` and inside it."""
    blocks = [block]
    for s in walk(block):
        match s:
            case If():
                blocks += [s.then, s.orelse]
            case For():
                blocks.append(s.body)
            case While():
                blocks += [s.condition, s.body]
    return Counter([*(v for s in walk(block) for v in operands(s)),
                    *(v for b in blocks for v in b.yields)])


@cache
def _pattern(left: str, dtype: str) -> tuple[str, dict[str, Let]]:
    """The name of the expression, and the statements by the names they define."""
    params = tuple("ab"[:1 + left.startswith("b")])
    body = specialize(parse_expression(left, params),
                      (np.dtype(dtype),)*len(params)).function.body
    (root,) = body.yields
    return str(root), {s.results[0]: s for s in body.statements
                       if isinstance(s, Let)}

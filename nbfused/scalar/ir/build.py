"""Writing the intermediate representation: fresh names, regions, inlined calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ..printing.identifiers import identifier
from .nodes import (
    Block,
    Custom,
    Function,
    If,
    Let,
    Literal,
    Statement,
    Value,
    defined,
    literal,
    rename,
    walk,
    with_regions,
)

__all__ = ["ONE", "ZERO", "Builder", "inline", "is_number"]

#: The adjoint of what has no influence.
ZERO = literal(0.0)
ONE = literal(1.0)

#: What `fresh` has added to a name.
_COUNTS = re.compile(r"(_\d+)+$")


def is_number(value: Value, number: float) -> bool:
    """True if `value` is the literal `number`, of any kind."""
    return isinstance(value, Literal) and value.value == number


class Builder:
    """Statements of one function under construction.

    Parameters
    ----------
    taken
        Names that no fresh name may equal: the parameters, and what is defined.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.statements: list[Statement] = []
        self.line = 0
        self._taken = set(taken)
        self._counts: dict[str, int] = {}

    def fresh(self, stem: str) -> str:
        """A name that looks like `stem` and is new to the function."""
        base = _COUNTS.sub("", stem.strip("."))
        if not base.isidentifier():
            base = identifier(base)
        while True:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
            if name not in self._taken:
                self._taken.add(name)
                return name

    @contextmanager
    def region(self) -> Iterator[list[Statement]]:
        """Collect the statements of a block that is not part of the open one."""
        outer, self.statements = self.statements, []
        try:
            yield self.statements
        finally:
            self.statements = outer

    def let(self, op: str, *args: Value, stem: str = "t",
            attr: str | None = None) -> str:
        """``op(*args)`` under a fresh name."""
        name = self.fresh(stem)
        self.statements.append(Let((name,), op, args, attr, self.line))
        return name

    def effect(self, op: str, *args: Value, attr: str | None = None) -> None:
        """An operation that has no result."""
        self.statements.append(Let((), op, args, attr, self.line))

    def branch(self, condition: Value, then: Block, orelse: Block,
               stems: Sequence[str]) -> tuple[str, ...]:
        """An If, with a result for each stem."""
        results = tuple(self.fresh(s) for s in stems)
        self.statements.append(If(results, condition, then, orelse))
        return results

    def call(self, function: Function, *args: Value) -> tuple[Value, ...]:
        """The results of `function` at `args`; its body is copied here."""
        mapping = dict(zip(function.params, args, strict=True))
        body = rename(function.body, mapping, self.fresh)
        self.statements.extend(body.statements)
        return body.yields

    def add(self, a: Value, b: Value, stem: str = "t") -> Value:
        """``a + b``, without the operation where one of them is the literal zero."""
        if is_number(a, 0) or is_number(b, 0):
            return b if is_number(a, 0) else a
        return self.let("add", a, b, stem=stem)

    def mul(self, a: Value, b: Value, stem: str = "t") -> Value:
        """``a * b``; a literal 0 absorbs, 1 and -1 need no product."""
        for x, y in ((a, b), (b, a)):
            if is_number(x, 0):
                return ZERO
            if is_number(x, 1):
                return y
            if is_number(x, -1):
                return self.let("neg", y, stem=stem)
        return self.let("mul", a, b, stem=stem)

    def select(self, condition: Value, a: Value, b: Value, stem: str = "t") -> Value:
        """``a if condition else b``, both computed."""
        return a if a == b else self.let("select", condition, a, b, stem=stem)


def _never(call: Custom) -> bool:
    return False


def inline(function: Function, keep: Callable[[Custom], bool] = _never) -> Function:
    """`function` with the bodies of its `Custom` calls in place of those not kept."""
    while any(isinstance(s, Custom) and not keep(s) for s in walk(function.body)):
        builder = Builder({*function.params, *defined(function.body)})
        function = replace(function, body=_inline(builder, function.body, keep))
    return function


def _inline(b: Builder, block: Block, keep: Callable[[Custom], bool]) -> Block:
    def inside(block: Block) -> Block:
        return _inline(b, block, keep)

    with b.region() as statements:
        for s in block.statements:
            if isinstance(s, Custom) and not keep(s):
                values = b.call(s.function, *s.args)
                b.statements += [Let((r,), "id", (v,), None, s.line)
                                 for r, v in zip(s.results, values, strict=True)]
            else:
                b.statements.append(with_regions(s, inside))
    return Block(tuple(statements), block.yields)

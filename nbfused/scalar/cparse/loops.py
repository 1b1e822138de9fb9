"""Loops of C bodies: those that count become ``for``, the others ``while``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..resolve import Operation
from .expressions import Expressions
from .functions import ATOMICS
from .text import AUTO
from .types import common
from .values import Typed, call, constant, converted, store

__all__ = ["Loops", "atomics", "kind", "stores"]

#: Gives the statements that end an iteration.
Last = Callable[[], list[ast.stmt]]

_INT64 = np.dtype(np.int64)
#: Bounds of unsigned 64-bit counters end here: nobody counts that far.
_MOST = np.iinfo(np.int64).max
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def kind(node: Any) -> str:
    """The name of a node's class: pycparser is imported when it is needed only."""
    return type(node).__name__


def walk(node: Any) -> Iterator[Any]:
    """A node and all below it."""
    yield node
    for _, child in node.children():
        yield from walk(child)


def stores(node: Any) -> set[str]:
    """The names that are assigned in a tree."""
    found: set[str] = set()
    for n in walk(node):
        target: Any = None
        if kind(n) == "Assignment":
            target = n.lvalue
        elif kind(n) == "UnaryOp" and n.op[-2:] in ("++", "--"):
            target = n.expr
        while kind(target) == "ArrayRef":
            target = target.name
        if kind(target) == "ID":
            found.add(target.name)
    return found


class Loops(Expressions):
    """Expressions and loops; `statement` is given by the subclass."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        #: For each open loop, the statements that ``continue`` runs first.
        self.before_continue: list[Last] = []

    def statement(self, node: Any) -> list[ast.stmt]:
        """The statements of a C statement."""
        raise NotImplementedError

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names declared inside are forgotten."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def body(self, node: Any, last: Last = lambda: []) -> list[ast.stmt]:
        """The body of a loop; ``continue`` runs what the loop ends an iteration with.

        `last` gives these statements; names mean there what they mean here.
        """
        here = list(self.scopes)

        def before_continue() -> list[ast.stmt]:
            inside, self.scopes = self.scopes, here
            try:
                return last()
            finally:
                self.scopes = inside

        self.before_continue.append(before_continue)
        try:
            with self.scope():
                return self.statement(node) if node is not None else []
        finally:
            self.before_continue.pop()

    def for_loop(self, node: Any) -> list[ast.stmt]:
        """``for (…; …; …)``."""
        with self.scope():
            counted = self.counted(node)
            if counted is not None:
                return counted
            start = [] if node.init is None else self.statement(node.init)

            def step() -> list[ast.stmt]:
                return [] if node.next is None else self.statement(node.next)

            test = constant(True) if node.cond is None else self.truth(node.cond)
            body = [*self.body(node.stmt, step), *step()]
            return [*start, ast.While(test, body or [ast.Pass()], [])]

    def while_loop(self, node: Any) -> list[ast.stmt]:
        """``while (c) …``."""
        return [ast.While(self.truth(node.cond), self.body(node.stmt) or [ast.Pass()],
                          [])]

    def do_while(self, node: Any) -> list[ast.stmt]:
        """``do … while (c)``: an endless loop that ends by ``break``."""

        def test() -> list[ast.stmt]:
            stop = ast.UnaryOp(ast.Not(), self.truth(node.cond))
            return [ast.If(stop, [ast.Break()], [])]

        return [ast.While(constant(True), [*self.body(node.stmt, test), *test()], [])]

    def declared(self, node: Any, value: Typed | None) -> np.dtype:
        """The dtype of a declaration; ``auto`` is that of its first value."""
        name = getattr(node.type.type, "names", [""])[0]
        return value.dtype if name == AUTO and value else self.dtype(node)

    def counted(self, node: Any) -> list[ast.stmt] | None:
        """``for (int j = a; j < b; j += c)`` as a range; None if it is no such loop."""
        found = _counter(node)
        if found is None:
            return None
        decl, op, limit, step = found
        names = {n.name for n in walk(limit) if kind(n) == "ID"}
        if stores(node.stmt) & {decl.name, *names} or (
                atomics(node) and any(kind(n) == "ArrayRef" for n in walk(limit))):
            return None
        stride = self.typed(step).number if step is not None else 1
        if not isinstance(stride, int) or stride <= 0:
            return None
        start, stop = self.typed(decl.init), self.typed(limit)
        dtype = self.declared(decl, start)
        if dtype.kind not in "iu" or stop.dtype.kind not in "iu":
            return None
        start = self.as_type(decl, start, dtype)
        if common(dtype, stop.dtype).kind == "u":
            if dtype.kind == "i" and (start.number is None or start.number.real < 0):
                return None  # compared as unsigned, a negative counter is a large one
            stop = self.as_type(limit, stop, common(dtype, stop.dtype))
        stride = stride if op.startswith("<") else -stride
        return [self.range(decl, dtype, (start, stop, stride, op), node.stmt)]

    def range(self, decl: Any, dtype: np.dtype, bounds: tuple[Typed, Typed, int, str],
              body: Any) -> ast.stmt:
        """``for j in range(…)``, the counter in its type."""
        start, stop, stride, op = bounds
        first, last = _whole(start), _whole(stop)
        if op in ("<=", ">="):
            last = _whole(stop, 1 if op == "<=" else -1)
        self.outside |= {".range": range, ".min": Operation("min")}
        limits = [first, last] if stride == 1 else [first, last, constant(stride)]
        counter = self.declare(decl.name, dtype, constant=True)
        if dtype == _INT64:
            return ast.For(store(counter.name), call("range", *limits),
                           self.body(body) or [ast.Pass()], [])
        self.taken.add(f"{counter.name}_0")
        narrow = ast.Assign([store(counter.name)], call(
            dtype.name, ast.Name(f"{counter.name}_0", ast.Load())))
        return ast.For(store(f"{counter.name}_0"), call("range", *limits),
                       [narrow, *self.body(body)], [])


def atomics(node: Any) -> bool:
    """Whether a tree has calls of atomic functions."""
    return any(kind(n) == "FuncCall" and getattr(n.name, "name", "") in ATOMICS
               for n in walk(node))


def _whole(value: Typed, more: int = 0) -> ast.expr:
    """A bound and some more as int64, or the number."""
    if value.number is not None:
        return constant(min(int(value.number.real), _MOST - 1) + more)
    if value.dtype == np.uint64:
        value = Typed(call("min", value.node, constant(_MOST - 1)), value.dtype)
    found = converted(value, _INT64)
    return ast.BinOp(found, ast.Add(), constant(more)) if more else found


def _counter(node: Any) -> tuple[Any, str, Any, Any] | None:
    """Declaration, comparison, limit and step of a loop that counts."""
    decls: Sequence[Any] = node.init.decls if kind(node.init) == "DeclList" \
        else ()
    test, step = node.cond, node.next
    if len(decls) != 1 or decls[0].init is None or kind(test) != "BinaryOp" \
            or test.op not in _TURNED:
        return None
    name, op, limit = decls[0].name, test.op, test.right
    if getattr(test.right, "name", None) == name:
        op, limit = _TURNED[op], test.left
    elif getattr(test.left, "name", None) != name:
        return None
    size = _step(step, name, "+" if op.startswith("<") else "-")
    return None if size is None else (decls[0], op, limit, size[0])


def _step(step: Any, name: str, sign: str) -> Sequence[Any] | None:
    """The number that a counter moves by, None for 1, in a list; None if none."""
    if kind(step) == "UnaryOp" and step.op in (sign * 2, f"p{sign * 2}"):
        return [None] if getattr(step.expr, "name", None) == name else None
    if kind(step) == "Assignment" and step.op == f"{sign}=" \
            and getattr(step.lvalue, "name", None) == name:
        return [step.rvalue]
    return None

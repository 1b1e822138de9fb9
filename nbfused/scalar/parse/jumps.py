"""Jumps out of blocks, rewritten so that every block runs from its start to its end.

``return`` becomes an assignment to `RESULT`.  What follows a branch that may jump
moves into the branches that do not.  A loop that is left early gets flags, and goes
on only while none is set.  The names introduced here start with a dot, so that no
source can clash with them.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["RESULT", "Loop", "TooManyPaths", "assigned", "changed",
           "normalise", "returns"]

#: The name that holds what the function returns, and the flag that says it does.
RESULT, RETURNED = ".result", ".returned"

#: Statements written out at most: what follows a branch that may jump is copied.
LIMIT = 5000

_JUMPS = (ast.Return, ast.Break, ast.Continue)

Node = TypeVar("Node", bound=ast.AST)


class TooManyPaths(Exception):
    """Raised where early exits nest so that code would be copied too often."""


class Loop(ast.stmt):
    """A ``for`` or ``while`` whose body has no jumps.

    It goes on while its condition holds and none of `flags` is set; `max_iters` times
    is what the user expects, if that is not 0.
    """

    _fields = ("body",)

    def __init__(self, node: ast.For | ast.While, body: list[ast.stmt],
                 flags: tuple[str, ...], max_iters: int = 0) -> None:
        super().__init__(lineno=node.lineno, col_offset=node.col_offset)
        self.node, self.body, self.flags = node, body, flags
        self.max_iters = max_iters


def normalise(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function with its jumps rewritten."""
    end = ast.copy_location(ast.Return(None), body[-1])
    return _Normaliser().block([*body, end], None, inside=False)


def assigned(body: Sequence[ast.stmt]) -> set[str]:
    """The names that `body` may assign, whether its jumps are rewritten or not."""
    found: set[str] = set()
    for s in body:
        target = s.node if isinstance(s, Loop) else s
        if isinstance(target, ast.For):
            found |= _stores(target.target)
        if isinstance(s, (Loop, ast.If, ast.For, ast.While)):
            found |= assigned(s.body) | assigned(getattr(s, "orelse", []))
        elif isinstance(s, ast.FunctionDef):
            found.add(s.name)
        else:
            found |= _stores(s)
    return found


def returns(s: ast.AST) -> bool:
    """True if `s` returns a value; None is none."""
    return isinstance(s, ast.Return) and s.value is not None and not (
        isinstance(s.value, ast.Constant) and s.value.value is None)


def changed(body: Sequence[ast.stmt]) -> set[str]:
    """The names of which `body` may assign an element or a field."""
    found: set[str] = set()
    for node in (n for s in body for n in ast.walk(s)):
        inner: ast.AST = node
        while isinstance(inner, (ast.Subscript, ast.Attribute)):
            inner = inner.value
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(
                node.ctx, ast.Store) and isinstance(inner, ast.Name):
            found.add(inner.id)
    return found


def _stores(tree: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(tree)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _name(name: str, where: Node, store: bool = False) -> ast.Name:
    return ast.copy_location(
        ast.Name(name, ast.Store() if store else ast.Load()), where)


def _assign(name: str, value: ast.expr, where: ast.AST) -> ast.Assign:
    target = _name(name, where, store=True)
    return ast.copy_location(ast.Assign([target], value), where)


def _set(flag: str, value: bool, where: ast.AST) -> ast.Assign:
    return _assign(flag, ast.copy_location(ast.Constant(value), where), where)


def _jumps(s: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """True if `s` may leave the block it stands in by one of `kinds`."""
    if isinstance(s, kinds):
        return True
    if isinstance(s, ast.If):
        return any(_jumps(x, kinds) for x in (*s.body, *s.orelse))
    if isinstance(s, (ast.For, ast.While)):
        return ast.Return in kinds and any(_jumps(x, (ast.Return,)) for x in s.body)
    return False


def _endless(s: ast.stmt) -> bool:
    """True if `s` is a ``while True`` that only ``return`` leaves."""
    return (isinstance(s, ast.While) and isinstance(s.test, ast.Constant)
            and bool(s.test.value) and not any(_jumps(x, (ast.Break,)) for x in s.body))


class _Normaliser:
    def __init__(self) -> None:
        self.written = 0
        self.loops = 0

    def block(self, body: Sequence[ast.stmt], leave: str | None, *,
              inside: bool) -> list[ast.stmt]:
        """`body` up to its first jump; `leave` is the flag that ``break`` sets."""
        out: list[ast.stmt] = []
        for k, s in enumerate(body):
            self._count()
            rest = body[k + 1:]
            if isinstance(s, _JUMPS):
                return out + self.jump(s, leave, inside)
            if isinstance(s, ast.If) and _jumps(s, _JUMPS):
                return [*out, self.branch(s, rest, leave, inside)]
            if isinstance(s, (ast.For, ast.While)):
                out += self.loop(s)
                if _jumps(s, (ast.Return,)):
                    return out + self.after(s, rest, leave, inside)
            else:
                out.append(self.plain(s, leave, inside))
        return out

    def _count(self) -> None:
        self.written += 1
        if self.written > LIMIT:
            raise TooManyPaths

    def plain(self, s: ast.stmt, leave: str | None, inside: bool) -> ast.stmt:
        """A statement that never jumps; there can be loops inside it."""
        return self.branch(s, (), leave, inside) if isinstance(s, ast.If) else s

    def jump(self, s: ast.stmt, leave: str | None, inside: bool) -> list[ast.stmt]:
        if isinstance(s, ast.Return):
            value = s.value if returns(s) and s.value is not None else \
                ast.copy_location(ast.Tuple([], ast.Load()), s)
            result: list[ast.stmt] = [_assign(RESULT, value, s)]
            return [*result, _set(RETURNED, True, s)] if inside else result
        return [_set(leave, True, s)] if isinstance(s, ast.Break) and leave else []

    def branch(self, s: ast.If, rest: Sequence[ast.stmt], leave: str | None,
               inside: bool) -> ast.If:
        """`s` with `rest` moved into it; a branch that jumps for sure drops it."""
        branches = [self.block([*b, *rest], leave, inside=inside)
                    for b in (s.body, s.orelse)]
        return ast.copy_location(ast.If(s.test, *branches), s)

    def loop(self, s: ast.For | ast.While) -> list[ast.stmt]:
        self.loops += 1
        leave = f".broken{self.loops}"
        flags = [f for f, kind in ((leave, ast.Break), (RETURNED, ast.Return))
                 if any(_jumps(x, (kind,)) for x in s.body)]
        body = self.block(s.body, leave, inside=True)
        return [*(_set(f, False, s) for f in flags), Loop(s, body, tuple(flags))]

    def after(self, s: ast.stmt, rest: Sequence[ast.stmt], leave: str | None,
              inside: bool) -> list[ast.stmt]:
        """The statements after a loop that may have returned."""
        if _endless(s):
            return []
        other = self.block(rest, leave, inside=inside)
        test = _name(RETURNED, s)
        return [ast.copy_location(ast.If(test, [], other), s)]

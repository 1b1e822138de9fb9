"""Statements of C bodies, as statements of the scalar language."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..resolve import Operation
from .functions import ATOMICS
from .loops import Loops, atomics, kind
from .values import (
    Typed,
    Variable,
    call,
    converted,
    literal,
    store,
    subscript,
)

__all__ = ["Statements"]


class Statements(Loops):
    """The statements of one function.

    `results` gives the statement that leaves the function: what ``return`` becomes.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outside |= {f".{d}": Operation("cast", d) for d in _CASTS}
        self.leave: Callable[[Any], list[ast.stmt]] = lambda node: []

    def statement(self, node: Any) -> list[ast.stmt]:
        """The statements of a C statement, which know its line."""
        handler = _HANDLERS.get(kind(node))
        if handler is None:
            self.typed(node)  # a value that nobody uses; refused if it is no value
            return []
        found = handler(self, node)
        line = node.coord.line if node.coord is not None else 1
        new: list[ast.AST] = [*found]
        while new:  # what has a line is a statement inside, and known below as well
            n = new.pop()
            if not hasattr(n, "lineno"):
                if isinstance(n, (ast.stmt, ast.expr)):
                    n.lineno, n.col_offset = line, 0
                new += ast.iter_child_nodes(n)
        return found

    def block(self, nodes: Sequence[Any]) -> list[ast.stmt]:
        """Statements in order."""
        return [s for node in nodes for s in self.statement(node)]

    def compound(self, node: Any) -> list[ast.stmt]:
        """A block in braces."""
        with self.scope():
            return self.block(node.block_items or ())

    def listed(self, node: Any) -> list[ast.stmt]:
        """Several declarations, or expressions with commas between them."""
        return self.block(node.decls if kind(node) == "DeclList" else node.exprs)

    def nothing(self, node: Any) -> list[ast.stmt]:
        """``;``."""
        return []

    # Declarations and assignments --------------------------------------------------

    def declaration(self, node: Any) -> list[ast.stmt]:
        """``T x = …;``, ``T v[4];``."""
        if kind(node.type) == "FuncDecl":
            self.refuse(node, "a function inside the body is not understood here; "
                              "move it to the preamble")
        self.check_new(node)
        if kind(node.type) == "ArrayDecl":
            return self.local(node)
        if kind(node.type) == "PtrDecl":
            self.refuse(node, "pointers are not understood here; index the array")
        value = None if node.init is None else self.typed(node.init)
        dtype = self.declared(node, value)
        # An undefined value would be another one on every machine: it is zero.
        start = literal(0, dtype) if value is None else value
        target = self.declare(node.name, dtype, constant="const" in node.quals)
        return [self.assign(node, target, start)]

    def check_new(self, node: Any) -> None:
        """Refuse a name that its scope has; that of the body has the parameters'."""
        scopes = self.scopes if len(self.scopes) == 2 else self.scopes[-1:]
        if node.name not in ("i", "n") and any(node.name in s for s in scopes):
            self.refuse(node, f"{node.name!r} is declared already; assign to it without"
                              " a type, or take another name")

    def local(self, node: Any) -> list[ast.stmt]:
        """An array of the body: its elements are variables."""
        shape, dtype = self.extents(node), self.dtype(node)
        given = list(getattr(node.init, "exprs", () if node.init is None
                             else (node.init,)))
        values = [literal(0, dtype) if v is None else self.typed(v)
                  for v in self.filled(node, given, shape)]
        array = self.declare(node.name, dtype, "local", shape, "const" in node.quals)
        self.outside[".list"] = list
        return [ast.Assign([store(array.name)], call("list", ast.Tuple(
            [converted(v, dtype) for v in values], ast.Load())))]

    def extents(self, node: Any) -> tuple[int, ...]:
        """The shape of an array; the list in braces may tell its first extent."""
        shape: list[Any] = []
        inner = node.type
        while kind(inner) == "ArrayDecl":
            shape.append(inner.dim and self.typed(inner.dim).number)
            inner = inner.type
        given = getattr(node.init, "exprs", ())
        if node.type.dim is None and given and None not in shape[1:]:
            lists = any(kind(v) == "InitList" for v in given)
            shape[0] = len(given) if lists else -(-len(given) // prod(shape[1:]))
        if not all(isinstance(n, int) and n > 0 for n in shape):
            self.refuse(node, f"the size of {node.name!r} must be a number that is "
                              "known here")
        return tuple(shape)

    def filled(self, node: Any, given: list[Any], shape: tuple[int, ...]) -> list[Any]:
        """The values of an array's elements; None behind the end of the list `given`.

        What stands in braces of its own fills one part of the array, as in C.
        """
        count, found = len(given), self.taken_from(node, given, shape)
        if given:
            self.refuse(node, f"{node.name!r} has {shape[0]} elements, got {count}")
        return found

    def taken_from(self, node: Any, given: list[Any],
                   shape: tuple[int, ...]) -> list[Any]:
        """As `filled`; what is too much stays in the list."""
        found: list[Any] = []
        for _ in range(shape[0]):
            if not given:
                found += [None] * prod(shape[1:])
            elif kind(given[0]) == "InitList":
                part = list(given.pop(0).exprs)
                found += self.filled(node, part, shape[1:] or (1,))
            elif shape[1:]:
                found += self.taken_from(node, given, shape[1:])
            else:
                found.append(given.pop(0))
        return found

    def assign(self, node: Any, target: Variable, value: Typed) -> ast.stmt:
        """A name gets a value in its type."""
        value = self.as_type(node, value, target.dtype)
        return ast.Assign([store(target.name)], converted(value, target.dtype))

    def assignment(self, node: Any) -> list[ast.stmt]:
        """``x = …``, ``x += …``, ``x = y = …``."""
        first: list[ast.stmt] = []
        right = node.rvalue
        if kind(right) == "Assignment":
            first, right = self.statement(right), right.lvalue
        value = self.typed(right)
        if node.op != "=":
            self.check_once(node.lvalue)
            value = self.combined(node, node.op[:-1], self.typed(node.lvalue), value)
        return [*first, self.put(node, node.lvalue, value)]

    def check_once(self, target: Any) -> None:
        """Refuse an index that would be computed twice, which adds twice."""
        if atomics(target):
            self.refuse(target, "an atomic function in the index of what is changed is "
                                "not understood here; store its value in a variable "
                                "first")

    def put(self, node: Any, target: Any, value: Typed) -> ast.stmt:
        """Store to a variable or to an element."""
        if kind(target) == "ArrayRef":
            return self.put_element(node, target, value)
        if kind(target) != "ID":
            self.refuse(node, "only variables and elements are assigned")
        variable = self.lookup(target.name)
        if variable is None:
            self.refuse(node, f"{target.name!r} is not declared")
        if variable.kind != "value":
            self.refuse(node, f"{target.name!r} is an array; assign its elements, as "
                              f"in {target.name}[i] = …")
        if variable.constant:
            self.refuse(node, f"{target.name!r} is an input or const; copy it to a "
                              "variable of its own to change it")
        return self.assign(node, variable, value)

    def put_element(self, node: Any, target: Any, value: Typed) -> ast.stmt:
        """Store to an element of an array."""
        variable, index = self.place(target)
        if variable.constant:
            self.refuse(node, f"{variable.name!r} is an input or const; only outputs "
                              "and variables are written to")
        stored = converted(self.as_type(node, value, variable.dtype), variable.dtype)
        return ast.Assign([subscript(variable.name, index, ast.Store())], stored)

    def step(self, node: Any) -> list[ast.stmt]:
        """``x++;``, or an expression whose value nobody uses."""
        if node.op[-1] not in "+-" or len(node.op) < 2:
            self.typed(node)
            return []
        self.check_once(node.expr)
        value = self.combined(node, node.op[-1], self.typed(node.expr),
                              literal(1, np.dtype(np.int32)))
        return [self.put(node, node.expr, value)]

    def called_for(self, node: Any) -> list[ast.stmt]:
        """A call whose value nobody uses: only an atomic one has an effect."""
        name, args = getattr(node.name, "name", ""), self.arguments(node)
        found = self.typed(node)
        if name == "atomicAdd":  # without the old value: this one has a derivative
            variable, index = self.address(args[0])
            self.outside[".atomic_add"] = Operation("atomic_add")
            return [ast.Expr(call("atomic_add", ast.Name(variable.name, ast.Load()),
                                  index, converted(self.typed(args[1]),
                                                   variable.dtype)))]
        return [ast.Expr(found.node)] if name in ATOMICS else []

    # Control -----------------------------------------------------------------------

    def conditional(self, node: Any) -> list[ast.stmt]:
        """``if``, ``else``."""
        branches: list[list[ast.stmt]] = []
        for branch in (node.iftrue, node.iffalse):
            with self.scope():
                branches.append([] if branch is None else self.statement(branch))
        then, orelse = branches
        return [ast.If(self.truth(node.cond), then or [ast.Pass()], orelse)]

    def jump(self, node: Any) -> list[ast.stmt]:
        """``break`` and ``continue``; outside a loop the latter ends the element."""
        if not self.before_continue:
            if kind(node) == "Break":
                self.refuse(node, "break stands outside a loop; return ends the "
                                  "element")
            return self.leave(node)
        if kind(node) == "Break":
            return [ast.Break()]
        return [*self.before_continue[-1](), ast.Continue()]

    def returned(self, node: Any) -> list[ast.stmt]:
        """``return``."""
        return self.leave(node)


_CASTS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
          "uint64", "float16", "bfloat16", "float32", "float64", "complex64",
          "complex128")
_HANDLERS: Mapping[str, Callable[[Statements, Any], list[ast.stmt]]] = {
    "Compound": Statements.compound, "DeclList": Statements.listed,
    "ExprList": Statements.listed, "EmptyStatement": Statements.nothing,
    "Pragma": Statements.nothing, "Decl": Statements.declaration,
    "Assignment": Statements.assignment, "UnaryOp": Statements.step,
    "FuncCall": Statements.called_for, "If": Statements.conditional,
    "For": Statements.for_loop, "While": Statements.while_loop,
    "DoWhile": Statements.do_while, "Break": Statements.jump,
    "Continue": Statements.jump, "Return": Statements.returned,
}

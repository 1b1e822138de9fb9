"""Calls of functions that the preamble defines, each copied in where it is called."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...ir.nodes import Function
from ...parse.functions import parse_tree
from ..changes import Path, path_of
from ..expressions import as_type
from ..functions import Parameter, declare_parameter
from ..scope import Scope
from ..spelling import CUDA, REFERENCE, SELF, shown_name
from ..structs import from_names, leaf_names
from ..tree import has_atomics, kind, memory_stores, moves, walk
from ..types import INT64, type_text
from ..values import Typed, Variable, call, constant, converted, store, subscript
from .arguments import (
    Argument,
    Effects,
    argument,
    is_constant,
    is_pointer,
    part_of,
)
from .overloads import best_fit, parameters
from .tail_calls import calls_itself, restart, split
from .templates import Given, deduce

__all__ = ["DeviceCall", "device_function"]

def device_function(scope: Scope, node: Any, name: str, args: Sequence[Any],
                    explicit: Sequence[Given] = ()) -> DeviceCall | None:
    """A call of a function of the preamble; None if there is none of that name.

    `explicit` are template arguments that are given.
    """
    unit = scope.unit
    targets = unit.functions.get(name) or unit.functions.get(CUDA + name)
    if targets is None:
        return None
    target = best_fit(scope, node, name, targets, args, explicit)
    if target in unit.open:
        scope.refuse(node, f"{name}() calls itself other than by return {name}(…), or "
                           "by way of another function; write a loop, with an array of "
                           "the body for what is left to do")
    declared = parameters(target)
    given = [argument(scope, d, a) for d, a in zip(declared, args, strict=False)]
    return DeviceCall(scope, node, target, declared, given, explicit)


def _listed(array: Variable, names: Sequence[str]) -> ast.stmt:
    """An array of a body gets its elements."""
    return ast.Assign([store(array.name)], call("list", ast.Tuple(
        [ast.Name(n, ast.Load()) for n in names], ast.Load())))


class DeviceCall:
    """A call of a function of the preamble, for arguments of some dtypes.

    Attributes
    ----------
    params
        What the function takes: numbers, structs, raw arrays.
    references
        The positions of those that it changes.
    arrays
        The arrays of the caller's body by their positions: passed as their elements.
    same
        For each of these, the position of the first pointer into the same array, which
        it is passed by.
    changed
        The positions of those among them that it changes.
    moved
        The positions of pointers behind the first element, which is passed besides.
    alone
        Whether it is the only function of its name.
    numbers
        Integers that are parameters of its template, by their names.
    viewed
        The positions of references that it does not change.
    result
        The dtype of what it returns; None for nothing.
    """

    def __init__(self, caller: Scope, node: Any, target: Any, declared: Sequence[Any],
                 given: Sequence[Argument], explicit: Sequence[Given]) -> None:
        self.unit, self.target, self.given = caller.unit, target, given
        self.name = target.decl.name
        self.shown: str = shown_name(self.name)
        self.alone = len(self.unit.functions[self.name]) == 1
        self.source = self.unit.sources["preamble"]
        self.scope = Scope(caller.grammar, self.unit, self.source)
        found = deduce(caller, node, target, declared[:len(given)],
                       [g.value.dtype for g in given], explicit)
        self.numbers: Mapping[str, Typed] = found.numbers
        self.scope.types = {**self.unit.types, **found.types}
        for d in declared[len(given):]:
            value = d.align[0].alignment  # by default
            self.given = given = [*given, argument(self.scope, d, value)]
        self.params = [
            Parameter(d.name, self.scope.dtype(d.type), g.array is not None,
                      not g.array.variable.constant if g.array else
                      not (g.pointee and is_constant(d)))
            for d, g in zip(declared, given, strict=True)]
        self.arrays = {k: g.array.variable for k, g in enumerate(given)
                       if g.array and g.array.variable.kind == "local"}
        first: dict[str, int] = {}
        self.same = {k: first.setdefault(v.name, k) for k, v in self.arrays.items()}
        self.moved = [k for k, g in enumerate(given) if g.array and not g.array.first]
        written = memory_stores(target.body, self.unit.changes, {
            d.name for d in declared if is_pointer(d)})
        self.changed = sorted({self.same[k] for k in self.arrays
                               if self.params[k].name in written})
        self.references = [k for k, (d, g) in enumerate(zip(declared, given,
                                                            strict=True))
                           if REFERENCE in d.quals or (g.pointee
                                                       and not is_constant(d))]
        self.viewed = [k for k, d in enumerate(declared) if d in self.unit.settled]
        returned = target.decl.type.type
        self.result = None if getattr(returned.type, "names", None) == ["void"] else \
            self.scope.dtype(returned)
        for p, d, g in zip(self.params, declared, given, strict=True):
            if is_pointer(d) and p.dtype != g.value.dtype:
                what = "a variable" if g.pointee else "an array"
                caller.refuse(node, f"the pointer {p.name!r} of {self.shown}() is of "
                                    f"{type_text(p.dtype)}, got {what} of "
                                    f"{type_text(g.value.dtype)}")

    @property
    def changes(self) -> bool:
        """Whether the call is more than a value."""
        return bool(self.references or self.changed) or self.result is None

    def call(self, scope: Scope, node: Any) -> ast.expr:
        """The call; the function is made when it is called first."""
        key = f"{self.name}<{', '.join(map(str, self._types()))}>"
        if f".{key}" not in self.unit.outside:
            self.unit.outside[f".{key}"] = self._function(key)
        nodes: list[ast.expr] = []
        for k, (p, g) in enumerate(zip(self.params, self.given, strict=True)):
            if k in self.arrays and self.same[k] == k:
                nodes += [subscript(self.arrays[k].name, constant(j), ast.Load())
                          for j in range(self.arrays[k].shape[0])]
            elif p.raw:
                nodes += [] if k in self.arrays else [g.value.node]
            else:
                value = as_type(scope, node, g.value, p.dtype)
                nodes.append(converted(value, p.dtype))
            if k in self.moved and g.array:
                nodes.append(call(INT64.name, g.array.place))
        return ast.Call(ast.Name(f".{key}", ast.Load()), nodes, [])

    def _types(self) -> list[Any]:
        return [*self.scope.types.items(), *((p.dtype, p.written) for p in self.params),
                *((k, v.shape) for k, v in self.arrays.items()), *self.moved,
                *self.same.items(),
                *((n, v.number) for n, v in self.numbers.items()),
                *(k for k, g in enumerate(self.given) if g.pointee)]

    def changed_paths(self, scope: Scope) -> list[Path]:
        """The variables, or their parts, that the call changes."""
        return [path_of(scope, self.given[k].node) for k in self.references] + [
            (self.arrays[k].name,) for k in self.changed]

    def value(self, scope: Scope, node: Any) -> Typed:
        """The value of a call that is a value."""
        if self.result is None:
            scope.refuse(node, f"{self.shown}() returns nothing; call it in a "
                               "statement of its own")
        return Typed(self.call(scope, node), self.result)

    def effects(self, scope: Scope, node: Any) -> Effects:
        """The statements of a call that changes its arguments."""
        from pycparser.c_ast import ID

        dtypes = [self.params[k].dtype for k in self.references]
        dtypes = [*([] if self.result is None else [self.result]), *dtypes]
        dtypes += [self.params[k].dtype for k in self.changed
                   for _ in range(self.arrays[k].shape[0])]
        names = [f"__{self.name.lstrip('_')}_{k}" for k in range(len(dtypes))]
        found = [scope.declare(n, d) for n, d in zip(names, dtypes, strict=True)]
        taken = self.call(scope, node)
        if not found:
            return Effects([ast.Expr(taken)], None)
        targets = [store(v.name) for v in found]
        target = ast.Tuple(targets, ast.Store()) if len(targets) > 1 else targets[0]
        return Effects([ast.Assign([target], taken),
                        *self._stored(scope, node, found)], None
                       if self.result is None else ID(names[0], node.coord))

    def _stored(self, scope: Scope, node: Any,
                found: Sequence[Variable]) -> list[ast.stmt]:
        """The references get their new values."""
        from pycparser.c_ast import ID, Assignment

        statements: list[ast.stmt] = []
        self._check_overlaps(scope, node)
        found = list(found)
        first = int(self.result is not None)
        places = found[first:first + len(self.references)]
        rest = iter(found[first + len(self.references):])
        for k, v in zip(self.references, places, strict=True):
            target, given = self.given[k].node, self.given[k].value
            what = f"the reference {self.params[k].name!r} of {self.shown}()" \
                if self.params[k].name != SELF else \
                f"{self.shown}(), which changes its struct,"
            if kind(target) not in ("ID", "ArrayRef", "StructRef") and not (
                    kind(target) == "UnaryOp" and target.op == "*"):
                scope.refuse(node, f"{what} takes a variable or an element; store the "
                                   "value in a variable first")
            if has_atomics(target, self.unit.changes):
                scope.refuse(node, "an atomic function in the index of a reference is "
                                   "not understood here; store its value first")
            if given.dtype != v.dtype:
                scope.refuse(node, f"{what} is of {type_text(v.dtype)}, got "
                                   f"{type_text(given.dtype)}")
            value = ID(f"__{self.name.lstrip('_')}_{found.index(v)}", node.coord)
            statements += scope.statement(Assignment("=", target, value, node.coord))
        for array in (self.arrays[k] for k in self.changed):
            statements.append(_listed(array, [
                next(rest).name for _ in range(array.shape[0])]))
        return statements

    def _check_overlaps(self, scope: Scope, node: Any) -> None:
        """Refuse a variable that is given twice, once to be changed.

        Two elements of an array are taken to be different, unless they are known to be
        the same.
        """
        pointed = {g.array.variable.name for g in self.given if g.array}
        seen: list[tuple[Any, ...]] = []
        for k in self.references:
            part = part_of(scope, self.given[k].node)
            if part[0] in pointed or any(
                    a == b for a, b in ((p[:len(part)], part[:len(p)]) for p in seen)):
                scope.refuse(node, f"{part[0]!r} is given twice by reference; give a "
                                   "copy")
            seen.append(part)
        changed = {self.arrays[k].name for k in self.changed}
        for k in self.viewed:
            part = part_of(scope, self.given[k].node)
            if part[0] in changed or any(
                    a == b for a, b in ((p[:len(part)], part[:len(p)]) for p in seen)):
                scope.refuse(node, f"{part[0]!r} is given by reference, and changed by "
                                   "the call; give a copy")

    def _function(self, name: str) -> Function:
        """The scalar function, copied in where it is called."""
        scope = self.scope
        names: list[str] = []
        first: list[ast.stmt] = []
        self.unit.outside[".list"] = list
        first += self.unit.constants(scope, self.target)
        for name, number in self.numbers.items():
            scope.declare(name, number.dtype, constant=True, number=number.number)
        for k, p in enumerate(self.params):
            found, statements = self._parameter(scope, k, p)
            names += found
            first += statements
        returns = [n for n in walk(self.target.body) if kind(n) == "Return"]
        if (not returns and self.result is not None) or any(
                (n.expr is None) != (self.result is None) for n in returns):
            self.unit.refuse(self.target, f"{self.shown}() returns a value, or is void "
                                          "and returns nothing")
        changed = [scope.lookup(self.params[k].name)
                   for k in (*self.references, *self.changed)]
        own = [v for p in self.params if (v := scope.lookup(p.name))]
        scope.leave = lambda node: self._leave(node, [v for v in changed if v], own)
        last = scope.leave(None) if self.result is None else []
        self.unit.open.append(self.target)
        try:
            with scope.block():
                body = scope.body(self.target.body.block_items or ())
            if self.alone and calls_itself(self.target):
                body = [ast.While(constant(True), body, [])]
            return parse_tree(name, names, [*first, *body, *last] or [ast.Pass()],
                              self.source, self.unit.outside, nested=True)
        finally:
            self.unit.open.pop()

    def _parameter(self, scope: Scope, k: int,
                   p: Parameter) -> tuple[list[str], list[ast.stmt]]:
        """The names of what a parameter is passed as, and what makes a variable of it.

        That is by value: a copy that may change.
        """
        statements: list[ast.stmt] = []
        if self.same.get(k, k) != k:
            parts = []
            other = scope.blocks[-1][self.params[self.same[k]].name]
            variable = scope.blocks[-1][p.name] = replace(
                other, offset="", constant=not p.written)
        elif k in self.arrays:
            variable = scope.declare(p.name, p.dtype, "local", self.arrays[k].shape,
                                     not p.written)
            parts = [scope.declare(f"__{p.name}_{j}", p.dtype).name
                     for j in range(variable.shape[0])]
            statements.append(_listed(variable, parts))
        else:
            variable = declare_parameter(scope, p)
            parts = leaf_names(scope, variable)
            if p.dtype.names:
                statements.append(ast.Assign([store(variable.name)],
                                             from_names(p.dtype, parts)))
        if self.given[k].pointee:
            variable = scope.blocks[-1][p.name] = replace(variable, kind="pointee")
        if k in self.moved or (p.raw and moves(self.target.body, p.name)):
            place = scope.declare(f"__{p.name}_place", INT64)
            scope.blocks[-1][p.name] = replace(variable, offset=place.name)
            if k in self.moved:
                parts = [*parts, place.name]
            else:
                statements.append(ast.Assign([store(place.name)], constant(0)))
        return parts, statements

    def _leave(self, node: Any, changed: Sequence[Variable],
               own: Sequence[Variable]) -> list[ast.stmt]:
        """``return``: the value, then what the references hold; or the next call."""
        found: list[ast.expr] = []
        if self.alone and self.result is not None and node is not None:
            both = split(node, self.name)
            again = self.scope.statement(both) if both else restart(
                self.scope, node, self.name, self.params, own)
            if again is not None:
                return again
        if self.result is not None and node is None:
            self.scope.refuse(self.target, f"{self.shown}() ends without a value after "
                                           "a goto; return one")
        if self.result is not None:
            value = self.scope.grammar.initial(self.scope, node.expr, self.result)
            found.append(converted(value, self.result))
        for v in changed:
            found += [ast.Name(v.name, ast.Load())] if v.kind != "local" else [
                subscript(v.name, constant(j), ast.Load()) for j in range(v.shape[0])]
        if len(found) > 1:
            return [ast.Return(ast.Tuple(found, ast.Load()))]
        return [ast.Return(found[0] if found else None)]

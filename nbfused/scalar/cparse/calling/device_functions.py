"""Calls of functions that the preamble defines, each copied in where it is called."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.nodes import Function
from ...parse.functions import parse_tree
from ..changes import Path, path_of
from ..expressions import as_type
from ..functions import Parameter, declare_parameter
from ..scope import Scope
from ..spelling import CUDA, REFERENCE
from ..structs import flat, from_names, leaf_names
from ..tree import has_atomics, kind, memory_stores, moves, walk
from ..types import INT64
from ..values import Typed, Variable, call, constant, store, subscript
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

__all__ = ["DeviceCall", "Given", "device_function"]

#: A template argument: a type, or an integer that is known.
Given = np.dtype | Typed


def device_function(scope: Scope, node: Any, name: str, args: Sequence[Any],
                    explicit: Sequence[Given] = ()) -> DeviceCall | None:
    """A call of a function of the preamble; None if there is none of that name.

    `explicit` are template arguments that are given.
    """
    unit = scope.unit
    targets = unit.functions.get(name) or unit.functions.get(CUDA + name)
    if targets is None:
        return None
    target = best_fit(scope, node, name, targets, args)
    if target in unit.open:
        scope.refuse(node, f"{name}() calls itself other than by return {name}(…), or "
                           "by way of another function; write a loop, with an array of "
                           "the body for what is left to do")
    declared = parameters(target)
    given = [argument(scope, d, a) for d, a in zip(declared, args, strict=True)]
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
    result
        The dtype of what it returns; None for nothing.
    """

    def __init__(self, caller: Scope, node: Any, target: Any, declared: Sequence[Any],
                 given: Sequence[Argument], explicit: Sequence[Given]) -> None:
        self.unit, self.target, self.given = caller.unit, target, given
        self.name = target.decl.name
        self.alone = len(self.unit.functions[self.name]) == 1
        self.source = self.unit.sources["preamble"]
        self.scope = Scope(caller.grammar, self.unit, self.source)
        self.numbers: dict[str, Typed] = {}
        self.scope.types = {**self.unit.types,
                            **self._deduced(caller, node, declared, explicit)}
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
        returned = target.decl.type.type
        self.result = None if getattr(returned.type, "names", None) == ["void"] else \
            self.scope.dtype(returned)
        for p, d, g in zip(self.params, declared, given, strict=True):
            if is_pointer(d) and p.dtype != g.value.dtype:
                what = "a variable" if g.pointee else "an array"
                caller.refuse(node, f"the pointer {p.name!r} of {self.name}() is of "
                                    f"{p.dtype}, got {what} of {g.value.dtype}")

    @property
    def changes(self) -> bool:
        """Whether the call is more than a value."""
        return bool(self.references or self.changed) or self.result is None

    def _deduced(self, caller: Scope, node: Any, declared: Sequence[Any],
                 explicit: Sequence[Given]) -> dict[str, np.dtype]:
        """The dtypes of a template's parameters; its integers go to `numbers`."""
        names = self.unit.spelling.templates.get(self.name, {})
        if len(explicit) > len(names):
            caller.refuse(node, f"{self.name} takes {len(names)} template arguments, "
                                f"got {len(explicit)}")
        found: dict[str, np.dtype] = {}
        for (name, of), chosen in zip(names.items(), explicit, strict=False):
            if isinstance(chosen, Typed) == (of is None):
                caller.refuse(node, f"the template argument {name} of {self.name} is "
                                    f"{'a type' if of is None else 'an integer'}")
            if isinstance(chosen, Typed):
                self.numbers[name] = self._number(caller, node, name, of, chosen)
            else:
                found[name] = chosen
        fixed = {*found, *self.numbers}
        for d, g in zip(declared, self.given, strict=True):
            inner = d.type
            while kind(inner) in ("PtrDecl", "ArrayDecl", "TypeDecl"):
                inner = inner.type
            name = getattr(inner, "names", [""])[0]
            if name not in names or name in fixed:
                continue
            if found.setdefault(name, g.value.dtype) != g.value.dtype:
                caller.refuse(
                    node, f"{name} of {self.name}() is both {found[name]} and "
                          f"{g.value.dtype}; write {self.name}<T>(…), or cast")
        missing = [n for n in names if n not in found and n not in self.numbers]
        if missing:
            caller.refuse(
                node, f"{missing[0]} of {self.name}() cannot be told from the "
                      f"arguments; write {self.name}<{missing[0]}>(…)")
        return found

    def _number(self, caller: Scope, node: Any, name: str, of: str | None,
                chosen: Typed) -> Typed:
        """An integer that a template takes, in its type."""
        if chosen.number is None or chosen.dtype.kind not in "biu":
            caller.refuse(node, f"the template argument {name} of {self.name} must be "
                                "an integer that is known")
        return as_type(caller, node, chosen, caller.named_dtype(node, str(of)))

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
            elif p.dtype.names and isinstance(g.value.node, ast.Call):
                nodes += flat(self._kept(scope, g))
            else:
                nodes += flat(as_type(scope, node, g.value, p.dtype))
            if k in self.moved and g.array:
                nodes.append(call(INT64.name, g.array.place))
        return ast.Call(ast.Name(f".{key}", ast.Load()), nodes, [])

    def _kept(self, scope: Scope, given: Argument) -> Typed:
        """A variable of the struct that a function returns, to be passed on."""
        if scope.before is None:
            scope.refuse(given.node, "a struct that a function returns is passed on "
                                     "under a condition; declare a variable of it")
        kept = scope.declare(f"__{self.name.lstrip('_')}_given", given.value.dtype)
        scope.before.statements.append(ast.Assign([store(kept.name)], given.value.node))
        return Typed(ast.Name(kept.name, ast.Load()), kept.dtype)

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
            scope.refuse(node, f"{self.name}() returns nothing; call it in a statement "
                               "of its own")
        found = self.call(scope, node)
        if self.result.names is not None:
            if any(self.result[n].names for n in self.result.names):
                scope.refuse(node, f"{self.name}() returns a struct that holds a "
                                   "struct; return its members in one")
            if len(self.result.names) == 1:
                found = ast.Tuple([found], ast.Load())
        return Typed(found, self.result)

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
        statements, targets = [], list[ast.expr]()
        for v in found:
            parts = leaf_names(scope, v)
            targets += map(store, parts)
            if v.dtype.names:
                statements.append(ast.Assign([store(v.name)],
                                             from_names(v.dtype, parts)))
        target = ast.Tuple(targets, ast.Store()) if len(targets) > 1 else targets[0]
        statements.insert(0, ast.Assign([target], taken))
        return Effects(statements + self._stored(scope, node, found), None
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
            if has_atomics(target, self.unit.changes):
                scope.refuse(node, "an atomic function in the index of a reference is "
                                   "not understood here; store its value first")
            if kind(target) not in ("ID", "ArrayRef", "StructRef") and not (
                    kind(target) == "UnaryOp" and target.op == "*"):
                scope.refuse(node, f"the reference {self.params[k].name!r} takes a "
                                   "variable or an element")
            if given.dtype != v.dtype:
                scope.refuse(node, f"the reference {self.params[k].name!r} is of "
                                   f"{v.dtype}, got {given.dtype}")
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
            self.unit.refuse(self.target, f"{self.name}() returns a value, or is void "
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
                              self.source, self.unit.outside)
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
            self.scope.refuse(self.target, f"{self.name}() ends without a value after "
                                           "a goto; return one")
        if self.result is not None:
            value = as_type(self.scope, node, self.scope.value(node.expr), self.result)
            if value.dtype.names and isinstance(value.node, ast.Call):
                if changed:
                    self.scope.refuse(node, f"{self.name}() changes its arguments and "
                                            "returns the struct of a call; store it in "
                                            "a variable first")
                return [ast.Return(value.node)]  # the parts as a function gave them
            found = flat(value)
        for v in changed:
            found += flat(Typed(ast.Name(v.name, ast.Load()), v.dtype)) \
                if v.kind != "local" else [
                subscript(v.name, constant(j), ast.Load()) for j in range(v.shape[0])]
        if len(found) > 1:
            return [ast.Return(ast.Tuple(found, ast.Load()))]
        return [ast.Return(found[0] if found else None)]

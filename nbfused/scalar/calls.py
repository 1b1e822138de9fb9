"""Calls: operations, functions copied in, functions with rules, special forms."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Signature
from types import FunctionType
from typing import Any

from .builtin_forms import form_of, known_sequence
from .closures import Closure, Outside, signature_of
from .custom import Rules, recursive_call
from .ir import Function, Literal, Value, at_line, literal
from .names import Names
from .preferences import stamped
from .resolve import (
    RAW,
    Operation,
    apply,
    function_of,
    operation,
    python_function,
    signature,
)
from .static import literal_parameters
from .structure import Array, Local, Values, leaves, rebuild
from .words import ALLOWED

__all__ = ["Calls"]


class Calls(Names):
    """Writes calls; what functions return inside is written by the subclass."""

    def inline(self, node: ast.AST, pyfunc: FunctionType,
               arguments: Mapping[str, Values]) -> Values:
        """What a Python function returns, written here with these arguments."""
        raise NotImplementedError

    def enclosed(self, node: ast.AST, closure: Closure,
                 arguments: Mapping[str, Values]) -> Values:
        """What a function of this function's returns, written here."""
        raise NotImplementedError

    def call(self, node: ast.Call, stem: str) -> Values:
        """A method of an array, an operation, or a scalar function copied in."""
        owner = self.owner(node.func)
        target = self.callee(node.func) if owner is None else None
        form = form_of(target, node)
        if form is not None:
            return form[0](self, node, form[1], stem)
        args, keywords = self.arguments(node)
        if owner is not None:
            if keywords:
                raise self.error(node, f"{ast.unparse(node.func)}() takes no keywords")
            name = node.func.attr  # type: ignore[attr-defined]
            return self.method(node, owner, name, list(args), stem)
        op = operation(target)
        if target is not None and getattr(target, "__nbfused_higher__", False):
            return Outside(target(*(self.static(node, a) for a in args), **{
                k: self.static(node, v) for k, v in keywords.items()}))
        if isinstance(target, Closure):
            return self.enclosed(node, target, self.checked(node, lambda: _bound(
                signature_of(target), args, keywords)))
        if op is None:
            return self.call_function(node, target, args, keywords)
        if keywords:
            raise self.error(node, f"{ast.unparse(node.func)}() takes no keywords in a "
                                   "scalar function")
        values = self.operands(node, op, args)
        return self.checked(node, lambda: apply(self.emitter, op, values, stem=stem))

    def operands(self, node: ast.Call, op: Operation,
                 args: Sequence[Values]) -> tuple[Value, ...]:
        """The operands of an operation, an index that is a tuple taken apart."""
        if op.op in RAW and args and self.is_array(args[0]):
            index = self.checked_index(node, args[0], tuple(
                args[1:] if op.op == "load" else args[1:-1]))
            value = () if op.op == "load" else (self.number(node, args[-1]),)
            return (args[0], *index, *value)
        return tuple(self.number(node, a) for a in args)

    def call_function(self, node: ast.Call, target: Any, args: tuple[Values, ...],
                      keywords: dict[str, Values]) -> Values:
        """The results of a scalar function."""
        pyfunc = python_function(target)
        inline = any(map(self.structured, (*args, *keywords.values()))) or bool(
            pyfunc and literal_parameters(pyfunc))
        function = None if pyfunc and inline else \
            recursive_call(target, None) or function_of(target)
        if pyfunc is None and function is None:
            raise self.error(node, f"{ast.unparse(node.func)}() is not part of the "
                                   f"scalar language. {ALLOWED}")
        bound = self.checked(node, lambda: self.matched(node, target, args, keywords))
        if inline or recursive_call(target, None):
            for p in getattr(target, "nondiff", ()):
                bound[p] = self.constant_for_derivatives(bound[p])
        if pyfunc is not None and inline:
            self.check_literals(node, pyfunc, bound)
            if isinstance(getattr(target, "rules", None), Rules) and target.rules:
                return self.ruled(target, bound)
            return self.written(node, target, pyfunc, bound)
        values = [v if self.is_array(v) else self.number(node, v)
                  for v in bound.values()]
        return self.called(function or self.parse(target), values)

    def written(self, node: ast.Call, target: Any, pyfunc: FunctionType,
                arguments: Mapping[str, Values]) -> Values:
        """The function written here, with its own preference of what loops record."""
        start = len(self.emitter.statements)
        found = self.inline(node, pyfunc, arguments)
        self.emitter.statements[start:] = stamped(
            self.emitter.statements[start:], getattr(target, "prefer", ""))
        return found

    def constant_for_derivatives(self, values: Values) -> Values:
        """The same numbers; arrays and functions as they are."""
        if isinstance(values, tuple):
            return rebuild(values, map(self.constant_for_derivatives, values))
        if not isinstance(values, str) or self.is_array(values):
            return values
        return self.emitter.emit("detach", values)

    def ruled(self, target: Any, arguments: Mapping[str, Values]) -> Values:
        """A call of a function that has derivative rules of its own."""
        literals = literal_parameters(target.pyfunc)
        given = {p: v if p in literals else self.template(v)
                 for p, v in arguments.items()}
        values = [v for p in arguments if p not in literals
                  for v in leaves(arguments[p])]
        function = recursive_call(target, given) or self.parse(target, parameters=given)
        return self.called(function, values)

    def template(self, values: Values) -> Any:
        """What `parse` has to know of an argument."""
        if isinstance(values, tuple):
            return rebuild(values, map(self.template, values))
        return Array(self.arrays[values]) if self.is_array(values) else None

    def called(self, function: Function, values: Sequence[Value]) -> Values:
        """A call of a function that is parsed: one value, or a tuple."""
        if function.pyfile != self.source.file:
            function = replace(function, body=at_line(function.body, self.emitter.line))
        results = self.emitter.call(function, *values)
        return results[0] if len(results) == 1 else results

    def check_literals(self, node: ast.Call, pyfunc: FunctionType,
                       arguments: Mapping[str, Values]) -> None:
        """The arguments of `nf.literal` parameters have to be known."""
        for name in literal_parameters(pyfunc):
            if not all(isinstance(v, Literal) for v in leaves(arguments[name])):
                raise self.error(node, f"{ast.unparse(node.func)}(): {name!r} is an "
                                       "nf.literal, so it takes a number that is known "
                                       "when the function is parsed")

    def structured(self, values: Values) -> bool:
        """Whether a function has to be parsed for this argument: it is no number."""
        return not isinstance(values, (str, Literal)) or \
            self.arrays.get(str(values)) is not None

    def arguments(self,
                  node: ast.Call) -> tuple[tuple[Values, ...], dict[str, Values]]:
        """Positional and keyword arguments."""
        if any(k.arg is None for k in node.keywords):
            raise self.error(node, "**kwargs are not part of the scalar language; "
                                   "write the arguments out")
        given = ast.copy_location(ast.Tuple(node.args, ast.Load()), node)
        return (self.packed(given, "t"),
                {str(k.arg): self.values(k.value) for k in node.keywords})

    def matched(self, node: ast.Call, target: Any, args: tuple[Values, ...],
                keywords: dict[str, Values]) -> dict[str, Values]:
        """The arguments in the order of the parameters, defaults filled in."""
        expected = signature(target)
        given = expected.bind(*args, **keywords).arguments
        return {p: given[p] if p in given else self.frozen(node, v, f"default of {p}")
                for p, v in _bound(expected, args, keywords).items()}

    def checked(self, node: ast.Call, act: Callable[[], Any]) -> Any:
        """``act()``, with a wrong number of arguments reported at `node`."""
        try:
            return act()
        except TypeError as error:
            raise self.error(node, f"{ast.unparse(node.func)}(): {error}") from None


    def packed(self, node: ast.Tuple | ast.List, stem: str) -> Values:
        """A tuple; a list is a local array."""
        parts: list[Values] = []
        for e in node.elts:
            parts += known_sequence(self, e.value) if isinstance(e, ast.Starred) else \
                [self.values(e)]
        return tuple(parts) if isinstance(node, ast.Tuple) else Local(parts)

    def listed(self, node: ast.ListComp, stem: str) -> Values:
        """A comprehension over what is known."""
        return Local(known_sequence(self, node))

    def comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> list[Values]:
        """The items of a comprehension."""
        if len(node.generators) != 1 or node.generators[0].ifs:
            raise self.error(node, "a comprehension has one for and no if here")
        (each,), items, outer = node.generators, [], dict(self.env)
        for item in known_sequence(self, each.iter):
            self.bind(each.target, item)
            items.append(self.values(node.elt))
        self.env.clear()
        self.env.update(outer)
        return items

    def bind(self, target: ast.expr, values: Values) -> None:
        """Assign `values` to a name, an element, or a tuple of these."""
        raise NotImplementedError

    def bounds(self, call: ast.Call) -> tuple[Value, Value, Value]:
        """Start, stop and step of ``range(...)``."""
        args, keywords = self.arguments(call)
        if keywords or not 1 <= len(args) <= 3:
            raise self.error(call, f"range() takes 1 to 3 integers, got {len(args)}")
        if any(isinstance(a, Literal) and a.kind not in ("int", "bool") for a in args):
            raise self.error(call, "range() takes integers")
        start, stop, *step = (self.number(call, a) for a in (
            (literal(0), *args) if len(args) == 1 else args))
        return start, stop, step[0] if step else literal(1)


def _bound(expected: Signature, args: tuple[Values, ...],
           keywords: Mapping[str, Values]) -> dict[str, Any]:
    """The arguments by parameter, in order; `TypeError` where they do not fit."""
    found = expected.bind(*args, **keywords)
    found.apply_defaults()
    return dict(found.arguments)

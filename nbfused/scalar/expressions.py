"""Expressions of the scalar language, from a Python syntax tree to statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import Signature
from types import FunctionType
from typing import Any

from .builtin_forms import form_of, known_sequence
from .closures import Closure, Outside, signature_of
from .elements import Elements
from .emit import Emitter
from .ir import Function, Literal, Value, literal
from .resolve import (
    RAW,
    Operation,
    apply,
    freeze,
    function_of,
    operation,
    python_function,
    signature,
)
from .source import Source
from .static import literal_parameters
from .structure import Array, Local, Struct, Values, leaves, rebuild

__all__ = ["ALLOWED", "Expressions", "words"]

ALLOWED = ("Allowed are arithmetic, comparisons, and/or/not, if and else, for over "
           "range(...), while, assignments to names and elements, tuples, return, and "
           "calls of math, numpy, nbfused and of your own scalar functions.")

_BINARY: Mapping[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div",
    ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}
_UNARY: Mapping[type[ast.unaryop], str] = {
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}
_COMPARISON: Mapping[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}
_PARTS = {"real": "real", "imag": "imag"}


class Expressions(Elements):
    """Turns expressions into statements of `emitter`.

    Parameters
    ----------
    source
        For messages.
    emitter
        Where statements go.
    arrays
        The ranks of arrays.
    outside
        What the names stand for that the function does not assign.
    parse
        Gives the scalar function of a Python function.
    """

    def __init__(self, source: Source, emitter: Emitter, arrays: dict[str, int | None],
                 outside: Mapping[str, Any],
                 parse: Callable[..., Function]) -> None:
        super().__init__(source, emitter, arrays)
        self.outside, self.parse = outside, parse
        self.assigned: set[str] = set()

    def inline(self, node: ast.AST, pyfunc: FunctionType,
               arguments: Mapping[str, Values]) -> Values:
        """What a Python function returns, written here with these arguments."""
        raise NotImplementedError

    def enclosed(self, node: ast.AST, closure: Closure,
                 arguments: Mapping[str, Values]) -> Values:
        """What a function of this function's returns, written here."""
        raise NotImplementedError

    def closure(self, node: ast.Lambda, stem: str) -> Values:
        """A lambda."""
        raise NotImplementedError

    def values(self, node: ast.expr, stem: str = "t") -> Values:
        """The value of `node`, or a tuple."""
        self.emitter.line = node.lineno
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self.error(node, f"{words(node)} is not part of the scalar "
                                   f"language. {ALLOWED}")
        return handler(self, node, stem)

    def value(self, node: ast.expr, stem: str = "t") -> Value:
        """The value of `node`, which must be a single one."""
        return self.number(node, self.values(node, stem))

    def condition(self, node: ast.expr) -> Value:
        """The truth of `node`, as ``if`` sees it."""
        return self.emitter.truth(self.value(node))

    def constant(self, node: ast.Constant, stem: str) -> Values:
        """A number in the source."""
        if node.value is None:
            raise self.error(node, "None is no number; write 0.0 in a rule for an "
                                   "argument without a derivative")
        if type(node.value) not in (bool, int, float, complex):
            raise self.error(node, f"{node.value!r} is not a number. {ALLOWED}")
        return literal(node.value)  # type: ignore[arg-type]

    def name(self, node: ast.Name, stem: str) -> Values:
        """A variable, or a number from outside."""
        if node.id in self.env:
            return self.env[node.id]
        if node.id in self.assigned:
            raise self.error(node, f"{node.id!r} is not assigned on every path that "
                                   "leads here; assign it before the branch or loop")
        return self.frozen(node, self.resolved(node), node.id)

    def frozen(self, node: ast.expr, target: Any, name: str) -> Values:
        """A number from outside; it is part of the function from now on."""
        position = getattr(target, "__nbfused_thread__", None)
        if position is not None:
            return self.thread(position)
        number = freeze(target)
        if number is None and (python_function(target) or operation(target)
                               or function_of(target)):
            return Outside(target)
        if number is None:
            raise self.error(node, f"{name!r} is a {type(target).__name__}; from "
                                   "outside, a scalar function can use numbers, tuples "
                                   "of numbers, and functions in calls. Pass anything "
                                   "else as an argument")
        return number

    def resolved(self, node: ast.expr) -> Any:
        """The Python object that a name or a dotted name outside stands for."""
        if isinstance(node, ast.Attribute):
            owner = self.resolved(node.value)
            if not hasattr(owner, node.attr):
                raise self.error(node, f"{ast.unparse(node.value)!r} has no attribute "
                                       f"{node.attr!r}")
            return getattr(owner, node.attr)
        if not isinstance(node, ast.Name):
            raise self.error(node, f"only a function's name can be called. {ALLOWED}")
        if node.id in self.env or node.id in self.assigned:
            raise self.error(node, f"{node.id!r} is a number here, not a function or "
                                   "module")
        try:
            return self.outside[node.id]
        except KeyError:
            raise self.error(node, f"name {node.id!r} is not defined") from None

    def attribute(self, node: ast.Attribute, stem: str) -> Values:
        """What is outside by its dotted name, or a part of what is at hand."""
        root: ast.expr = node
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name) and root.id not in self.env:
            return self.frozen(node, self.resolved(node), ast.unparse(node))
        owner = self.values(node.value)
        if isinstance(owner, Struct):
            return owner[self.field(node, owner, node.attr)]
        if node.attr in _PARTS:
            return self.emitter.emit(node.attr, self.number(node, owner), stem=stem)
        if self.is_array(owner) and (node.attr == "shape" or self.arrays[owner] is not
                                     None):
            return self.array_property(node, owner)
        what = "a tuple has no attribute" if isinstance(owner, tuple) else \
            "a number has no attribute"
        raise self.error(node, f"{what} {node.attr!r} here; a complex number has real "
                               "and imag, an array has shape, size and ndim")

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

    def binary(self, node: ast.BinOp, stem: str) -> Values:
        """An operator with two operands."""
        return self.operate(node, self.value(node.left), self.value(node.right), stem)

    def operate(self, node: ast.BinOp | ast.AugAssign, left: Value, right: Value,
                stem: str) -> Values:
        """``left op right``."""
        op = _BINARY.get(type(node.op))
        if op is None:
            raise self.error(node, f"the operator {words(node.op)} is not part of the "
                                   f"scalar language. {ALLOWED}")
        return apply(self.emitter, Operation(op), (left, right), stem=stem)

    def unary(self, node: ast.UnaryOp, stem: str) -> Values:
        """A sign, ``~`` or ``not``."""
        if isinstance(node.op, ast.Not):
            return self.emitter.emit("logical_not", self.condition(node.operand),
                                     stem=stem)
        target = Operation(_UNARY[type(node.op)])
        return apply(self.emitter, target, (self.value(node.operand),), stem=stem)

    def comparison(self, node: ast.Compare, stem: str) -> Values:
        """``a < b < c`` is ``a < b and b < c`` with `b` computed once."""
        left = self.value(node.left)
        found: Value | None = None
        for op, right in zip(node.ops, node.comparators, strict=True):
            name = _COMPARISON.get(type(op))
            if name is None:
                raise self.error(node, f"{words(op)} is not part of the scalar "
                                       "language; compare with < <= > >= == !=")
            shared: list[Value] = [left]

            def compare(name: str = name, right: ast.expr = right,
                        shared: list[Value] = shared) -> Value:
                shared.append(self.value(right))
                return self.emitter.emit(name, *shared)

            found = compare() if found is None else self.both(ast.And(), found, compare)
            if len(shared) == 1:  # already false: the rest is never computed
                break
            left = shared[1]
        assert found is not None
        return found

    def boolean(self, node: ast.BoolOp, stem: str) -> Values:
        """``and`` and ``or``: an operand, as in Python."""
        found = self.value(node.values[0])
        for other in node.values[1:]:
            found = self.both(node.op, found, partial(self.value, other))
        return found

    def ternary(self, node: ast.IfExp, stem: str) -> Values:
        """``a if c else b``: a branch."""
        truth = self.condition(node.test)
        if isinstance(truth, Literal):
            return self.values(node.body if truth.value else node.orelse, stem)
        with self.branch() as (then, _):
            a = self.values(node.body)
        with self.branch() as (orelse, _):
            b = self.values(node.orelse)
        (merged,) = self.merge(node, truth, (then, orelse), {stem: (a, b)})
        return merged

    def thread(self, name: str) -> Value:
        """Where this thread is."""
        return self.emitter.emit("thread", attr=name, stem=name.replace(".", "_"))

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

    def callee(self, node: ast.expr) -> Any:
        """What is called: a function of this function's, or a Python object."""
        found = self.env.get(node.id) if isinstance(node, ast.Name) else \
            self.values(node) if isinstance(node, (ast.Lambda, ast.Subscript)) else None
        if isinstance(found, Outside):
            return found.target
        return found if isinstance(found, Closure) else self.resolved(node)

    def owner(self, node: ast.expr) -> Values | None:
        """What ``owner.method`` belongs to, where that is a value of the function."""
        root = node
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(node, ast.Attribute) and isinstance(root, ast.Name) and \
                root.id in self.env:
            return self.values(node.value)
        return None

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
        function = None if pyfunc and inline else function_of(target)
        if pyfunc is None and function is None:
            raise self.error(node, f"{ast.unparse(node.func)}() is not part of the "
                                   f"scalar language. {ALLOWED}")
        bound = self.checked(node, lambda: self.matched(node, target, args, keywords))
        if pyfunc is not None and inline:
            self.check_literals(node, pyfunc, bound)
            if getattr(target, "rules", None):
                return self.ruled(target, bound)
            return self.inline(node, pyfunc, bound)
        values = [v if self.is_array(v) else self.number(node, v)
                  for v in bound.values()]
        return self.called(function or self.parse(target), values)

    def ruled(self, target: Any, arguments: Mapping[str, Values]) -> Values:
        """A call of a function that has derivative rules of its own."""
        literals = literal_parameters(target.pyfunc)
        given = {p: v if p in literals else self.template(v)
                 for p, v in arguments.items()}
        values = [v for p in arguments if p not in literals
                  for v in leaves(arguments[p])]
        return self.called(self.parse(target, parameters=given), values)

    def template(self, values: Values) -> Any:
        """What `parse` has to know of an argument."""
        if isinstance(values, tuple):
            return rebuild(values, map(self.template, values))
        return Array(self.arrays[values]) if self.is_array(values) else None

    def called(self, function: Function, values: Sequence[Value]) -> Values:
        """A call of a function that is parsed: one value, or a tuple."""
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


def _bound(expected: Signature, args: tuple[Values, ...],
           keywords: Mapping[str, Values]) -> dict[str, Any]:
    """The arguments by parameter, in order; `TypeError` where they do not fit."""
    found = expected.bind(*args, **keywords)
    found.apply_defaults()
    return dict(found.arguments)


def words(node: ast.AST) -> str:
    """The kind of `node` as one writes it in a message."""
    return _WORDS.get(type(node).__name__, type(node).__name__)


_WORDS = {
    "Dict": "a dict",
    "Set": "a set", "JoinedStr": "an f-string", "ListComp": "a comprehension",
    "GeneratorExp": "a generator", "NamedExpr": "the operator :=", "Await": "await",
    "Yield": "yield", "Starred": "*unpacking", "MatMult": "@", "In": "in",
    "NotIn": "not in", "Is": "is", "IsNot": "is not", "Try": "try", "With": "with",
    "Raise": "raise", "Assert": "assert", "Delete": "del", "Import": "import",
    "ImportFrom": "import", "Global": "global", "Nonlocal": "nonlocal",
    "ClassDef": "a class", "FunctionDef": "a function inside the function",
    "Match": "match", "AsyncFunctionDef": "async", "DictComp": "a comprehension",
    "SetComp": "a comprehension", "Slice": "a slice",
}

_HANDLERS: dict[type[ast.expr], Callable[..., Values]] = {
    ast.Constant: Expressions.constant, ast.Name: Expressions.name,
    ast.Attribute: Expressions.attribute, ast.Tuple: Expressions.packed,
    ast.BinOp: Expressions.binary, ast.UnaryOp: Expressions.unary,
    ast.Compare: Expressions.comparison, ast.BoolOp: Expressions.boolean,
    ast.IfExp: Expressions.ternary, ast.Subscript: Expressions.subscript,
    ast.Call: Expressions.call, ast.List: Expressions.packed,
    ast.ListComp: Expressions.listed,
    ast.Lambda: lambda self, node, stem: self.closure(node, stem),
}

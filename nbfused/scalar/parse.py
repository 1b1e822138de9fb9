"""From a Python function to the intermediate representation.

Jumps are normalised away first (`jumps`), then statements become regions that yield
what they assign.  Calls are inlined.  The same source gives an equal `Function`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from types import CodeType
from typing import Any

from ..errors import KernelTypeError, ScalarSyntaxError
from .branches import Values, leaves
from .clean import clean
from .emit import Emitter
from .expressions import ALLOWED, words
from .ir import Block, Function, Literal
from .jumps import RESULT, Loop, TooManyPaths, assigned, normalise
from .loops import UNSET, Loops
from .resolve import Operation, Vocabulary, apply, arity, function_of, operation
from .source import Definition, Source, definition, namespace, parameters
from .trace import trace

__all__ = ["parse", "parse_definition", "parse_expression"]

#: The functions that are being parsed, callers first.
_OPEN: ContextVar[tuple[CodeType, ...]] = ContextVar("open", default=())


def parse(pyfunc: Any, *, environment: Mapping[str, Any] | None = None) -> Function:
    """The scalar function that `pyfunc` is.

    Parameters
    ----------
    pyfunc : callable
        A Python function or lambda; an operation (`math.sqrt`, `numpy.exp`,
        ``nf.sigmoid``); an object whose `function` is a scalar function.  Where the
        source is not available, a Python function is traced.
    environment : mapping, optional
        What further names stand for: SSA names (strings) and literals, tuples of
        them, or objects to call.

    Returns
    -------
    Function
        Its parameters have the names of `pyfunc`'s.

    Raises
    ------
    ScalarSyntaxError
        The function uses Python that the scalar language does not have.
    """
    op = operation(pyfunc)
    if op is not None:
        return _wrapper(op)
    return function_of(pyfunc) or _parse(pyfunc, environment or {})


def parse_definition(text: str) -> Function:
    """The scalar function of a ``def`` given as text; names are the vocabulary's."""
    text = textwrap.dedent(text).strip()
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    found = Definition(node.name, node, Source(f"<definition of {node.name}>", text))
    return _lower(found, Vocabulary(), {})


def parse_expression(text: str, params: Sequence[str]) -> Function:
    """The scalar function of one expression in `params` and the vocabulary."""
    return parse_definition(f"def expression({', '.join(params)}): return {text}")


def _wrapper(op: Operation) -> Function:
    """A function that is one operation of its parameters."""
    params = ("x", "y", "z", "w")[:arity(op.op)]
    emitter = Emitter(params)
    result = apply(emitter, op, params)
    return Function(op.attr or op.op, params,
                    Block(tuple(emitter.statements), tuple(leaves(result))))


def _parse(pyfunc: Any, environment: Mapping[str, Any]) -> Function:
    """Parse a Python function, or trace it where it has no source."""
    try:
        found = definition(pyfunc)
    except (OSError, TypeError):
        return trace(pyfunc, _parameters(pyfunc))
    code, callers = pyfunc.__code__, _OPEN.get()
    if code in callers:
        raise found.source.error(found.node, f"{found.name} calls itself; recursion is "
                                             "not part of the scalar language, use a "
                                             "loop")
    values = {n: v for n, v in environment.items() if _is_value(v)}
    objects = {n: v for n, v in environment.items() if n not in values}
    outside = ChainMap(objects, namespace(pyfunc))
    token = _OPEN.set((*callers, code))
    try:
        return _lower(found, outside, values)
    finally:
        _OPEN.reset(token)


def _parameters(pyfunc: Any) -> list[str]:
    """The names of the parameters of what has no source."""
    try:
        found = inspect.signature(pyfunc).parameters.values()
    except (TypeError, ValueError):
        raise KernelTypeError(f"expected a function of numbers, got {pyfunc!r}; write "
                              "one, or use a function of math, numpy or nbfused"
                              ) from None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in found):
        raise ScalarSyntaxError(f"{pyfunc!r}: *args and **kwargs are not part of the "
                                "scalar language; name the parameters")
    return [p.name for p in found]


def _is_value(target: Any) -> bool:
    if isinstance(target, tuple):
        return all(_is_value(t) for t in target)
    return isinstance(target, (str, Literal))


def _lower(found: Definition, outside: Mapping[str, Any],
           values: Mapping[str, Values]) -> Function:
    """The function of a definition whose tree is at hand."""
    node, params = found.node, tuple(parameters(found.node))
    taken = {v for v in leaves(tuple(values.values())) if isinstance(v, str)}
    body = _Body(found.source, Emitter((*params, *taken)), outside, parse)
    if node.args.vararg or node.args.kwarg:
        raise body.error(node, "*args and **kwargs are not part of the scalar "
                               "language; name the parameters")
    body.env.update(values)
    body.env.update({p: p for p in params})
    body.skipped = frozenset(values)
    results = body.function(node)
    block = Block(tuple(body.emitter.statements), tuple(results))
    return clean(Function(found.name, params, block, found.source.file, node.lineno))


class _Body(Loops):
    """The statements of one function."""

    skipped: frozenset[str] = frozenset()

    def function(self, node: ast.FunctionDef | ast.Lambda) -> list[Any]:
        """Write the function; its results."""
        if isinstance(node, ast.Lambda):
            body: list[ast.stmt] = [ast.copy_location(ast.Return(node.body), node.body)]
        else:
            body = node.body
        try:
            normal = normalise(body)
        except TooManyPaths:
            raise self.error(node, "too many early exits inside one another; join the "
                                   "conditions or split the function") from None
        self.assigned = assigned(normal) - self.skipped
        self.run(normal)
        results = self.env[RESULT]
        for r in results if isinstance(results, tuple) else ():
            if isinstance(r, tuple):
                raise self.error(node, "a returned tuple must not hold a tuple; "
                                       "return a flat one")
        return leaves(results)

    def run(self, body: Sequence[ast.stmt]) -> None:
        for s in body:
            self.emitter.line = s.lineno
            handler = _STATEMENTS.get(type(s))
            if handler is None:
                raise self.error(s, f"{words(s)} is not part of the scalar language. "
                                    f"{ALLOWED}")
            handler(self, s)

    def assign(self, s: ast.Assign) -> None:
        first = s.targets[0]
        stem = first.id if isinstance(first, ast.Name) else "t"
        values = self.values(s.value, stem)
        if values == () and stem != RESULT:
            raise self.error(s, "the call gives no result to assign")
        for target in s.targets:
            self.bind(target, values)

    def annotated(self, s: ast.AnnAssign) -> None:
        if s.value is not None:
            self.assign(ast.copy_location(ast.Assign([s.target], s.value), s))

    def augmented(self, s: ast.AugAssign) -> None:
        if not isinstance(s.target, ast.Name):
            raise self.error(s, _NO_STORE)
        read = ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target)
        value = ast.copy_location(ast.BinOp(read, s.op, s.value), s)
        self.bind(s.target, self.values(value, s.target.id))

    def bind(self, target: ast.expr, values: Values) -> None:
        """Assign `values` to a name or a tuple of names."""
        if isinstance(target, ast.Name):
            self.env[target.id] = values
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.error(target, _NO_STORE)
        names = target.elts
        if not isinstance(values, tuple) or len(values) != len(names):
            got = f"tuple of {len(values)}" if isinstance(values, tuple) else "number"
            raise self.error(target, f"cannot unpack a {got} into {len(names)} names")
        for part, value in zip(names, values, strict=True):
            self.bind(part, value)

    def expression(self, s: ast.Expr) -> None:
        if not isinstance(s.value, ast.Constant):  # a docstring
            self.values(s.value)

    def nothing(self, s: ast.Pass) -> None:
        """``pass``."""

    def inner(self, s: ast.FunctionDef) -> None:
        """A function whose name the environment gives a meaning: a stage."""
        if s.name not in self.skipped:
            raise self.error(s, f"{words(s)} is not part of the scalar language; move "
                                f"{s.name} out")

    def conditional(self, s: ast.If) -> None:
        truth = self.condition(s.test)
        if isinstance(truth, Literal):
            return self.run(s.body if truth.value else s.orelse)
        with self.branch() as (then, a):
            self.run(s.body)
        with self.branch() as (orelse, b):
            self.run(s.orelse)
        for one, other in ((a, b), (b, a)):
            if RESULT in one:  # not read where it is unset: a flag or the end says so
                other.setdefault(RESULT, _unset(one[RESULT]))
        names = sorted(set(a) & set(b))
        merged = self.merge(s, truth, (then, orelse), {n: (a[n], b[n]) for n in names})
        self.env.clear()
        self.env.update(zip(names, merged, strict=True))
        return None

    def mismatch(self, name: str, a: Values, b: Values) -> str:
        if name == RESULT:
            name = "return"
            if a == () or b == ():
                return ("some paths return a value and others do not; end every path "
                        "with a return")
        return super().mismatch(name, a, b)


def _unset(values: Values) -> Values:
    return tuple(_unset(v) for v in values) if isinstance(values, tuple) else UNSET


_NO_STORE = ("only names and tuples of names are assigned; to add to an element of an "
             "array use nf.atomic_add(array, index, value)")

_STATEMENTS: dict[type[ast.stmt], Callable[..., None]] = {
    ast.Assign: _Body.assign, ast.AnnAssign: _Body.annotated,
    ast.AugAssign: _Body.augmented, ast.Expr: _Body.expression, ast.Pass: _Body.nothing,
    ast.If: _Body.conditional, ast.FunctionDef: _Body.inner, Loop: Loops.loop,
}

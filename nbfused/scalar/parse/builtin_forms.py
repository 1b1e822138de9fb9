"""Calls of Python's builtins, and of nbfused's forms, that take more than numbers."""

from __future__ import annotations

import ast
from functools import partial, reduce
from typing import Any

import numpy as np

from ..ir.nodes import Literal, Value, literal
from ..source.buffers import buffer, count
from ..source.resolve import Operation, apply
from ..source.structure import Local, Records, Values, leaves
from .branches import short_circuit
from .composite.parts import Part, shape_of
from .composite.vectors import composite_form
from .elements import MOST_ELEMENTS
from .forms import FORMS, Form
from .scope import Scope
from .sequences import (
    call_errors,
    only_argument,
    parse_arguments,
    positional,
    static_items,
    static_shape,
)

__all__ = ["form_of"]


def form_of(target: Any, node: ast.Call) -> tuple[Form, str] | None:
    """The form of a call of the Python object `target`, if that is special."""
    name = getattr(target, "__nbfused_form__", None)
    if isinstance(name, str):
        return FORMS.get(name) or _STATIC[name], target.attr
    if target is float and _texts(node):
        return _float_of_text, ""
    hashable = getattr(type(target), "__hash__", None) is not None
    found = _BUILTINS.get(target) if hashable else None
    several = len(node.args) != 1 or isinstance(node.args[0], ast.Starred)
    if found is not None and target in _EXTREMES and several:
        return None  # an operation
    return None if found is None else (found, "")


def _texts(node: ast.Call) -> bool:
    """Whether a call takes one text and nothing else."""
    return len(node.args) == 1 and not node.keywords and \
        isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)


def _float_of_text(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    """``float("inf")``, a number as Python reads it."""
    text = ast.literal_eval(node.args[0])
    try:
        return literal(float(text))
    except ValueError:
        raise scope.error(node, f"float() of {text!r} is no number; expected digits, "
                                "'inf', '-inf' or 'nan'") from None


def _len(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (values,) = positional(scope, node, 1)
    if isinstance(values, Records):
        values = values[0]
    if isinstance(values, tuple):
        return literal(len(values))
    if isinstance(values, Part):
        return shape_of(scope, values)[0]
    if scope.is_array(values):
        return scope.emitter.emit("extent", values, attr="0", stem=stem)
    raise scope.error(node, "len() takes a tuple, a local array or an array, got "
                            f"{scope.describe(values)}")


def _sum(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    if not 1 <= len(node.args) <= 2 or node.keywords:
        raise scope.error(node, "sum() takes an iterable and a start")
    start = scope.value(node.args[1]) if len(node.args) == 2 else literal(0)
    items = [scope.number(node, v) for v in static_items(scope, node.args[0])]
    if items and start == literal(0):
        start, *items = items
    return reduce(lambda a, b: scope.emitter.emit("add", a, b, stem=stem), items, start)


def _extremum(op: str) -> Form:
    """The least or the greatest item of one iterable."""

    def form(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
        iterable = static_items(scope, only_argument(scope, node))
        items = tuple(scope.number(node, v) for v in iterable)
        if len(items) == 1:
            return items[0]
        with call_errors(scope, node):
            return apply(scope.emitter, Operation(op), items, stem=stem)

    return form


def _same(value: Value) -> Value:
    return value


def _logical(op: ast.boolop, empty: bool) -> Form:
    """The truth of all, or of any, of some numbers."""

    def form(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
        found: Value = literal(empty)
        for v in static_items(scope, only_argument(scope, node)):
            truth = scope.emitter.truth(scope.number(node, v))
            found = short_circuit(scope, op, found, partial(_same, truth))
        return found

    return form


def _tuple(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    return tuple(static_items(scope, only_argument(scope, node))) if node.args else ()


def _list(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    return Local(static_items(scope, only_argument(scope, node)))


def _divmod(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    a, b = (scope.number(node, v) for v in positional(scope, node, 2))
    return scope.emitter.emit("floordiv", a, b), scope.emitter.emit("mod", a, b)


def _angle(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    """The argument of a complex number."""
    (value,) = positional(scope, node, 1)
    z = scope.number(node, value)
    return scope.emitter.emit("atan2", scope.emitter.emit("imag", z),
                              scope.emitter.emit("real", z), stem=stem)


def _print(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    raise scope.error(node, "print() is not part of the scalar language; store what "
                            "you want to see into an array, or call the function as "
                            "plain Python, f.pyfunc(...)")


def _allocation(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    raise scope.error(node, f"{ast.unparse(node.func)}() makes an array, which a "
                            "scalar function cannot; use nf.local(n) for a small array "
                            "of its own")


def _loop_only(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    raise scope.error(node, f"{ast.unparse(node.func)}() is what a for loop goes over")


def _buffer(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    size, *zeros = positional(scope, node, 1, 2)
    name = scope.emitter.let("buffer", scope.number(node, size), stem=stem,
                             attr="zeros" if zeros == [literal(True)] else None)
    scope.arrays[name] = 1
    scope.emitter.buffers.add(name)
    return name


def _count(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (value,) = positional(scope, node, 1)
    return scope.emitter.emit("index", scope.number(node, value), stem=stem)


#: As they were: `torch.export` puts others in their places while it traces.
_EXTREMES = (min, max)

_BUILTINS: dict[Any, Form] = {
    len: _len, sum: _sum, min: _extremum("min"), max: _extremum("max"),
    all: _logical(ast.And(), True), any: _logical(ast.Or(), False), tuple: _tuple,
    list: _list, divmod: _divmod, np.divmod: _divmod, np.angle: _angle, print: _print,
    np.zeros: _allocation, np.empty: _allocation, np.ones: _allocation,
    np.array: _allocation, np.zeros_like: _allocation, enumerate: _loop_only,
    zip: _loop_only, reversed: _loop_only, range: _loop_only, buffer: _buffer,
    count: _count,
}


def _literal(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (value,) = positional(scope, node, 1)
    if not all(isinstance(v, Literal) for v in leaves(value)):
        raise scope.error(node, "nf.literal() takes a number that is known when the "
                                "function is parsed: a number, a global, or a "
                                "parameter that is an nf.literal itself")
    return value


def _local(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (given,) = positional(scope, node, 1)
    shape = static_shape(scope, node, given)
    size = int(np.prod(shape))
    if size > MOST_ELEMENTS:
        raise scope.error(node, f"a local array of {size} elements is too large, at "
                                f"most {MOST_ELEMENTS} are allowed; use an array that "
                                "is an argument, or shared.array in a kernel")
    return _zeros(shape)


def _zeros(shape: tuple[int, ...]) -> Local:
    # The integer zero: it takes the type of whatever it meets.
    return Local(_zeros(shape[1:]) if len(shape) > 1 else literal(0)
                 for _ in range(shape[0]))


def _composite(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    return composite_form(scope, node, attr, parse_arguments(scope, node))


def _misplaced(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    raise scope.error(node, f"{ast.unparse(node.func)}() stands around the range(...) "
                            "of a for loop, or the whole condition of a while loop")


_STATIC: dict[str, Form] = {
    "composite": _composite, "literal": _literal, "local": _local,
    "max_iters": _misplaced, "unroll": _loop_only,
}

"""Calls of Python's builtins, and of what is known when a function is parsed."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from .buffers import buffer, count
from .forms import FORMS, Form, known_shape, positional
from .ir import Literal, Value, literal
from .resolve import Operation, apply
from .structure import Local, Values, leaves

if TYPE_CHECKING:
    from .calls import Calls

__all__ = ["form_of", "known_sequence", "sequence"]

#: Elements of a local array at most, iterations that are written out at most.
MOST_ELEMENTS, MOST_ITERATIONS = 64, 1024


def form_of(target: Any, node: ast.Call) -> tuple[Form, str] | None:
    """How a call of the Python object `target` is written, if that is special."""
    name = getattr(target, "__nbfused_form__", None)
    if isinstance(name, str):
        return FORMS.get(name) or _STATIC[name], target.attr
    found = _BUILTINS.get(target) if _hashable(target) else None
    several = len(node.args) != 1 or isinstance(node.args[0], ast.Starred)
    if found is not None and target in (min, max) and several:
        return None  # an operation
    return None if found is None else (found, "")


def sequence(body: Calls, node: ast.expr) -> list[Values] | None:
    """The items of an iterable, where they are known; None of any other range."""
    found = _iterable(body, node)
    if found is not None and len(found) > MOST_ITERATIONS:
        raise body.error(node, f"{len(found)} iterations are too many to be written "
                               f"out, at most {MOST_ITERATIONS} are; use a loop over "
                               "range(...)")
    return found


def _iterable(body: Calls, node: ast.expr) -> list[Values] | None:
    if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        return list(body.comprehension(node))
    if isinstance(node, ast.Call) and body.owner(node.func) is None:
        target = body.callee(node.func)
        wrap = _WRAPPERS.get(target) if _hashable(target) else None
        if getattr(target, "__nbfused_form__", "") == "unroll":
            return _unrolled(body, node)
        if wrap is not None:
            return wrap(body, node)
        if target is range:
            return _range(body, node)
    values = body.values(node)
    if not isinstance(values, tuple):
        raise body.error(node, "expected range(...) or a tuple, got "
                               f"{body.kind(values)}")
    return list(values)


def _hashable(target: Any) -> bool:
    return getattr(type(target), "__hash__", None) is not None


def _range(body: Calls, node: ast.Call) -> list[Values] | None:
    bounds = body.bounds(node)
    if not all(isinstance(b, Literal) for b in bounds):
        return None
    start, stop, step = (int(b.text) for b in bounds if isinstance(b, Literal))
    if step == 0:
        raise body.error(node, "the step of range() is 0")
    if len(range(start, stop, step)) > MOST_ITERATIONS:
        return [()]*len(range(start, stop, step))
    return [literal(k) for k in range(start, stop, step)]


def known_sequence(body: Calls, node: ast.expr) -> list[Values]:
    """The items of an iterable, which must be known."""
    found = sequence(body, node)
    if found is None:
        raise body.error(node, "the bounds of this range must be known when the "
                               "function is parsed: numbers, globals, or nf.literal "
                               "parameters")
    return found


def _only(body: Calls, node: ast.Call) -> ast.expr:
    if len(node.args) != 1 or node.keywords:
        raise body.error(node, f"{ast.unparse(node.func)}() takes one iterable")
    return node.args[0]


def _unrolled(body: Calls, node: ast.Call) -> list[Values]:
    return known_sequence(body, _only(body, node))


def _enumerated(body: Calls, node: ast.Call) -> list[Values]:
    start = 0
    if len(node.args) == 2:
        first = body.values(node.args[1])
        if not (isinstance(first, Literal) and first.kind == "int"):
            raise body.error(node, "enumerate() starts at an integer literal")
        start = int(first.text)
    if not 1 <= len(node.args) <= 2 or node.keywords:
        raise body.error(node, "enumerate() takes an iterable and a start")
    items = known_sequence(body, node.args[0])
    return [(literal(k), v) for k, v in enumerate(items, start)]


def _zipped(body: Calls, node: ast.Call) -> list[Values]:
    parts = [known_sequence(body, a) for a in node.args]
    strict = [isinstance(k.value, ast.Constant) and bool(k.value.value)
              for k in node.keywords if k.arg == "strict"]
    if len(strict) != len(node.keywords):
        raise body.error(node, "zip() takes no keyword but strict")
    if any(strict) and len({len(p) for p in parts}) > 1:
        raise body.error(node, "zip() with strict got tuples of different lengths")
    return list(zip(*parts, strict=False))


def _reversed(body: Calls, node: ast.Call) -> list[Values]:
    return known_sequence(body, _only(body, node))[::-1]


_WRAPPERS: dict[Any, Callable[[Calls, ast.Call], list[Values]]] = {
    enumerate: _enumerated, zip: _zipped, reversed: _reversed,
}


# Calls --------------------------------------------------------------------------------


def _len(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    (values,) = positional(body, node, 1)
    if isinstance(values, tuple):
        return literal(len(values))
    if body.is_array(values):
        return body.emitter.emit("extent", values, attr="0", stem=stem)
    raise body.error(node, "len() takes a tuple, a local array or an array, got "
                           f"{body.kind(values)}")


def _sum(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    if not 1 <= len(node.args) <= 2 or node.keywords:
        raise body.error(node, "sum() takes an iterable and a start")
    start = body.value(node.args[1]) if len(node.args) == 2 else literal(0)
    items = [body.number(node, v) for v in known_sequence(body, node.args[0])]
    if items and start == literal(0):
        start, *items = items
    return reduce(lambda a, b: body.emitter.emit("add", a, b, stem=stem), items, start)


def _extremum(op: str) -> Form:
    """Of the items of one iterable."""

    def form(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
        items = tuple(body.number(node, v) for v in known_sequence(body, _only(
            body, node)))
        if len(items) == 1:
            return items[0]
        return body.checked(node, lambda: apply(body.emitter, Operation(op), items,
                                                stem=stem))

    return form


def _same(value: Value) -> Value:
    return value


def _logical(op: ast.boolop, empty: bool) -> Form:
    """Whether all, or any, of some numbers are true."""

    def form(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
        found: Value = literal(empty)
        for v in known_sequence(body, _only(body, node)):
            truth = body.emitter.truth(body.number(node, v))
            found = body.both(op, found, partial(_same, truth))
        return found

    return form


def _tuple(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    return tuple(known_sequence(body, _only(body, node))) if node.args else ()


def _list(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    return Local(known_sequence(body, _only(body, node)))


def _divmod(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    a, b = (body.number(node, v) for v in positional(body, node, 2))
    return body.emitter.emit("floordiv", a, b), body.emitter.emit("mod", a, b)


def _print(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    raise body.error(node, "print() is not part of the scalar language; store what you "
                           "want to see into an array, or call the function as plain "
                           "Python, f.pyfunc(...)")


def _allocation(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    raise body.error(node, f"{ast.unparse(node.func)}() makes an array, which a scalar "
                           "function cannot; use nf.local(n) for a small array of its "
                           "own")


def _loop_only(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    raise body.error(node, f"{ast.unparse(node.func)}() is what a for loop goes over")


def _buffer(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    size, *zeros = positional(body, node, 1, 2)
    name = body.emitter.let("buffer", body.number(node, size), stem=stem,
                            attr="zeros" if zeros == [literal(True)] else None)
    body.arrays[name] = 1
    body.emitter.buffers.add(name)
    return name


def _count(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    (value,) = positional(body, node, 1)
    return body.emitter.emit("index", body.number(node, value), stem=stem)


_BUILTINS: dict[Any, Form] = {
    len: _len, sum: _sum, min: _extremum("min"), max: _extremum("max"),
    all: _logical(ast.And(), True), any: _logical(ast.Or(), False), tuple: _tuple,
    list: _list, divmod: _divmod, print: _print, np.zeros: _allocation,
    np.empty: _allocation, np.ones: _allocation, np.array: _allocation,
    np.zeros_like: _allocation, enumerate: _loop_only, zip: _loop_only,
    reversed: _loop_only, range: _loop_only, buffer: _buffer, count: _count,
}


def _literal(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    (value,) = positional(body, node, 1)
    if not all(isinstance(v, Literal) for v in leaves(value)):
        raise body.error(node, "nf.literal() takes a number that is known when the "
                               "function is parsed: a number, a global, or a parameter "
                               "that is an nf.literal itself")
    return value


def _local(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    (given,) = positional(body, node, 1)
    shape = known_shape(body, node, given)
    size = int(np.prod(shape))
    if size > MOST_ELEMENTS:
        raise body.error(node, f"a local array of {size} elements is too large, at "
                               f"most {MOST_ELEMENTS} are allowed; use an array that "
                               "is an argument, or shared.array in a kernel")
    return _zeros(shape)


def _zeros(shape: tuple[int, ...]) -> Local:
    # The integer zero: it takes the type of whatever it meets.
    return Local(_zeros(shape[1:]) if len(shape) > 1 else literal(0)
                 for _ in range(shape[0]))


def _misplaced(body: Calls, node: ast.Call, attr: str, stem: str) -> Values:
    raise body.error(node, f"{ast.unparse(node.func)}() stands around the range(...) "
                           "of a for loop, or the whole condition of a while loop")


_STATIC: dict[str, Form] = {
    "literal": _literal, "local": _local, "max_iters": _misplaced, "unroll": _loop_only,
}

"""Functions of vectors: dot, cross, length, normalize."""

from __future__ import annotations

import ast

from ...ir.nodes import Value, literal
from ...source.structure import Values, Vector
from ..forms import Form
from ..scope import Scope
from ..sequences import positional

__all__ = ["FORMS"]


def _vectors(scope: Scope, node: ast.Call, count: int) -> tuple[Vector, ...]:
    """The arguments of a call, vectors of as many components."""
    found = positional(scope, node, count)
    sizes = {len(v) if isinstance(v, Vector) else 0 for v in found}
    if 0 in sizes or len(sizes) > 1:
        got = ", ".join(f"a vector of {len(v)}" if isinstance(v, Vector) else
                        scope.describe(v) for v in found)
        raise scope.error(node, f"{ast.unparse(node.func)}() takes {count} vector(s) "
                                f"of as many components, vec2 to vec4; got {got}")
    return found


def _dot(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    return _inner(scope, *_vectors(scope, node, 2))


def _inner(scope: Scope, a: Vector, b: Vector) -> Value:
    e = scope.emitter
    total, *more = (e.emit("mul", x, y) for x, y in zip(a, b, strict=True))
    for product in more:
        total = e.emit("add", total, product)
    return total


def _cross(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    a, b = _vectors(scope, node, 2)
    if len(a) != 3:
        raise scope.error(node, f"cross() takes vectors of 3 components, got {len(a)}")
    e = scope.emitter
    return Vector(a.names, [
        e.emit("sub", e.emit("mul", a[j], b[k]), e.emit("mul", a[k], b[j]))
        for j, k in ((1, 2), (2, 0), (0, 1))])


def _length(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (v,) = _vectors(scope, node, 1)
    return scope.emitter.emit("sqrt", _inner(scope, v, v), stem=stem)


def _normalize(scope: Scope, node: ast.Call, attr: str, stem: str) -> Values:
    (v,) = _vectors(scope, node, 1)
    e, square = scope.emitter, _inner(scope, v, v)
    some = e.emit("gt", square, literal(0))
    size = e.emit("sqrt", e.emit("select", some, square, literal(1)))
    return Vector(v.names, [e.emit("div", x, size) for x in v])


FORMS: dict[str, Form] = {
    "dot": _dot, "cross": _cross, "length": _length, "normalize": _normalize,
}

"""Vectors, matrices and quaternions in functions: their classes compute on symbols."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from ...ir.nodes import Value, literal
from ...language.composite import COMPOSITES, FUNCTIONS, Composite
from ...language.vocabulary import Op
from ...source.phrases import phrase
from ...source.resolve import Operation
from ...source.structure import Local, Values, Vector, leaves
from ...source.trace import Symbol
from ..scope import Scope
from .parts import Element, Part, element_of, rank_of

__all__ = [
    "build_vector", "combined", "component_at", "components", "composite_form",
    "computed", "flattened", "has_vector", "load_element", "negated", "row_vector",
    "rows_of", "store_element", "swizzled", "values_for", "vector_call",
]

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.MatMult: operator.matmul}


class _Number(Symbol):
    """A component, or a number beside one; leaves operators to composite numbers."""

    __slots__ = ()

    def __nbfused_op__(self, name: str, args: Sequence[Any]) -> Any:
        """A scalar function: of each component, if there are some."""
        for a in args:
            if isinstance(a, Composite) and hasattr(a, "__nbfused_op__"):
                return a.__nbfused_op__(name, args)
        return super().__nbfused_op__(name, args)

    def record(self, target: Operation, args: Sequence[Any]) -> Any:
        """``target(*args)``, at the line that is being parsed."""
        if any(isinstance(a, tuple) for a in args):
            return NotImplemented
        line = self.emitter.line
        found = super().record(target, args)
        self.emitter.line = line
        return found


def _host(scope: Scope, node: ast.AST, value: Values) -> Any:
    """A value as the classes of composite numbers take it."""
    if isinstance(value, Vector):
        return COMPOSITES[value.kind]._make(_Number(scope.emitter, v) for v in value)
    if isinstance(value, tuple):
        return tuple(_host(scope, node, v) for v in value)
    return _Number(scope.emitter, scope.number(node, value))


def _parsed(value: Any) -> Values:
    """The value that such a class computed, as the parser knows it."""
    if isinstance(value, Composite):
        return Vector(type(value).__name__, map(_parsed, value))
    return value.value if isinstance(value, Symbol) else literal(value)


def computed(scope: Scope, node: ast.AST, act: Callable[..., Any],
             *operands: Values) -> Values:
    """``act(*operands)`` on symbols; its `TypeError` is one of this line."""
    given = [_host(scope, node, v) for v in operands]
    try:
        return _parsed(act(*given))
    except TypeError as error:
        raise scope.error(node, str(error)) from None


def has_vector(values: Sequence[Values]) -> bool:
    """True if one of them is a composite number."""
    return any(isinstance(v, Vector) for v in values)


def combined(scope: Scope, node: ast.BinOp | ast.AugAssign, left: Values,
             right: Values) -> Values:
    """Parse ``left op right``, where one of them is a composite number."""
    act = _OPERATORS.get(type(node.op))
    if act is None:
        kind = next(v.kind for v in (left, right) if isinstance(v, Vector))
        raise scope.error(node, f"{phrase(node.op)} of a {kind} is not defined; other "
                                "operators than + - * / @ take its components")
    return computed(scope, node, act, left, right)


def negated(scope: Scope, node: ast.AST, v: Vector) -> Values:
    """Parse ``-v``."""
    return computed(scope, node, operator.neg, v)


def swizzled(scope: Scope, node: ast.Attribute, v: Vector) -> Values:
    """Parse ``v.x`` and ``v.xy``."""
    if node.attr in v.names:
        return v[v.names.index(node.attr)]
    if not v.kind.startswith("vec") or not set(node.attr) <= set(v.names):
        raise scope.error(node, f"a {v.kind} has no component {node.attr!r}; it has "
                                f"{', '.join(v.names)}")
    return computed(scope, node, lambda a: getattr(a, node.attr), v)


def rows_of(v: Vector) -> tuple[Any, ...]:
    """The rows of a matrix; the components of what is none."""
    if not v.kind.startswith("mat"):
        return v
    size = COMPOSITES[v.kind].shape[0]
    return Local(Vector(f"vec{size}", v[size*k:size*k + size]) for k in range(size))


def flattened(kind: str, parts: Values) -> Vector:
    """A composite number of its components, or of its rows."""
    return Vector(kind, leaves(tuple(parts)))


def vector_call(scope: Scope, node: ast.Call, target: Any,
                args: Sequence[Values]) -> Values:
    """A function of numbers, called with composite ones: of each component."""
    if not isinstance(target, Op) and target is not abs:
        kind = next(a.kind for a in args if isinstance(a, Vector))
        raise scope.error(node, f"{ast.unparse(node.func)}() does not take a {kind}; "
                                "the functions of nbfused take vectors, as nf.exp(v) "
                                "does, others take components")
    return computed(scope, node, target, *args)


def composite_form(scope: Scope, node: ast.Call, attr: str,
                   given: tuple[Sequence[Values], Mapping[str, Values]]) -> Values:
    """A function of composite numbers: ``dot(a, b)``."""
    args, keywords = given
    if keywords:
        raise scope.error(node, f"{ast.unparse(node.func)}() takes no keywords")
    for a in args:
        if not isinstance(a, tuple) and (isinstance(a, Part) or rank_of(scope, a)):
            raise scope.error(node, f"{ast.unparse(node.func)}() takes vectors, "
                                    f"matrices and numbers, got {scope.describe(a)}; "
                                    "make a vector of it, nf.vec3(x[i])")
    return computed(scope, node, FUNCTIONS[attr], *args)


# Building -----------------------------------------------------------------------------


def build_vector(scope: Scope, node: ast.Call, target: Any, args: Sequence[Values],
                 keywords: Mapping[str, Values]) -> Values:
    """Parse ``vec3(a, b, c)``, ``vec3(row)``, ``mat33(table)``."""
    if len(args) == 1 and not keywords and not isinstance(args[0], tuple):
        rank = rank_of(scope, args[0])
        if rank is not None and rank == len(target.shape):
            return row_vector(scope, node, target.__name__, args[0])
        if rank is not None:
            raise scope.error(node, f"{target.__name__}() takes "
                                    f"{len(target._fields)} numbers, or an array or "
                                    f"part of {len(target.shape)} axes; got one of "
                                    f"{rank}")
    count, names = len(args), tuple(keywords)

    def act(*given: Any) -> Any:
        return target(*given[:count], **dict(zip(names, given[count:], strict=True)))

    return computed(scope, node, act, *args, *keywords.values())


def row_vector(scope: Scope, node: ast.AST, kind: str, whole: Values) -> Vector:
    """The first elements of an array or part, whose axes are those of the class."""
    places = product(*map(range, COMPOSITES[kind].shape))
    return Vector(kind, [
        load_element(scope, element_of(scope, node, whole, tuple(map(literal, p))))
        for p in places])


# Elements of arrays -------------------------------------------------------------------


def components(element: Element) -> list[Element]:
    """The numbers that an element is made of."""
    if not element.kind:
        return [element]
    return [component_at(element, tuple(map(literal, place)))
            for place in product(*map(range, COMPOSITES[element.kind].shape))]


def component_at(element: Element, index: tuple[Value, ...]) -> Element:
    """A component of an element."""
    return Element(element.array, (*element.index, *index))


def load_element(scope: Scope, element: Element, stem: str = "t",
                 attr: str | None = None) -> Values:
    """A number, or a composite one."""
    found = [scope.emitter.emit("load", e.array, *e.index, stem=stem, attr=attr)
             if attr else scope.emitter.load(e.array, *e.index, stem=stem)
             for e in components(element)]
    return Vector(element.kind, found) if element.kind else found[0]


def store_element(scope: Scope, node: ast.AST, element: Element, value: Values,
                  attr: str | None = None) -> None:
    """Assign a number, or a composite one of its kind."""
    for e, v in zip(components(element), values_for(scope, node, element, value),
                    strict=True):
        scope.emitter.store(e.array, *e.index, v, attr=attr)


def values_for(scope: Scope, node: ast.AST, element: Element,
               value: Values) -> Sequence[Value]:
    """A number for each component of an element."""
    if not element.kind:
        return [scope.number(node, value)]
    if not isinstance(value, Vector) or value.kind != element.kind:
        got = value.kind if isinstance(value, Vector) else scope.describe(value)
        raise scope.error(node, f"an element of '{element.array}' is a {element.kind}, "
                                f"got {got}; pass nf.{element.kind}(...)")
    return value

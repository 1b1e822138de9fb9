"""Names: variables, numbers and functions from outside, attributes."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from ..ir.nodes import Literal, Value
from ..language import threads
from ..source.phrases import ALLOWED, nearest
from ..source.resolve import freeze, function_of, operation, python_function
from ..source.structure import Records, Struct, Values, Vector
from .closures import Closure, Outside
from .composite.parts import Part, part_property
from .composite.vectors import load_element, swizzled
from .elements import NUMBER_METHODS, array_property, field_number
from .scope import ExpressionParser, Scope

__all__ = ["EXPRESSIONS", "is_range", "method_owner", "outside_value", "resolve",
           "resolve_callee", "static_object", "thread_position"]

#: Modules whose names for kernels of threads are nbfused's: code is pasted from there.
_OTHER_KERNELS = ("numba.cuda", "cupyx.jit")

#: What may be called besides names.
_CALLABLE = (ast.Call, ast.Lambda, ast.Subscript)


def _parse_name(scope: Scope, node: ast.Name, stem: str) -> Values:
    """A variable, or a number from outside."""
    if node.id in scope.env:
        return scope.env[node.id]
    if node.id in scope.assigned:
        raise scope.error(node, f"{node.id!r} is not assigned on every path that "
                                "leads here; assign it before the branch or loop")
    return outside_value(scope, node, resolve(scope, node), node.id)


def outside_value(scope: Scope, node: ast.expr, target: Any, name: str) -> Values:
    """A number from outside; it is part of the function from now on."""
    position = getattr(target, "__nbfused_thread__", None)
    if position is not None:
        return thread_position(scope, position)
    implicit = getattr(target, "__nbfused_implicit__", None)
    if implicit is not None:
        if implicit not in scope.env:
            raise scope.error(node, f"{name!r} has a value inside an @nf.row only; "
                                    "pass it as an argument")
        return scope.env[implicit]
    number = freeze(target)
    if number is None and (python_function(target) or operation(target)
                           or function_of(target)):
        return Outside(target)
    if number is None:
        raise scope.error(node, f"{name!r} is a {type(target).__name__}; from "
                                "outside, a scalar function can use numbers, tuples "
                                "of numbers, and functions in calls. Pass anything "
                                "else as an argument")
    return number


def resolve(scope: Scope, node: ast.expr) -> Any:
    """The Python object that a name or a dotted name outside stands for."""
    if isinstance(node, ast.Attribute):
        owner = resolve(scope, node.value)
        if not hasattr(owner, node.attr):
            raise scope.error(node, f"{ast.unparse(node.value)!r} has no attribute "
                                    f"{node.attr!r}{nearest(owner, node.attr)}")
        if node.attr in threads.__all__ and \
                getattr(owner, "__name__", "").endswith(_OTHER_KERNELS):
            raise scope.error(node, f"{ast.unparse(node)} is of another library's "
                                    f"kernels; write nf.{node.attr}")
        return getattr(owner, node.attr)
    if not isinstance(node, ast.Name):
        raise scope.error(node, f"only a function's name can be called. {ALLOWED}")
    if node.id in scope.env or node.id in scope.assigned:
        raise scope.error(node, f"{node.id!r} is a number here, not a function or "
                                "module")
    try:
        return scope.outside[node.id]
    except KeyError:
        raise scope.error(node, f"name {node.id!r} is not defined; assign it, or "
                                f"give it with nf.specialize(f, {node.id}=...)"
                          ) from None


def _parse_attribute(scope: Scope, node: ast.Attribute, stem: str) -> Values:
    """An object outside by its dotted name, or a part of a value."""
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id not in scope.env:
        return outside_value(scope, node, resolve(scope, node), ast.unparse(node))
    limit = _limit(scope, node)
    if limit is not None:
        return limit
    owner, emitter = scope.values(node.value), scope.emitter
    if isinstance(owner, Vector):
        return swizzled(scope, node, owner)
    if isinstance(owner, Records) and node.attr not in owner.names:
        return part_property(scope, node, min(owner, key=lambda p: len(p.spans)))
    if isinstance(owner, Struct):
        found = owner[field_number(scope, node, owner, node.attr)]
        single = isinstance(found, Part) and not found.spans
        return load_element(scope, found.element, stem) if single else found
    if node.attr in ("real", "imag"):
        return emitter.emit(node.attr, scope.number(node, owner), stem=stem)
    if isinstance(owner, str) and owner in emitter.alone and \
            node.attr in ("primal", "derivative"):
        return owner if node.attr == "primal" else emitter.alone[owner]
    if isinstance(owner, Part):
        return part_property(scope, node, owner)
    if scope.is_array(owner) and (node.attr == "shape" or scope.arrays[owner] is not
                                  None):
        return array_property(scope, node, owner)
    what = "a tuple has no attribute" if isinstance(owner, tuple) else \
        "a number has no attribute"
    raise scope.error(node, f"{what} {node.attr!r} here; a complex number has real "
                            "and imag, an array has shape, size and ndim")


def _limit(scope: Scope, node: ast.Attribute) -> Values | None:
    """``np.finfo(np.float32).eps``: a number that a dtype has, known now."""
    call = node.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and
            call.func.attr in ("finfo", "iinfo") and len(call.args) == 1
            and method_owner(scope, call.func) is None):
        return None
    kind = resolve(scope, call.func)
    try:
        dtype = np.dtype(resolve(scope, call.args[0]))
        found = freeze(getattr(kind(dtype), node.attr))
    except (TypeError, ValueError, AttributeError) as error:
        raise scope.error(node, f"{ast.unparse(node)}: {error}") from None
    return found


def thread_position(scope: Scope, name: str) -> Value:
    """A coordinate of this thread, or an extent of the grid."""
    return scope.emitter.emit("thread", attr=name, stem=name.replace(".", "_"))


def resolve_callee(scope: Scope, node: ast.expr) -> Any:
    """The function that is called: a function inside this one, or a Python object."""
    found = scope.env.get(node.id) if isinstance(node, ast.Name) else \
        scope.values(node) if isinstance(node, _CALLABLE) else None
    if isinstance(found, Outside):
        return found.target
    return found if isinstance(found, Closure) else resolve(scope, node)


def static_object(scope: Scope, node: ast.AST, found: Values) -> Any:
    """The Python object that a value stands for."""
    if isinstance(found, Outside):
        return found.target
    if isinstance(found, Literal):
        return found.value
    raise scope.error(node, "expected a function of the module, or a number that is "
                            f"known when the function is parsed, got "
                            f"{scope.describe(found)}")


def method_owner(scope: Scope, node: ast.expr) -> Values | None:
    """The value of the function that ``owner.method`` belongs to, if it is one.

    What is computed on the spot has the methods of a number: ``(a*b).conjugate()``.
    """
    root = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    if isinstance(node, ast.Attribute) and isinstance(root, ast.Name) and \
            root.id in scope.env:
        return scope.values(node.value)
    if isinstance(node, ast.Attribute) and node.attr in NUMBER_METHODS and \
            not isinstance(root, ast.Name):
        return scope.values(node.value)
    return None


def is_range(scope: Scope, node: ast.expr) -> bool:
    """True if `node` calls ``range(...)``."""
    return isinstance(node, ast.Call) and method_owner(scope, node.func) is None and \
        resolve_callee(scope, node.func) is range


EXPRESSIONS: dict[type[ast.expr], ExpressionParser] = {
    ast.Name: _parse_name, ast.Attribute: _parse_attribute,
}

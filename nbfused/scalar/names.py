"""What names stand for: variables, constants and functions from outside."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from .closures import Closure, Outside
from .elements import Elements
from .emit import Emitter
from .ir import Function, Literal, Value
from .resolve import freeze, function_of, operation, python_function
from .source import Source
from .structure import Struct, Values
from .words import ALLOWED

__all__ = ["Names"]

#: What may be called besides names.
_CALLABLE = (ast.Call, ast.Lambda, ast.Subscript)
_PARTS = {"real": "real", "imag": "imag"}


class Names(Elements):
    """Looks names up.

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

    def value(self, node: ast.expr, stem: str = "t") -> Value:
        """The value of `node`, which must be a single one."""
        return self.number(node, self.values(node, stem))

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
        implicit = getattr(target, "__nbfused_implicit__", None)
        if implicit is not None:
            if implicit not in self.env:
                raise self.error(node, f"{name!r} has a value inside an @nf.row only; "
                                       "pass it as an argument")
            return self.env[implicit]
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
            raise self.error(node, f"name {node.id!r} is not defined; assign it, or "
                                   f"give it with nf.specialize(f, {node.id}=...)"
                             ) from None

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
        if isinstance(owner, str) and owner in self.emitter.alone and \
                node.attr in ("primal", "derivative"):
            return owner if node.attr == "primal" else self.emitter.alone[owner]
        if self.is_array(owner) and (node.attr == "shape" or self.arrays[owner] is not
                                     None):
            return self.array_property(node, owner)
        what = "a tuple has no attribute" if isinstance(owner, tuple) else \
            "a number has no attribute"
        raise self.error(node, f"{what} {node.attr!r} here; a complex number has real "
                               "and imag, an array has shape, size and ndim")

    def thread(self, name: str) -> Value:
        """Where this thread is."""
        return self.emitter.emit("thread", attr=name, stem=name.replace(".", "_"))

    def callee(self, node: ast.expr) -> Any:
        """What is called: a function of this function's, or a Python object."""
        found = self.env.get(node.id) if isinstance(node, ast.Name) else \
            self.values(node) if isinstance(node, _CALLABLE) else None
        if isinstance(found, Outside):
            return found.target
        return found if isinstance(found, Closure) else self.resolved(node)

    def static(self, node: ast.AST, found: Values) -> Any:
        """The Python object that a value stands for."""
        if isinstance(found, Outside):
            return found.target
        if isinstance(found, Literal):
            return found.value
        raise self.error(node, "expected a function of the module, or a number that is "
                               f"known when the function is parsed, got "
                               f"{self.kind(found)}")

    def owner(self, node: ast.expr) -> Values | None:
        """What ``owner.method`` belongs to, where that is a value of the function."""
        root = node
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        if isinstance(node, ast.Attribute) and isinstance(root, ast.Name) and \
                root.id in self.env:
            return self.values(node.value)
        return None

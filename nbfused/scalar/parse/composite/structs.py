"""Named tuples and dataclasses that a function builds: structs of its own values."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from ...language.composite import Composite
from ...source.structure import Mutable, Struct, Values
from ..elements import field_number
from ..names import outside_value
from ..scope import Scope
from ..sequences import call_errors
from .vectors import build_vector

__all__ = ["build_struct", "is_struct_class", "replace_fields"]


def is_struct_class(target: Any) -> bool:
    """True of a named tuple's class and of a dataclass."""
    return isinstance(target, type) and (is_dataclass(target) or (
        issubclass(target, tuple) and hasattr(target, "_fields")))


def build_struct(scope: Scope, node: ast.Call, target: Any, args: tuple[Values, ...],
                 keywords: Mapping[str, Values]) -> Values:
    """A struct with the fields of a class, defaults filled in."""
    if issubclass(target, Composite):
        return build_vector(scope, node, target, args, keywords)
    _check_plain(scope, node, target)
    signature = inspect.signature(target)
    with call_errors(scope, node):
        given = signature.bind(*args, **keywords).arguments
    values = [given[n] if n in given else outside_value(scope, node, p.default,
                                                        f"default of {n}")
              for n, p in signature.parameters.items()]
    mutable = is_dataclass(target) and not vars(target)["__dataclass_params__"].frozen
    return (Mutable if mutable else Struct)(signature.parameters, values)


def _check_plain(scope: Scope, node: ast.Call, target: type) -> None:
    """Refuse a class with code of its own, which a kernel would not run."""
    record = is_dataclass(target)
    names = ("__post_init__", "__new__") if record else ("__new__", "__init__")
    own = [n for n in names if n in _methods(target)]
    odd = record and not (vars(target)["__dataclass_params__"].init and all(
        f.init for f in fields(target)))
    if own or odd:
        what = f"has a {own[0]} of its own" if own else \
            "has fields that its __init__ does not take"
        raise scope.error(node, f"{target.__name__} {what}, which a scalar function "
                                "does not run; build it from plain fields")


def _methods(target: type) -> set[str]:
    """Names that its classes define, a named tuple's generated class left out."""
    return {n for c in target.__mro__[:-1] if c is not tuple and "_fields" not in
            vars(c) for n in vars(c)}


def replace_fields(scope: Scope, node: ast.Call, owner: Struct,
                   keywords: Mapping[str, Values]) -> Struct:
    """Parse ``p._replace(x=value)`` and `dataclasses.replace`: a changed copy."""
    new = {field_number(scope, node, owner, n): v for n, v in keywords.items()}
    return owner.with_parts([new.get(k, v) for k, v in enumerate(owner)])

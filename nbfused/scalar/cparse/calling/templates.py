"""Templates of functions: the types and integers that a call is for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ....support.records import record
from ..expressions import as_type
from ..scope import Scope
from ..spelling import SELF, shown_name
from ..tree import kind
from ..types import type_text
from ..values import Typed

__all__ = ["Deduced", "Given", "deduce"]

#: A template argument: a type, or an integer that is known.
Given = np.dtype | Typed


@record(frozen=True)
class Deduced:
    """Types and integers that the parameters of a template stand for."""

    types: Mapping[str, np.dtype]
    numbers: Mapping[str, Typed]


def deduce(caller: Scope, node: Any, target: Any, declared: Sequence[Any],
           given: Sequence[np.dtype], explicit: Sequence[Given]) -> Deduced:
    """The parameters of a function's template, from what a call is given."""
    params = caller.unit.templates.get(target, {})
    name = shown_name(target.decl.name)
    if len(explicit) > len(params):
        caller.refuse(node, f"{name} takes {len(params)} template arguments, got "
                            f"{len(explicit)}")
    types: dict[str, np.dtype] = {}
    numbers: dict[str, Typed] = {}
    for (param, of), chosen in zip(params.items(), explicit, strict=False):
        if isinstance(chosen, Typed) == (of is None):
            caller.refuse(node, f"the template argument {param} of {name} is "
                                f"{'a type' if of is None else 'an integer'}")
        if isinstance(chosen, Typed):
            numbers[param] = _number(caller, node, f"{param} of {name}", of, chosen)
        else:
            types[param] = chosen
    open_ = set(params) - types.keys() - numbers.keys()
    for d, dtype in zip(declared, given, strict=True):
        inner = d.type
        while kind(inner) in ("PtrDecl", "ArrayDecl", "TypeDecl"):
            inner = inner.type
        for param, found in _matched(caller, getattr(inner, "names", [""])[0], dtype,
                                     open_):
            if types.setdefault(param, found) != found:
                caller.refuse(
                    node, f"{param} of {name}() is both {type_text(types[param])} and "
                          f"{type_text(found)}; write {name}<T>(…), or cast")
        if d.name == SELF:  # whose types are those of the struct for certain
            open_ -= types.keys()
    missing = [p for p in params if p not in types and p not in numbers]
    if missing:
        caller.refuse(
            node, f"{missing[0]} of {name}() cannot be told from the arguments; write "
                  f"{name}<{missing[0]}>(…)")
    return Deduced(types, numbers)


def _matched(scope: Scope, declared: str, dtype: np.dtype,
             params: Collection[str]) -> list[tuple[str, np.dtype]]:
    """The parameters of a template that a declared type tells: ``T``, or ``P<T>``."""
    if declared in params:
        return [(declared, dtype)]
    struct, names = scope.unit.spelling.instances.get(declared, ("", ()))
    other, given = scope.unit.struct_of(dtype)
    if not struct or struct != other:
        return []
    return [pair for n, d in zip(names, given, strict=True)
            for pair in _matched(scope, n, d, params)]


def _number(caller: Scope, node: Any, what: str, of: str | None,
            chosen: Typed) -> Typed:
    """An integer that a template takes, in its type."""
    if chosen.number is None or chosen.dtype.kind not in "biu":
        caller.refuse(node, f"the template argument {what} must be an integer that is "
                            "known")
    return as_type(caller, node, chosen, caller.named_dtype(node, str(of)))

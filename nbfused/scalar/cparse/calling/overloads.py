"""Functions of one name, of which the arguments of a call choose one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....errors import ScalarSyntaxError
from ..scope import Scope
from ..spelling import REFERENCE, shown_name
from ..tree import kind
from ..types import promote
from .arguments import argument, is_pointer
from .templates import Given, deduce

__all__ = ["best_fit", "parameters"]

#: How well an argument fits a parameter, as C++ ranks it.
_EXACT, _PROMOTED, _CONVERTED = range(3)


def parameters(target: Any) -> list[Any]:
    """The parameters that a function declares."""
    declared = target.decl.type.args.params if target.decl.type.args else []
    return [d for d in declared if kind(d) != "Typename"]


def _required(target: Any) -> int:
    """The number of parameters that have no value by default."""
    return sum(not d.align for d in parameters(target))


def best_fit(scope: Scope, node: Any, name: str, targets: Sequence[Any],
             args: Sequence[Any], explicit: Sequence[Given]) -> Any:
    """The function that a call means: none fits one argument better, and one worse.

    Of two that fit alike, one that is no template is meant.
    """
    name = shown_name(name)
    fitting = [t for t in targets if _required(t) <= len(args) <= len(parameters(t))]
    if len(targets) == 1 or not fitting:
        counts = sorted({n for t in targets for n in range(
            _required(t), len(parameters(t)) + 1)})
        if not fitting:
            scope.refuse(node, f"{name}() takes {' or '.join(map(str, counts))} "
                               f"arguments, got {len(args)}")
        return fitting[0]
    ranks = [_ranks(scope, node, t, args, explicit) for t in fitting]
    if not any(ranks):
        for d, a in zip(parameters(fitting[0]), args, strict=False):
            argument(scope, d, a)  # an error in it is the error of the call
    others = [rank for rank in ranks if rank is not None]
    best = [t for t, rank in zip(fitting, ranks, strict=True) if rank is not None and
            all(a <= b for other in others for a, b in zip(rank, other, strict=True))]
    if len(best) > 1:
        best = [t for t in best if t not in scope.unit.templates] or best
    if len(best) != 1:
        scope.refuse(node, f"{len(fitting)} functions {name}() take {len(args)} "
                           "arguments, and none of them fits these best; cast them to "
                           "the types of one")
    return best[0]


def _ranks(scope: Scope, node: Any, target: Any, args: Sequence[Any],
           explicit: Sequence[Given]) -> list[int] | None:
    """The rank of each argument; None where one does not fit at all."""
    declared, found = parameters(target)[:len(args)], []
    try:
        given = [argument(scope, d, a).value.dtype
                 for d, a in zip(declared, args, strict=True)]
        types = deduce(scope, node, target, declared, given, explicit).types
    except ScalarSyntaxError:  # an array where a number is taken, or the reverse
        return None
    for d, dtype in zip(declared, given, strict=True):
        rank = _rank(dtype, scope.unit.dtype(d.type, {**scope.unit.types, **types}))
        if rank is None or (rank and (is_pointer(d) or REFERENCE in d.quals)):
            return None
        found.append(rank)
    return found


def _rank(given: np.dtype, taken: np.dtype) -> int | None:
    if given == taken:
        return _EXACT
    if given.names or taken.names or (given.kind == "c" and taken.kind != "c"):
        return None
    promoted = promote(given) if given.kind in "biu" else \
        np.dtype(np.float64) if given == np.float32 else given
    return _PROMOTED if promoted == taken else _CONVERTED

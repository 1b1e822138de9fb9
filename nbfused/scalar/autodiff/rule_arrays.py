"""Raw arrays in the rules of `Custom` calls.

A rule takes the same arrays as its function.  Of one that the function reads, the rule
reads the elements, and what it writes goes to the array of cotangents.  One that the
function writes to is, to the rule, the array of cotangents.  An array whose elements
only the rule touches is the user's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..ir.build import inline
from ..ir.nodes import WRITES, Custom, Function, Let, array_args, raw_params, walk
from ..ir.redirect import NOWHERE, redirect
from .activity import refuse

__all__ = ["on_cotangents", "on_tangents"]

_LOADS = frozenset({"load"})
_BOTH = _LOADS | WRITES


def on_cotangents(owner: Function, s: Custom, rule: Function,
                  bars: Mapping[str, str]) -> tuple[Function, list[str]]:
    """The reverse rule of a call where it adds to arrays of cotangents.

    Parameters
    ----------
    owner
        The function that calls, for messages.
    s, rule
        The call and its rule.
    bars
        The array of cotangents of each array that has one.

    Returns
    -------
    The rule with further parameters, and the arrays that these are.

    Raises
    ------
    NotDifferentiableError
        The function reads and writes an array that the rule touches too.
    """
    moved: dict[str, frozenset[str]] = {}
    targets: list[str] = []
    for arg, p, q in zip(s.args, s.function.params, rule.params, strict=False):
        ops = _cotangent_accesses(s.function, p)
        if not ops or not _touches(rule, q, ops):
            continue
        if ops == _BOTH and _touches(s.function, p, _LOADS):
            raise refuse(owner, s.line, f"{s.function.name} reads and writes {p!r}, so "
                         "that its rule cannot tell elements from cotangents; give the "
                         "whole kernel a rule, or write to another array")
        moved[q] = ops
        targets.append(bars.get(str(arg), NOWHERE))
    return _moved(rule, moved, targets)


def _cotangent_accesses(primal: Function, p: str) -> frozenset[str]:
    """The accesses of an array that mean its cotangents, in a rule."""
    if _touches(primal, p, WRITES):
        return _BOTH
    return WRITES if _touches(primal, p, _LOADS) else frozenset()


def on_tangents(owner: Function, s: Custom, rule: Function,
                dots: Mapping[str, str]) -> Function:
    """The forward rule of a call; it may take the tangents of arrays too.

    Raises
    ------
    NotDifferentiableError
        It takes none for an array that has some.
    """
    arrays = [str(a) for a, raw in zip(s.args, array_args(s), strict=True) if raw]
    if len(rule.params) - len(s.args) == len(s.args):
        absent = [q for a, q in zip(s.args, rule.params[len(s.args):], strict=True)
                  if a in arrays and a not in dots]
        return _moved(rule, dict.fromkeys(absent, _BOTH), [NOWHERE] * len(absent))[0]
    for a in arrays:
        if a in dots:
            raise refuse(owner, s.line, f"the jvp rule of {s.function.name} takes no "
                         f"tangents of the array {a!r}; let it take a tangent for each "
                         "argument, arrays of tangents for arrays")
    return rule


def _touches(function: Function, array: str, ops: frozenset[str]) -> bool:
    """Whether `function` accesses elements of `array` by any of `ops`."""
    return array in raw_params(function) and any(
        isinstance(s, Let) and s.op in ops and s.args[0] == array
        for s in walk(inline(function).body))


def _moved(rule: Function, moved: Mapping[str, frozenset[str]],
           targets: Sequence[str]) -> tuple[Function, list[str]]:
    """`rule` with some accesses of its arrays to further parameters, or to nothing."""
    if not moved:
        return rule, []
    table = {q: f"{q}.cotangent" if t else NOWHERE
             for q, t in zip(moved, targets, strict=True)}
    found = redirect(rule, moved, table)
    more = [n for n in table.values() if n]
    return replace(found, params=(*rule.params, *more)), [t for t in targets if t]

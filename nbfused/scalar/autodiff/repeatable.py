"""Checks of reverse mode: values that it needs and cannot compute again are refused."""

from __future__ import annotations

from ..ir.build import inline
from ..ir.nodes import Function, Let, walk
from .activity import refuse
from .pure import LOST

__all__ = ["check_arrays", "check_repeated"]

#: What is refused, by operation; else an element.
_NEEDED = {LOST: "the old value of an atomic operation",
           "shuffle": "a value of another thread"}
#: The way out besides a rule, for places that threads count.
_INSTEAD = ", or store places that threads count in one kernel, to read them in another"
_WRITES = frozenset({"store", "atomic_add", "atomic"})


def check_arrays(function: Function, active: set[str]) -> None:
    """An array with a derivative is either read or written, but for what is recorded.

    Raises
    ------
    NotDifferentiableError
        It is both.
    """
    lets = [s for s in walk(function.body) if isinstance(s, Let)]
    written = {str(s.args[0]) for s in lets if s.op in _WRITES and active.intersection(
        a for a in (s.args[0], s.args[-1]) if isinstance(a, str))}
    for s in lets:
        if s.op == "load" and s.args[0] in written and s.attr != "once":
            raise refuse(function, s.line, f"{s.args[0]!r} is both read and written, "
                         "which has no derivative; write to another array, or give the "
                         "function a rule")


def check_repeated(function: Function, derivative: Function) -> None:
    """The derivative runs parts of `function` again.

    Raises
    ------
    NotDifferentiableError
        It would need a value that another thread gave, or that is overwritten.
    """
    changed = {str(s.args[0]) for s in walk(inline(function).body)
               if isinstance(s, Let) and s.op in _WRITES}
    lets = [s for s in walk(inline(derivative).body) if isinstance(s, Let)]
    changed |= {s.results[0] for s in lets if s.op == "shared"}
    for s in lets:
        if s.op in (LOST, "shuffle") or (s.op == "load" and s.args[0] in changed):
            what = _NEEDED.get(s.op) or f"an element of {s.args[0]!r}, which the " \
                "function changes"
            also = _INSTEAD if s.op == LOST else ""
            raise refuse(function, s.line, f"the derivative depends on {what}; give "
                                           f"the function a rule{also}")

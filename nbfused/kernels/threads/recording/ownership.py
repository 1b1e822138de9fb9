"""Check that a thread alone touches what it changes and reads: ``NBFUSED_DEBUG=1``.

Going backwards, each thread is in order, and nothing orders it with others but a
barrier those of its block.  An element that one thread changes and another one touches
has no derivative, whatever order they ran in.  The kernel is run once more on copies,
and notes who touches each element: which thread, or which block if it has barriers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ....arrays import to_numpy
from ....errors import GradientRaceError
from ....scalar.ir.build import Builder, inline
from ....scalar.ir.nodes import (
    Block,
    Function,
    Let,
    Statement,
    Value,
    defined,
    literal,
    rewrite,
    walk,
)
from ....scalar.ir.positions import launch_block, launch_thread
from ....specs import Raw
from ....specs.raw import WRITES
from ..arguments import FlatArguments
from ..launching import Options
from .recorder import counters, run_on_copies

__all__ = ["check_owners"]

#: What is noted of each element: who loads or stores it, who adds to it, and `_MARKS`.
_NOTES = ("owner", "adder", "marks")
_SEVERAL_OWNERS, _CHANGED, _SEVERAL_ADDERS = 1, 2, 4


def check_owners(spec: Raw, flat: FlatArguments, wanted: Sequence[bool],
                 options: Options) -> None:
    """Note which thread touches each element of arrays that are read and written.

    Parameters
    ----------
    spec, flat
        The kernel and its arguments.
    wanted
        For each of them, whether it has a derivative.

    Raises
    ------
    GradientRaceError
        One thread changes an element, and another one touches it.
    """
    arrays = tuple(p for p, w in zip(spec.function.params, wanted, strict=True)
                   if w and p in spec.revised)
    if not arrays:
        return
    leaves = dict(zip(spec.function.params, flat.leaves, strict=True))
    notes = {a: counters(_NOTES, leaves[a]) for a in arrays}
    more = [note for a in arrays for note in notes[a]]
    noted = Raw(_with_notes(spec.function, arrays),
                (*spec.kinds, *("array",) * len(more)))
    run_on_copies(noted, leaves, sorted(spec.written), more, options)
    for a in arrays:
        _check(spec, leaves[a].name, *(to_numpy(n.owner) for n in notes[a]))


def _check(spec: Raw, name: str, owner: np.ndarray, adder: np.ndarray,
           marks: np.ndarray) -> None:
    several = (marks & (_SEVERAL_OWNERS | _CHANGED)) == _SEVERAL_OWNERS | _CHANGED
    added = (owner != 0) & (adder != 0) & (
        (owner != adder) | (marks & _SEVERAL_ADDERS != 0))
    clash = several | added
    if clash.any():
        where = tuple(map(int, np.argwhere(clash)[0]))
        who = "block" if _synchronizes(spec.function) else "thread"
        raise GradientRaceError(
            f"{spec.name}: element {where} of '{name}' is changed by one {who} and "
            f"touched by another, one of them {who} {int(owner[where]) - 1}; an array "
            f"that is both read and written has a derivative where each {who} keeps to "
            "elements of its own. Read from one array and write to another, or give "
            "the kernel a rule")


def _synchronizes(function: Function) -> bool:
    return any(isinstance(s, Let) and s.op == "barrier" and s.attr == "block"
               for s in walk(inline(function).body))


@lru_cache(maxsize=256)
def _with_notes(function: Function, arrays: tuple[str, ...]) -> Function:
    """The function, which notes who touches the elements of `arrays`."""
    function = inline(function)
    b = Builder(defined(function.body) | set(function.params))
    number = launch_block(b) if _synchronizes(function) else launch_thread(b)
    owner = b.add(number, literal(1), "owner")

    def note(s: Let) -> list[Statement]:
        if s.op not in WRITES | {"load"} or s.args[0] not in arrays:
            return [s]
        return [*_noted(b, s, owner), s]

    body = rewrite(function.body, note)
    more = tuple(f"{a}.{what}" for a in arrays for what in _NOTES)
    return replace(function, name=f"{function.name}_owners",
                   params=(*function.params, *more),
                   body=Block((*b.statements, *body.statements), body.yields))


def _noted(b: Builder, s: Let, owner: Value) -> list[Statement]:
    """The notes of one access."""
    values = {"load": 0, "store": 1}.get(s.op, 2 if s.attr == "cas" else 1)
    index = s.args[1:len(s.args) - values]
    adds = s.op not in ("load", "store")
    who, several = ("adder", _SEVERAL_ADDERS) if adds else ("owner", _SEVERAL_OWNERS)
    b.line = s.line
    with b.region() as found:
        before = b.let("atomic", f"{s.args[0]}.{who}", *index, literal(0), owner,
                       attr="cas")
        alone = b.let("logical_or", b.let("eq", before, literal(0)),
                      b.let("eq", before, owner))
        mark = b.select(alone, literal(0), literal(several))
        if s.op != "load":
            mark = b.let("or", mark, literal(_CHANGED))
        b.let("atomic", f"{s.args[0]}.marks", *index, mark, attr="or")
    return found

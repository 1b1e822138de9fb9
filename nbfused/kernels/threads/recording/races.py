"""Check of accesses that promise to touch each element once: ``NBFUSED_DEBUG=1``.

The derivative of ``load_once`` adds without an atomic, and that of ``store_once`` reads
without an exchange; two threads at one element lose a part of the gradient, also where
one of them touches it by ``load``.  The kernel is run once more, with counters in place
of its stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from ....arrays import describe, to_numpy
from ....autograd.nodes import zeros
from ....errors import GradientRaceError
from ....scalar.ir.build import inline
from ....scalar.ir.clean import clean
from ....scalar.ir.nodes import (
    EFFECTS,
    Function,
    Let,
    Statement,
    literal,
    rewrite,
    walk,
)
from ....specs import Raw
from ..arguments import Leaf
from ..launching import Options, start_kernel

__all__ = ["check_once"]

_INT64 = np.dtype(np.int64)
#: What an access that promises to touch once adds to a counter; any other adds 1.
_ONCE = 1 << 32


def check_once(spec: Raw, leaves: Sequence[Leaf], wanted: Sequence[bool],
               options: Options) -> None:
    """Count how often each element is touched that is touched once.

    Parameters
    ----------
    spec, leaves
        The kernel and its arguments.
    wanted
        For each of them, whether it has a derivative.

    Raises
    ------
    GradientRaceError
        An element was touched twice by ``load_once`` or ``store_once``.
    """
    params = [p for p, w in zip(spec.function.params, wanted, strict=True) if w]
    counted = _with_counters(spec.function, tuple(params))
    counters = [p for p in params if f"{p}.count" in counted.params]
    if not counters:
        return
    by_name = dict(zip(spec.function.params, leaves, strict=True))
    counts = [zeros(by_name[p].value.shape, _INT64, by_name[p].owner,
                    by_name[p].value.device) for p in counters]
    more = [Leaf(p, describe(c), c) for p, c in zip(counters, counts, strict=True)]
    start_kernel(Raw(counted, (*spec.kinds, *("array",)*len(counts))),
                 [*leaves, *more], options)
    for p, count in zip(counters, counts, strict=True):
        _check(spec.name, by_name[p].name, to_numpy(count))


def _check(kernel: str, name: str, count: np.ndarray) -> None:
    if count.size and count.max() > _ONCE:
        where = tuple(map(int, np.unravel_index(count.argmax(), count.shape)))
        times = sum(divmod(int(count.max()), _ONCE))
        raise GradientRaceError(
            f"{kernel}: element {where} of '{name}' is touched {times} times, also by "
            "load_once or store_once, which promise once; use load and store")


@lru_cache(maxsize=256)
def _with_counters(function: Function, params: tuple[str, ...]) -> Function:
    """The function with counters of its accesses that promise to touch once."""
    function = inline(function)
    found = {str(s.args[0]) for s in walk(function.body)
             if isinstance(s, Let) and _promises(s)}
    counters = {p: f"{p}.count" for p in params if p in found}

    def count(s: Let) -> list[Statement]:
        kept: list[Statement] = [] if _stores(s) else [s]
        if s.op in ("load", "store") and s.args[0] in counters:
            index = s.args[1:] if s.op == "load" else s.args[1:-1]
            weight = literal(_ONCE if _promises(s) else 1)
            kept.append(Let((), "atomic_add", (counters[str(s.args[0])], *index,
                                               weight), None, s.line))
        return kept

    return clean(replace(function, name=f"{function.name}_count",
                         params=(*function.params, *counters.values()),
                         body=rewrite(function.body, count)))


def _promises(s: Let) -> bool:
    return s.op in ("load", "store") and s.attr == "once"


def _stores(s: Let) -> bool:
    return s.op in EFFECTS and not s.results and s.op != "barrier"

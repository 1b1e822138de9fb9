"""Runs of a kernel on copies of its arrays, which fill the tapes of its derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....arrays import Array, describe, to_numpy
from ....autograd.nodes import zeros
from ....dispatch.calls import COPY
from ....dispatch.execute import execute
from ....specs import Raw
from ..arguments import FlatArguments, Leaf
from ..launching import Options, start_kernel
from .tapes import Recorded, final_of, tape_of

__all__ = ["counters", "record_tapes", "run_on_copies"]

_INT64 = np.dtype(np.int64)


def record_tapes(derived: Recorded, flat: FlatArguments,
                 options: Options) -> list[Leaf]:
    """The tapes and finals that a derivative reads, filled by a run of the kernel.

    Parameters
    ----------
    derived
        The kernel's derivative.
    flat
        The arguments, as they were before the launch that is differentiated; they are
        not changed.
    options
        Of the launch.
    """
    if derived.recorder is None:
        return []
    leaves = dict(zip(derived.recorder.function.params, flat.leaves, strict=False))
    threads = prod(options.grid) * prod(options.block)
    rows = derived.rows
    if derived.counter is not None:
        counts = _zeros("rows", (threads,), _INT64, leaves[derived.tapes[0]])
        run_on_copies(derived.counter, leaves, derived.copied, [counts], options)
        rows = int(to_numpy(counts.owner).max())
    tapes = [_zeros(tape_of(leaves[a].name), (rows, threads), leaves[a].value.dtype,
                    leaves[a]) for a in derived.tapes]
    ran = run_on_copies(derived.recorder, leaves, derived.copied, tapes, options)
    return [*tapes, *(_leaf(final_of(leaves[a].name), ran[a]) for a in derived.finals)]


def counters(names: Sequence[str], like: Leaf) -> list[Leaf]:
    """Arrays of integers, zero at first, in the shape of an argument."""
    return [_zeros(f"{like.name}.{n}", like.value.shape, _INT64, like) for n in names]


def run_on_copies(spec: Raw, leaves: Mapping[str, Leaf], copied: Sequence[str],
                  more: Sequence[Leaf], options: Options) -> dict[str, Any]:
    """Launch a kernel on its arguments, copies of those that are named, and `more`.

    Returns the copies, as the kernel leaves them.
    """
    copies = {p: _copy(leaf) for p, leaf in leaves.items() if p in copied}
    given = [*(copies.get(p, leaf) for p, leaf in leaves.items()), *more]
    start_kernel(spec, given, options)
    return {p: leaf.owner for p, leaf in copies.items()}


def _copy(leaf: Leaf) -> Leaf:
    assert isinstance(leaf.value, Array)
    return _leaf(leaf.name, execute(COPY, (leaf.owner,),
                                    dtypes=(leaf.value.dtype,))[0])


def _zeros(name: str, shape: tuple[int, ...], dtype: np.dtype, like: Leaf) -> Leaf:
    return _leaf(name, zeros(shape, dtype, like.owner, like.value.device))


def _leaf(name: str, array: Any) -> Leaf:
    return Leaf(name, describe(array, name), array)

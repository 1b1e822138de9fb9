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
from ....scalar.autodiff.differentiate import jvp
from ....specs import Raw
from ..arguments import FlatArguments, Leaf
from ..launching import Options, start_kernel
from ..views import is_floating
from .tapes import Recorded, final_of, shared_dtypes, tape_of

__all__ = ["INT64", "blank", "counters", "record_changes", "record_tapes",
           "run_on_copies"]

INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


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
    tapes, _ = _blank_tapes(derived, leaves, options)
    ran = run_on_copies(derived.recorder, leaves, derived.copied, tapes, options)
    return [*tapes, *_finals(derived, leaves, ran)]


def record_changes(derived: Recorded, flat: FlatArguments, options: Options,
                   directions: Sequence[Leaf | None]) -> tuple[list[Leaf], list[Leaf]]:
    """The tapes and finals, and the changes of the tapes along `directions`.

    Parameters
    ----------
    derived, flat, options
        As for `record_tapes`.
    directions
        For each argument what it moves along, or None.
    """
    if derived.recorder is None:
        return [], []
    function, leaves = derived.recorder.function, dict(zip(
        derived.recorder.function.params, flat.leaves, strict=False))
    along = dict(zip(leaves, directions, strict=True))
    tangents = {p: _copy(along[p]) if along[p] is not None else  # type: ignore[arg-type]
                blank(f"{p}.change", leaf.value.shape, leaf.value.dtype, leaf)
                for p, leaf in leaves.items() if along[p] is not None or (
                    p in derived.recorder.revised and is_floating(leaf.value.dtype))}
    marks = tuple(p in tangents or p not in leaves for p in function.params)
    moving = Raw(jvp(function, marks),
                 (*derived.recorder.kinds, *("array",) * sum(marks)))
    tapes, changes = _blank_tapes(derived, leaves, options)
    ran = run_on_copies(moving, leaves, derived.copied,
                        [*tapes, *tangents.values(), *changes], options)
    return [*tapes, *_finals(derived, leaves, ran)], changes


def _blank_tapes(derived: Recorded, leaves: Mapping[str, Leaf],
                 options: Options) -> tuple[list[Leaf], list[Leaf]]:
    """Tapes of as many rows as the kernel takes, and as many for their changes."""
    assert derived.recorder is not None
    threads = prod(options.grid) * prod(options.block)
    rows, like = derived.rows, next(
        leaf for leaf in leaves.values() if type(leaf.value) is Array)
    if derived.counter is not None:
        counts = blank("rows", (threads,), INT64, like)
        run_on_copies(derived.counter, leaves, derived.copied, [counts], options)
        rows = int(to_numpy(counts.owner).max())
    types = shared_dtypes(derived.recorder.function)
    names = [tape_of(leaves[a].name if a in leaves else a) for a in derived.tapes]
    dtypes = [leaves[a].value.dtype if a in leaves else types[a] for a in derived.tapes]
    return [blank(n, (rows, threads), t, like)
            for n, t in zip(names, dtypes, strict=True)], [
        blank(f"{n}.change", (rows, threads), t if is_floating(t) else _FLOAT64, like)
        for n, t in zip(names, dtypes, strict=True)]


def _finals(derived: Recorded, leaves: Mapping[str, Leaf],
            ran: Mapping[str, Any]) -> list[Leaf]:
    """Arrays as the kernel left them."""
    return [_leaf(final_of(leaves[a].name), ran[a]) for a in derived.finals]


def counters(names: Sequence[str], like: Leaf) -> list[Leaf]:
    """Arrays of integers, zero at first, in the shape of an argument."""
    return [blank(f"{like.name}.{n}", like.value.shape, INT64, like) for n in names]


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


def blank(name: str, shape: tuple[int, ...], dtype: np.dtype, like: Leaf) -> Leaf:
    """An array of zeros in the library and on the device of an argument."""
    return _leaf(name, zeros(shape, dtype, like.owner, like.value.device))


def _leaf(name: str, array: Any) -> Leaf:
    return Leaf(name, describe(array, name), array)

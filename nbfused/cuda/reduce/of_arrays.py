"""A reduction of arrays that another launcher has: its kernels by their layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...backend import Call, Launcher, Signature
from ...specs import TypedReduce
from ...support.loop_nests import Group, canonical, flatten, stride_code
from ..map.of_arrays import Place
from .launcher import ReduceLauncher

__all__ = ["ReduceOfArrays"]


class ReduceOfArrays:
    """Launches a reduction along the last loop; kernels are made when first needed.

    Parameters
    ----------
    name
        Of the function.
    typed
        What to compute, without numbers.
    """

    def __init__(self, name: str, typed: TypedReduce) -> None:
        self._name, self._typed = name, typed
        self._launchers: dict[Signature, Launcher] = {}

    def __call__(self, call: Call, shape: tuple[int, ...], order: Sequence[int],
                 arrays: Sequence[Place], outputs: Sequence[Place]) -> None:
        """Launch on the stream of a call.

        Parameters
        ----------
        shape
            Extents of all loops.
        order
            Of the loops but the last, outermost first.
        arrays, outputs
            What is read and what is stored.
        """
        operands, groups, moved = [*arrays, *outputs], [], []
        for axes, of_results in ((order, 1), ((len(order),), 0)):
            group, offsets = canonical(Group(
                tuple(shape[x] for x in axes),
                tuple(tuple(s[x] for x in axes) for _, _, s in operands),
                (*[1]*len(arrays), *[of_results]*len(outputs)), True))
            groups.append(group)
            moved.append(offsets)
        nest = flatten(groups, moved)
        signature = Signature(
            tuple(d for d, _, _ in arrays), tuple(d for d, _, _ in outputs),
            nest.ranks, tuple(stride_code(s[-1]) for s in nest.strides))
        if signature not in self._launchers:
            self._launchers[signature] = ReduceLauncher(self._name, self._typed,
                                                        signature)
        self._launchers[signature](replace(
            call, shape=nest.shape, strides=nest.strides, scalars=(), pointers=tuple(
                p + at*d.itemsize for (d, p, _), at in zip(
                    operands, nest.offsets, strict=True))))

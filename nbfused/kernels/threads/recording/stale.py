"""Check that ``bwd`` gets arrays as they were before the launch: ``NBFUSED_DEBUG=1``.

A kernel notes what it finds and leaves in arrays that it both reads and writes.  Where
``bwd`` is given what was left, and running the kernel once more would change it again,
its values are not those that the launch has read.
"""

from __future__ import annotations

from typing import Any

from ....arrays import Array, to_numpy
from ....autograd.versions import checksum
from ....errors import InplaceModificationError
from ....specs import Raw
from ..arguments import FlatArguments
from ..launching import Options
from .recorder import run_on_copies

__all__ = ["Contents", "check_before", "contents_of"]

#: For a parameter the address of its array, and a checksum of its elements.
Contents = dict[str, tuple[int, int]]


def contents_of(spec: Raw, flat: FlatArguments) -> Contents:
    """The contents of arrays that a kernel reads and writes: addresses, checksums."""
    return {p: (leaf.value.pointer, checksum(leaf.owner))
            for p, leaf in zip(spec.function.params, flat.leaves, strict=True)
            if p in spec.revised and type(leaf.value) is Array}


def check_before(spec: Raw, flat: FlatArguments, options: Options, found: Contents,
                 left: Contents) -> None:
    """Compare arguments of ``bwd`` with what the last launch `found` and `left`.

    Raises
    ------
    InplaceModificationError
        They are as the launch left them, and not as it found them.
    """
    now = contents_of(spec, flat)
    suspects = [p for p in now if now[p] == left.get(p) != found.get(p)]
    if not suspects:
        return
    leaves = dict(zip(spec.function.params, flat.leaves, strict=True))
    again = run_on_copies(spec, leaves, sorted(spec.written), [], options)
    for p in suspects:
        if not _same(again[p], leaves[p].owner):
            raise InplaceModificationError(
                f"{spec.name}.bwd: '{leaves[p].name}' is as the launch of {spec.name} "
                "left it, and the derivative is taken from what the launch found; pass "
                "a copy made before the launch")


def _same(a: Any, b: Any) -> bool:
    return bool(((x := to_numpy(a)) == (y := to_numpy(b))).all() or
                x.tobytes() == y.tobytes())

"""Constant folding of cotangents that are 1 everywhere into the maps that read them.

``loss.backward()`` begins with a 1, and the pullback of a sum only repeats it.  A map
that would load it from memory has it as a constant instead: two kernels fewer, the one
that stores it and the one that views it; of a small swish(x).sum() both ways 24 of
69.5 µs (benchmarks/notes/host.md#what-a-launch-costs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..specs import Ref, Spec

__all__ = ["Steps", "fold"]

Shape = tuple[int, ...]
Aval = tuple[Shape, np.dtype]
#: As `nodes.Recipe.steps`.
Steps = tuple[tuple[int, Spec, tuple[Any, ...], Any], ...]

def fold(steps: Steps, ones: Mapping[Ref, Aval],
         shape_of: Callable[[Ref], Shape | None],
         ) -> tuple[Steps, dict[Ref, Aval]] | None:
    """Drop the steps whose results are 1 everywhere, and fold the 1 into their readers.

    Parameters
    ----------
    ones
        Cotangents that are.
    shape_of
        The shape of another array; None if it is not known.

    Returns
    -------
    steps
        Those that are left.
    ones
        All that is 1 everywhere.
    None
        A step has to read it from memory.
    """
    known, left = dict(ones), []
    for index, spec, inputs, dtypes in steps:
        read = [known.get(x) if isinstance(x, Ref) else None for x in inputs]
        if spec.rearranges and read[0] is not None:
            shape, dtype = read[0]
            known[Ref("step", index)] = spec.out_shapes((shape,))[0], dtype
        elif not any(read):
            left.append((index, spec, inputs, dtypes))
        elif not _extent_stays(spec, inputs, read, shape_of) or (
                folded := spec.with_ones(tuple(a and a[1] for a in read))) is None:
            return None
        else:
            left.append((index, folded, tuple(
                [x for x, a in zip(inputs, read, strict=True) if a is None]), dtypes))
    return tuple(left), known


def _extent_stays(spec: Spec, inputs: Sequence[Any], read: Sequence[Aval | None],
                  shape_of: Callable[[Ref], Shape | None]) -> bool:
    """Whether a spec runs over as much without the inputs that are ones.

    That is so if another input has their shape.
    """
    shapes = {a[0] for a in read if a is not None}
    others = {shape_of(x) for x, (kind, _), a in zip(
        inputs, spec.parameters, read, strict=True) if a is None and kind == "element"}
    return len(shapes) == 1 and shapes <= others

"""Constant folding of cotangents that are 1 everywhere into the maps that read them.

``loss.backward()`` begins with a 1, and the pullback of a sum only repeats it.  A map
that would load it from memory has it as a constant instead: two kernels fewer, the one
that stores it and the one that views it; of a small swish(x).sum() both ways 24 of
69.5 µs (benchmarks/notes/host.md#what-a-launch-costs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Value, literal
from ..specs import Map, Ref, Spec, View
from ..specs.map import IMPLICIT
from ..specs.vjp.functions import compose

__all__ = ["Steps", "fold"]

Shape = tuple[int, ...]
Aval = tuple[Shape, np.dtype]
#: As `nodes.Recipe.steps`.
Steps = tuple[tuple[int, Spec, tuple[Any, ...], Any], ...]

#: Views that show nothing but elements of their input.
_REARRANGE = frozenset({"reshape", "transpose", "broadcast", "expand", "squeeze",
                        "slice"})


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
        if isinstance(spec, View) and spec.kind in _REARRANGE and read[0] is not None:
            shape, dtype = read[0]
            known[Ref("step", index)] = spec.out_shapes((shape,))[0], dtype
        elif not any(read):
            left.append((index, spec, inputs, dtypes))
        elif isinstance(spec, Map) and _can_fold(spec, inputs, read, shape_of):
            folded = _with_constants(spec, tuple(a and a[1] for a in read))
            left.append((index, folded, tuple(
                [x for x, a in zip(inputs, read, strict=True) if a is None]), dtypes))
        else:
            return None
    return tuple(left), known


def _can_fold(spec: Map, inputs: Sequence[Any], read: Sequence[Aval | None],
              shape_of: Callable[[Ref], Shape | None]) -> bool:
    """Whether a map can take the constant 1 in place of the inputs that are ones.

    That one has their shape, so that the map runs over as much without them.
    """
    kinds = [kind for kind in spec.kinds if kind not in IMPLICIT]
    given = list(zip(inputs, kinds, read, strict=True))
    shapes = {a[0] for _, _, a in given if a is not None}
    others = {shape_of(x) for x, kind, a in given if a is None and kind == "element"}
    return len(shapes) == 1 and shapes <= others and all(
        kind == "element" for _, kind, a in given if a is not None)


@lru_cache(maxsize=1024)
def _with_constants(spec: Map, ones: tuple[np.dtype | None, ...]) -> Map:
    """The map with the constant 1 in place of some of its inputs."""
    function, given = spec.function, iter(ones)
    places = [None if kind in IMPLICIT else next(given)
              for kind in spec.kinds]
    kept = [k for k, dtype in enumerate(places) if dtype is None]

    def build(b: Builder) -> tuple[Value, ...]:
        return b.call(function, *(
            p if dtype is None else b.let("cast", literal(1.0), attr=dtype.name)
            for p, dtype in zip(function.params, places, strict=True)))

    made = compose(function.name, [function.params[k] for k in kept], build)
    return replace(spec, function=made, kinds=tuple([spec.kinds[k] for k in kept]))

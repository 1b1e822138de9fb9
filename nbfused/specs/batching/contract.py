"""A Contract over samples: a letter more in its subscripts.

Where one factor alone has samples they are rows of one larger product.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from string import ascii_letters

from ..base import KEPT, Batching, Program, Ref, Shape
from ..contract import Contract
from ..shapes import contract_shapes
from ..subscripts import parse_subscripts
from .layout import aligned, like_outputs, repeated

__all__ = ["contract_batched"]


@lru_cache(maxsize=KEPT)
def contract_batched(spec: Contract, batched: tuple[bool, ...],
                     shapes: tuple[Shape, ...], size: int) -> Batching | None:
    """The rule of a Contract: `Contract.batched`."""
    if any(has and kind == "scalar" for has, (kind, _) in zip(
            batched, spec.parameters, strict=True)):
        return None
    program = Program()
    rank = len(contract_shapes(spec.subscripts, *shapes[:2]))
    factors = [Ref("input", k) for k in (0, 1)]
    has = list(batched[:2])
    if not any(has):  # of what is added only: the product is that of one for each
        factors[0], has[0] = repeated(program, 0, shapes[0], len(shapes[0]), size), True
    extras = [aligned(program, k, shapes[k], rank) if batched[k] else Ref("input", k)
              for k in range(2, len(shapes))]
    axes = spec.out_axes
    made = replace(spec, subscripts=_with_samples(spec.subscripts, *has),
                   out_axes=axes and (0, *(axis + 1 for axis in axes)))
    outs = program.run(made, *factors, *extras,
                       like=like_outputs(len(spec.epilogue.results)))
    return Batching(tuple(program.steps), outs)


def _with_samples(subscripts: str, a: bool, b: bool) -> str:
    form = parse_subscripts(subscripts)
    letter = next(x for x in reversed(ascii_letters) if x not in subscripts)
    parts = [letter * has + "".join(labels)
             for labels, has in ((form.a, a), (form.b, b), (form.out, True))]
    return f"{parts[0]},{parts[1]}->{parts[2]}"

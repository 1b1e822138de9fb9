"""A spec run for many samples at once, by its own rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import dtype_of
from ...arrays.traced import TracedNumber
from ...errors import KernelTypeError
from ...scalar.typing.python_numbers import number_type
from ...specs import Ref, Spec
from ..nodes import NUMBERS
from ..tape import apply

__all__ = ["run_batched"]


def run_batched(spec: Spec, held: Sequence[Any], has: tuple[bool, ...],
                shapes: tuple[tuple[int, ...], ...], size: int,
                dtypes: Any) -> list[Any]:
    """Run `spec` for `size` samples, along axis 0 of the arrays that `has` marks.

    `shapes` are those of one sample.
    """
    spec.out_shapes(shapes)  # its messages are of one sample
    rule = spec.batched(has, shapes, size)
    if rule is None:
        raise KernelTypeError(
            f"vmap: {spec.name} has no rule for many samples at once; give it an "
            "axis for them and call it outside of vmap, or call it in a loop")
    launches = [step for step in rule.steps if step.spec.launches]
    if len(launches) > 1 and None in (dtypes or (None,)):
        natural = spec.result_types(tuple(map(_type, held)))
        dtypes = [a or b for a, b in zip(dtypes or (None,) * len(natural), natural,
                                         strict=True)]
    known: dict[Ref, Any] = {Ref("input", k): x for k, x in enumerate(held)}
    for k, step in enumerate(rule.steps):
        asked = None if dtypes is None or not step.spec.launches else tuple(
            [None if ref is None else dtypes[ref.index] for ref in step.like])
        outs = apply(step.spec, [known[x] if isinstance(x, Ref) else x
                                 for x in step.inputs], dtypes=asked)
        known |= {Ref("step", k, j): x for j, x in enumerate(outs)}
    return [known[ref] for ref in rule.results]


def _type(x: Any) -> Any:
    if isinstance(x, TracedNumber):
        return x.number_type
    return number_type(x) if isinstance(x, NUMBERS) else dtype_of(x)

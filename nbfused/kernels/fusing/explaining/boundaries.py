"""Reasons why two launches of a fused function are not one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....specs import Contract, Map, Reduce
from ....specs.fusion.graph import Launch, Value
from ....specs.fusion.partition import READS
from ....support.records import record
from ..parts import memory_of
from ..program import Opaque, read_by

__all__ = ["Boundary", "boundaries"]


@record(frozen=True)
class Boundary:
    """Between two launches of which one reads what the other stores.

    Attributes
    ----------
    before, after : int
        Positions of the launches.
    shape : tuple of int
        Of what is stored and read again.
    bytes : int
        Of that.
    reason : str
        Why they are not one launch.
    """

    before: int
    after: int
    shape: tuple[int, ...]
    bytes: int
    reason: str


def boundaries(launches: Sequence[Launch], size: Any) -> list[Boundary]:
    """Find what launches read of one another, and why it is stored.

    Parameters
    ----------
    launches
        In order, without those that only rearrange.
    size
        ``size(value)``: its bytes.
    """
    maker = {v: k for k, launch in enumerate(launches) for v in launch.outputs}
    readers: dict[Value, list[int]] = {}
    for k, launch in enumerate(launches):
        for v in dict.fromkeys(map(memory_of, _arrays(launch))):
            readers.setdefault(v, []).append(k)
    found: dict[tuple[int, int], Boundary] = {}
    for v, after in readers.items():
        before = maker.get(v, -1)
        for k in after if before >= 0 else ():
            if (before, k) not in found:
                found[before, k] = Boundary(before, k, v.shape, size(v), _reason(
                    launches[before], launches[k], v, len(after)))
    return sorted(found.values(), key=lambda one: (one.before, one.after))


def _arrays(launch: Launch) -> list[Value]:
    return [v for v in read_by(launch) if not v.by_value]


def _reason(before: Launch, after: Launch, value: Value, readers: int) -> str:
    for launch in (before, after):
        if isinstance(launch.spec, Opaque):
            return f"{_name(launch)} is called in Python"
    kinds = [kind for x, (kind, _) in zip(after.inputs, after.spec.parameters,
                                          strict=True)
             if isinstance(x, Value) and memory_of(x) is value]
    if isinstance(after.spec, Contract) and any(
            isinstance(x, Value) and memory_of(x) is value for x in after.inputs[:2]):
        return "the product reads each element of its operand many times"
    if "raw" in kinds:
        return f"{_name(after)} reads it at indices that are computed"
    if isinstance(before.spec, Map) and before.spec.scatter_shapes:
        return f"{_name(before)} adds to places that are computed"
    if isinstance(before.spec, Contract):
        return _after_product(after, value)
    elements = isinstance(before.spec, Map) or (
        isinstance(before.spec, Reduce)
        and before.outputs.index(value) < before.spec.stored)
    if not elements:
        whole = "all that it combines" if isinstance(before.spec, Reduce) else \
            "its whole row"
        return f"a result of {_name(before)} is known when {whole} was read"
    if readers > 1:
        return f"{readers} launches read it: it is computed once and stored"
    return _between_maps(before, after, value)


def _after_product(after: Launch, value: Value) -> str:
    if isinstance(after.spec, Reduce):
        return "the sum runs over results of several tiles of the product"
    if isinstance(after.spec, Map):
        return (f"{_name(after)} also needs what is not there when the product stores "
                "its elements")
    if isinstance(after.spec, Contract):
        return "one product is complete before the other stores its elements"
    return "a row is spread over several tiles of the product"


def _between_maps(before: Launch, after: Launch, value: Value) -> str:
    if after.outputs and after.outputs[0].shape != value.shape \
            and not isinstance(after.spec, Reduce):
        return (f"the launches run over different shapes, {value.shape} and "
                f"{after.outputs[0].shape}")
    arrays = {*_arrays(before), *_arrays(after)}
    if len(arrays) > READS:
        return (f"together they read {len(arrays)} arrays, of which a launch takes "
                f"{READS}")
    if isinstance(after.spec, Map) and after.spec.windows is not None:
        return ("it is read at other points than where it is computed, several times "
                "for each: it is computed once and stored")
    return f"{_name(after)} is a kernel that takes no other's steps"


def _name(launch: Launch) -> str:
    spec = launch.spec
    if isinstance(spec, Opaque):
        return str(getattr(spec.function, "__name__", type(spec.function).__name__))
    return str(spec.name)

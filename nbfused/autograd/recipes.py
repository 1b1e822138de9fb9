"""Recipes of pullbacks: which steps compute the wanted cotangents, prepared once.

A recipe is derived from a spec's pullback for the cotangents that have come and those
that are wanted.  It lays all arrays that its steps read out in one list: what the node
has saved, the cotangents, numbers, then the outputs of each step; a step picks its
inputs from there by position, and calls its spec by a direct call.

``loss.backward()`` begins with a 1, and the pullback of a sum only repeats it.  A map
that would load it from memory has it as a constant instead: two kernels fewer, the one
that stores it and the one that views it; of a small swish(x).sum() both ways 24 of
69.5 µs (benchmarks/notes/host.md#what-a-launch-costs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from ..scalar.typing.types import Type
from ..specs import Pullback, Ref, Spec
from ..support.records import record
from .graph import Dtypes, Ones, RepeatedCall

__all__ = ["Picker", "PullStep", "Recipe", "derive", "picker"]

Shape = tuple[int, ...]
#: Shape and dtype of an array.
Form = tuple[Shape, np.dtype]
#: Number of a step in the pullback, its spec, inputs, and dtypes of its outputs.
Steps = tuple[tuple[int, Spec, tuple[Any, ...], Any], ...]
#: Position of a cotangent, the dtype to cast it to; or -1 and the dtype and shape of
#: one that is 1 everywhere.
Result = tuple[int, Type | None, Shape | None]
#: Takes some elements of a sequence.
Picker = Callable[[Sequence[Any]], Sequence[Any]]


class PullStep(RepeatedCall):
    """A step of a recipe.

    Attributes
    ----------
    pick
        Takes its inputs from the list of the recipe.
    """

    __slots__ = ("pick",)

    def __init__(self, spec: Spec, pick: Picker, dtypes: Dtypes | None) -> None:
        super().__init__(spec, dtypes)
        self.pick = pick


@record
class Recipe:
    """The steps of a pullback that compute the wanted cotangents.

    Attributes
    ----------
    inputs, outputs
        Numbers of the saved arrays that come first in the list; the cotangents follow.
    constants
        Numbers that follow these.
    steps
        In order.
    results
        For each input of the node its cotangent; None where that is zero.
    complete
        Whether each tracked result has to have a cotangent, zeros if need be: without
        one of them the steps would read what was not saved, be it for its extents.
    """

    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    constants: tuple[Any, ...] = ()
    steps: tuple[PullStep, ...] = ()
    results: tuple[Result | None, ...] = ()
    complete: bool = False


def derive(pullback: Pullback, wanted: Sequence[bool], cotangents: Sequence[Any | None],
           inputs: tuple[Type, ...], outputs: tuple[np.dtype, ...],
           shape_of: Callable[[Ref], Shape | None]) -> Recipe | None:
    """Derive a recipe; None if cotangents of ones must be stored.

    Parameters
    ----------
    inputs, outputs
        Types of the inputs and outputs of the node.
    shape_of
        The shape of one of its arrays; None if it is not known.
    """
    results = [ref if want else None
               for ref, want in zip(pullback.results, wanted, strict=True)]
    live = _live_steps(pullback, results)
    steps: Steps = tuple([
        (k, step.spec, step.inputs, _dtypes(pullback, step.like, inputs, outputs))
        for k, step in enumerate(pullback.steps) if k in live])
    ones = {Ref("cotangent", k): (c.shape, c.dtype)
            for k, c in enumerate(cotangents) if type(c) is Ones}
    folded = fold(steps, ones, shape_of) if ones else (steps, ones)
    if folded is None:
        return None
    steps, ones = folded
    return _laid_out(steps, ones, results, inputs, outputs, len(cotangents))


def _laid_out(steps: Steps, ones: Mapping[Ref, tuple[Shape, np.dtype]],
              results: Sequence[Ref | None], inputs: tuple[Type, ...],
              outputs: tuple[np.dtype, ...], cotangents: int) -> Recipe:
    """Give every array its place in the list."""
    read = [x for _, _, given, _ in steps for x in given]
    refs = [*filter(None, results), *(x for x in read if isinstance(x, Ref))]
    first, second = (tuple(sorted({r.index for r in refs if r.source == source}))
                     for source in ("input", "output"))
    constants = tuple(x for x in read if not isinstance(x, Ref))
    order = [*(Ref("input", k) for k in first), *(Ref("output", k) for k in second),
             *(Ref("cotangent", k) for k in range(cotangents)), *constants]
    types: dict[Any, Type | None] = {
        **{Ref("input", k): t for k, t in enumerate(inputs)},
        **{Ref("output", k): t for k, t in enumerate(outputs)},
        **{Ref("cotangent", k): t for k, t in enumerate(outputs)}}
    place = {ref: k for k, ref in enumerate(order) if isinstance(ref, Ref)}
    end, numbers = len(order), iter(range(len(place), len(order)))
    made = []
    for index, spec, given, dtypes in steps:
        at = [place[x] if isinstance(x, Ref) else next(numbers) for x in given]
        plain = not spec.launches and len(given) == 1 and (
            dtypes[0] is None or _same(types.get(given[0]), dtypes[0]))
        for k, dtype in enumerate((types.get(given[0]),) if plain else dtypes):
            place[Ref("step", index, k)], types[Ref("step", index, k)] = end, dtype
            end += 1
        asked = None if plain or all(d is None for d in dtypes) else dtypes
        made.append(PullStep(spec, picker(at), asked))
    return Recipe(first, second, constants, tuple(made), tuple([
        None if ref is None else
        (-1, dtype, ones[ref][0]) if ref in ones else
        (place[ref], None if ref.source == "step" and _same(types.get(ref), dtype)
         else dtype, None) for ref, dtype in zip(results, inputs, strict=True)]))


def _same(a: Type | None, b: Type) -> bool:
    """Whether a type is known and equal; NumPy's float64 is equal to None."""
    return a is not None and a == b


def picker(places: Sequence[int]) -> Picker:
    """A function that takes these elements of a sequence, written in C."""
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))


def _live_steps(pullback: Pullback, results: Sequence[Ref | None]) -> set[int]:
    """Numbers of the steps that `results` depend on."""
    stack = [ref.index for ref in results if ref is not None and ref.source == "step"]
    live: set[int] = set()
    while stack:
        index = stack.pop()
        if index not in live:
            live.add(index)
            stack.extend(ref.index for ref in pullback.steps[index].inputs
                         if isinstance(ref, Ref) and ref.source == "step")
    return live


def _dtypes(pullback: Pullback, like: Sequence[Ref | None], inputs: tuple[Type, ...],
            outputs: tuple[np.dtype, ...]) -> Dtypes:
    """The dtype of each output of a step; None for what the spec says."""

    def dtype(ref: Ref | None) -> np.dtype | None:
        if ref is None:
            return None
        if ref.source == "step":
            return dtype(pullback.steps[ref.index].like[ref.output])
        if ref.source == "input":
            found = inputs[ref.index]
            return found if isinstance(found, np.dtype) else None
        return outputs[ref.index]

    return tuple([dtype(ref) for ref in like])


def fold(steps: Steps, ones: Mapping[Ref, Form],
         shape_of: Callable[[Ref], Shape | None],
         ) -> tuple[Steps, dict[Ref, Form]] | None:
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


def _extent_stays(spec: Spec, inputs: Sequence[Any], read: Sequence[Form | None],
                  shape_of: Callable[[Ref], Shape | None]) -> bool:
    """Whether a spec runs over as much without the inputs that are ones.

    That is so if another input has their shape.
    """
    shapes = {a[0] for a in read if a is not None}
    others = {shape_of(x) for x, (kind, _), a in zip(
        inputs, spec.parameters, read, strict=True) if a is None and kind == "element"}
    return len(shapes) == 1 and shapes <= others

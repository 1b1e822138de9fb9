"""The node of a spec that was run: what it saves, and how it is pulled back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import BFLOAT16, dtype_of
from ..scalar.types import Type
from ..specs import Pullback, Ref, Spec, Step
from .graph import COPY, Edge, Node, Pass
from .versions import Saved

__all__ = ["Identity", "Plan", "SpecNode", "is_floating", "is_number", "plan"]

Shapes = tuple[tuple[int, ...], ...]
Dtypes = tuple[np.dtype | None, ...]


def is_number(x: Any) -> bool:
    """Whether `x` is passed by value."""
    return isinstance(x, (bool, int, float, complex, np.generic))


def is_floating(dtype: np.dtype) -> bool:
    """Whether arrays of `dtype` have a gradient."""
    return dtype.kind == "f" or dtype == BFLOAT16


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided when a tracked spec runs, before its pullback is needed.

    Attributes
    ----------
    forward
        What to run: the user's results, then state to save.
    tracked
        For each of the user's results, whether it takes a cotangent.
    wants
        For each input, whether a cotangent will be made for it.
    inputs, outputs
        Which of them to keep.
    extra
        How many outputs `forward` has besides the user's.
    recipes
        What was found out for pullbacks of such nodes.
    """

    forward: Spec
    tracked: tuple[bool, ...]
    wants: tuple[bool, ...]
    inputs: frozenset[int]
    outputs: frozenset[int]
    extra: int
    recipes: dict[Any, Recipe] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The steps of a pullback that the wanted cotangents need.

    Attributes
    ----------
    steps
        Number of the step in the pullback, its spec, inputs, and dtypes of its outputs.
    results
        For each input, its cotangent and the dtype that it should have.
    """

    steps: tuple[tuple[int, Spec, tuple[Any, ...], Dtypes | None], ...]
    results: tuple[tuple[Ref, Type] | None, ...]


@lru_cache(maxsize=4096)
def plan(spec: Spec, needs: tuple[bool, ...], shapes: Shapes, types: tuple[Type, ...],
         dtypes: Dtypes | None) -> Plan | None:
    """How to run `spec` so that it can be pulled back; None if it has no gradient."""
    found = spec.result_types(types)
    asked = dtypes or (None,) * len(found)
    tracked = tuple(is_floating(want or have)
                    for want, have in zip(asked, found, strict=True))
    if not any(tracked):
        return None
    pullback = spec.vjp(needs, shapes, tracked)
    wants = tuple(ref is not None for ref in pullback.results)
    if not any(wants):
        return None
    extra = len(pullback.forward.result_types(types)) - len(found)
    return Plan(pullback.forward, tracked, wants, pullback.keeps("input"),
                pullback.keeps("output"), extra)


class Identity(Node):
    """The input under another name: what a transform differentiates by."""

    __slots__ = ()

    def __init__(self, edge: Edge) -> None:
        super().__init__("identity", (edge,), 1)

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """The cotangent itself."""
        return cotangents


class SpecNode(Node):
    """A spec that was run on tracked arrays.

    Numbers are kept as they are; of the arrays, only those that the steps read.
    """

    __slots__ = ("dtypes", "needs", "recipes", "results", "saved_inputs",
                 "saved_outputs", "shapes", "spec")

    def __init__(self, plan: Plan, needs: tuple[bool, ...],
                 edges: Sequence[Edge | None], inputs: Sequence[Any],
                 outputs: Sequence[Any], shapes: Shapes, types: tuple[Type, ...],
                 names: Sequence[str]) -> None:
        spec = plan.forward
        super().__init__(spec.name, edges, len(outputs))
        self.spec = spec
        self.needs = needs
        self.shapes = shapes
        self.dtypes = types
        self.recipes = plan.recipes
        self.results = tuple(map(dtype_of, outputs))
        self.saved_inputs = {
            k: inputs[k] if is_number(inputs[k])
            else Saved(inputs[k], _label(k, names, self.name))
            for k in plan.inputs}
        self.saved_outputs = {k: Saved(outputs[k], f"the result of {self.name}")
                              for k in plan.outputs}

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Run the steps of the spec's pullback that the wanted cotangents need."""
        key = (tuple([c is not None for c in cotangents]), tuple(wanted), self.results)
        recipe = self.recipes.get(key)
        if recipe is None:
            recipe = self.recipes[key] = self._recipe(*key[:2])
        made: dict[int, Sequence[Any]] = {}

        def fetch(ref: Any) -> Any:
            if not isinstance(ref, Ref):
                return ref  # a number
            match ref.source:
                case "cotangent":
                    return cotangents[ref.index]
                case "step":
                    return made[ref.index][ref.output]
            return self._saved(ref, mode)

        for index, spec, inputs, dtypes in recipe.steps:
            made[index] = mode.run(spec, tuple([fetch(x) for x in inputs]),
                                   dtypes=dtypes)
        return [None if result is None else _as(fetch(result[0]), result[1], mode)
                for result in recipe.results]

    def _recipe(self, present: tuple[bool, ...], wanted: tuple[bool, ...]) -> Recipe:
        pullback = self.spec.vjp(self.needs, self.shapes, present)
        results = [ref if want else None
                   for ref, want in zip(pullback.results, wanted, strict=True)]
        live = _live(pullback, results)
        return Recipe(
            tuple([(k, step.spec, step.inputs, self._dtypes(pullback, step))
                   for k, step in enumerate(pullback.steps) if k in live]),
            tuple([None if ref is None else (ref, dtype)
                   for ref, dtype in zip(results, self.dtypes, strict=True)]))

    def _saved(self, ref: Ref, mode: Pass) -> Any:
        if ref.source == "output":
            return mode.lift(self.saved_outputs[ref.index].load(), (self, ref.index))
        kept = self.saved_inputs[ref.index]
        return mode.lift(kept.load(), self.edges[ref.index]) \
            if isinstance(kept, Saved) else kept

    def _dtypes(self, pullback: Pullback, step: Step) -> Dtypes | None:
        found = tuple(self._dtype(pullback, ref) for ref in step.like)
        return found if any(d is not None for d in found) else None

    def _dtype(self, pullback: Pullback, ref: Ref | None) -> np.dtype | None:
        if ref is None:
            return None
        match ref.source:
            case "input":
                dtype = self.dtypes[ref.index]
                return dtype if isinstance(dtype, np.dtype) else None
            case "step":
                return self._dtype(pullback, pullback.steps[ref.index].like[ref.output])
        return self.results[ref.index]

    def arrays(self) -> list[Saved]:
        """Every array that is kept, in a fixed order."""
        kept = (*self.saved_inputs.values(), *self.saved_outputs.values())
        return [saved for saved in kept if isinstance(saved, Saved)]

    def release(self) -> None:
        """Let go of what was saved."""
        super().release()
        self.saved_inputs = {}
        self.saved_outputs = {}


def _label(k: int, names: Sequence[str], op: str) -> str:
    return f"argument {names[k]!r} of {op}" if k < len(names) else f"input {k} of {op}"


def _live(pullback: Pullback, results: Sequence[Ref | None]) -> set[int]:
    """The steps that `results` depend on."""
    stack = [ref.index for ref in results if ref is not None and ref.source == "step"]
    live: set[int] = set()
    while stack:
        index = stack.pop()
        if index not in live:
            live.add(index)
            stack.extend(ref.index for ref in pullback.steps[index].inputs
                         if isinstance(ref, Ref) and ref.source == "step")
    return live


def _as(cotangent: Any, dtype: Type, mode: Pass) -> Any:
    """The cotangent in the dtype of its input."""
    if dtype_of(cotangent) == dtype:
        return cotangent
    return mode.run(COPY, (cotangent,), dtypes=(dtype,))[0]

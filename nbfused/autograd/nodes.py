"""The graph node of a spec: the arrays it saves, and its pullback."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

import numpy as np

from ..arrays import describe, dtype_of, library_of
from ..dispatch import execute
from ..dispatch.traced import Traced, TracedNumber
from ..errors import KernelTypeError, NotDifferentiableError
from ..scalar.typing.types import Type
from ..specs import Pullback, Ref, Spec, Step
from ..specs.base import KEPT
from ..support.dtypes import number_kind
from ..support.records import record
from .folding import Steps, fold
from .graph import COPY, ZERO, Edge, GraphArray, Node, Ones, Pass
from .versions import Saved

__all__ = [
    "Aval", "Identity", "RecordingPlan", "SpecNode", "check_differentiable",
    "is_floating", "is_number", "plan", "zeros",
]

#: Shape, dtype and device of an array.
Aval = tuple[tuple[int, ...], Any, str]
Shapes = tuple[tuple[int, ...], ...]
Dtypes = tuple[np.dtype | None, ...]


def is_number(x: Any) -> bool:
    """Whether `x` is a number that is passed by value."""
    return isinstance(x, (bool, int, float, complex, np.generic, TracedNumber))


def is_floating(dtype: np.dtype) -> bool:
    """Whether arrays of `dtype` can have a gradient."""
    return number_kind(dtype) == "f"


def check_differentiable(dtype: np.dtype) -> None:
    """Check that gradients of `dtype` are defined.

    Raises
    ------
    NotDifferentiableError
        Complex numbers.
    KernelTypeError
        Integers or booleans.
    """
    if dtype.kind == "c":
        raise NotDifferentiableError(
            f"requires_grad: gradients of {dtype} are not defined here; differentiate "
            "by the real and the imaginary part")
    if not is_floating(dtype):
        raise KernelTypeError(
            f"requires_grad: dtype {dtype} has no gradient; expected float16, "
            "bfloat16, float32 or float64: use x.astype('float32')")


@record(frozen=True)
class RecordingPlan:
    """A plan to record a tracked spec: the forward spec, and the arrays to save.

    Attributes
    ----------
    forward
        What to run: the user's results, then state to save.
    needs, shapes, types
        Of the inputs: whether they are tracked; of numbers the shape is ().
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
    needs: tuple[bool, ...]
    shapes: Shapes
    types: tuple[Type, ...]
    tracked: tuple[bool, ...]
    wants: tuple[bool, ...]
    inputs: frozenset[int]
    outputs: frozenset[int]
    extra: int
    recipes: dict[Any, Recipe | None] = field(default_factory=dict, compare=False)


@record(frozen=True)
class Recipe:
    """The steps of a pullback that compute the wanted cotangents.

    Attributes
    ----------
    steps
        Number of the step in the pullback, its spec, inputs, and dtypes of its outputs.
    results
        For each input, its cotangent and the dtype that it should have.  In place of
        one that is 1 everywhere its shape.
    complete
        Whether each tracked result has to have a cotangent, zeros if need be: without
        one of them the steps would read what was not saved, be it for its extents.
    """

    steps: Steps
    results: tuple[tuple[Ref | tuple[int, ...], Type] | None, ...]
    complete: bool = False


@lru_cache(maxsize=KEPT)
def plan(spec: Spec, needs: tuple[bool, ...], shapes: Shapes, types: tuple[Type, ...],
         dtypes: Dtypes | None) -> RecordingPlan | None:
    """Plan how to record `spec`; None if it has no gradient.

    Raises
    ------
    NotDifferentiableError
        A result is complex: the gradient would be lost in silence.
    """
    found = spec.result_types(types)
    asked = dtypes or (None,) * len(found)
    results = [want or have for want, have in zip(asked, found, strict=True)]
    for dtype in results:
        if dtype.kind == "c":
            raise NotDifferentiableError(
                f"{spec.name}: an input requires grad and the result is {dtype}, "
                "through which no gradient is defined here; use x.detach(), or compute "
                "with the real and the imaginary part")
    tracked = tuple(map(is_floating, results))
    if not any(tracked):
        return None
    pullback = spec.vjp(needs, shapes, tracked)
    wants = tuple(ref is not None for ref in pullback.results)
    if not any(wants):
        return None
    extra = len(pullback.forward.result_types(types)) - len(found)
    return RecordingPlan(pullback.forward, needs, shapes, types, tracked, wants,
                         pullback.keeps("input"), pullback.keeps("output"), extra)


class Identity(Node):
    """A node that passes its input through: a transform's copy of an argument."""

    __slots__ = ()

    def __init__(self, edge: Edge) -> None:
        super().__init__("identity", (edge,), 1)

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Return the cotangents unchanged."""
        return cotangents


class SpecNode(Node):
    """The graph node of a spec that was run on tracked arrays.

    Untracked numbers are kept as they are; of the arrays, only those that the steps
    read.  A tracked input may be a NumPy scalar, and is never a constant.
    """

    takes_ones = True
    __slots__ = ("plan", "results", "saved_inputs", "saved_outputs")

    def __init__(self, plan: RecordingPlan, edges: Sequence[Edge | None],
                 inputs: Sequence[Any], outputs: Sequence[Any],
                 results: tuple[np.dtype, ...],
                 names: Sequence[str]) -> None:
        """`results` are the dtypes of the outputs, `names` those of the inputs."""
        name = plan.forward.name
        super().__init__(name, edges, len(outputs))
        self.plan: RecordingPlan = plan
        self.results: tuple[np.dtype, ...] = results
        saved: dict[int, Any] = {}
        for k in plan.inputs:
            x = inputs[k]
            constant = self.edges[k] is None and is_number(x)
            saved[k] = x if constant else Saved(x, (k, names, name))
        self.saved_inputs: dict[int, Any] = saved
        self.saved_outputs: dict[int, Saved] = {
            k: Saved(outputs[k], f"the result of {name}")
            for k in plan.outputs} if plan.outputs else {}

    @property
    def spec(self) -> Spec:
        """The forward spec."""
        return self.plan.forward

    @property
    def shapes(self) -> Shapes:
        """Shapes of the inputs."""
        return self.plan.shapes

    @property
    def dtypes(self) -> tuple[Type, ...]:
        """Dtypes of the inputs."""
        return self.plan.types

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Run the steps of the spec's pullback that the wanted cotangents need."""
        recipes = self.plan.recipes
        key = (tuple([c is not None and (type(c) is not Ones or (c.shape, c.dtype))
                      for c in cotangents]), tuple(wanted), self.results)
        if key in recipes:
            recipe = recipes[key]
        else:
            recipe = recipes[key] = self._recipe(cotangents, wanted)
        if recipe is None:
            return self.pull([c.array(mode) if type(c) is Ones else c
                              for c in cotangents], wanted, mode)
        if recipe.complete:
            return self.pull(self._with_zeros(cotangents, mode), wanted, mode)
        made: dict[int, Sequence[Any]] = {}

        def fetch(ref: Any) -> Any:
            if type(ref) is not Ref:
                return ref  # a number
            if ref.source == "cotangent":
                return cotangents[ref.index]
            if ref.source == "step":
                return made[ref.index][ref.output]
            return self._saved(ref, mode)

        for index, spec, inputs, dtypes in recipe.steps:
            made[index] = mode.run(spec, tuple([fetch(x) for x in inputs]),
                                   dtypes=dtypes)
        pulled: list[Any | None] = []
        for result in recipe.results:
            if result is None:
                pulled.append(None)
            elif isinstance(result[0], Ref):
                pulled.append(_cast(fetch(result[0]), result[1], mode))
            else:
                like = next(c.like for c in cotangents if type(c) is Ones)
                pulled.append(Ones(result[0], result[1], like))
        return pulled

    def _recipe(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
                ) -> Recipe | None:
        """Derive the pullback steps; None if cotangents of ones must be stored."""
        pullback = self.spec.vjp(self.plan.needs, self.shapes,
                                 tuple([c is not None for c in cotangents]))
        if not self._has_saved(pullback) and any(t and c is None for t, c in zip(
                self.plan.tracked, cotangents, strict=False)):
            return Recipe((), (), complete=True)
        results = [ref if want else None
                   for ref, want in zip(pullback.results, wanted, strict=True)]
        live = _live_steps(pullback, results)
        steps = tuple([(k, step.spec, step.inputs, self._dtypes(pullback, step))
                       for k, step in enumerate(pullback.steps) if k in live])
        ones = {Ref("cotangent", k): (c.shape, c.dtype)
                for k, c in enumerate(cotangents) if type(c) is Ones}
        folded = fold(steps, ones, self._shape) if ones else (steps, ones)
        if folded is None:
            return None
        steps, ones = folded
        return Recipe(steps, tuple([
            None if ref is None else (ones[ref][0] if ref in ones else ref, dtype)
            for ref, dtype in zip(results, self.dtypes, strict=True)]))

    def _has_saved(self, pullback: Pullback) -> bool:
        """Whether everything that the pullback reads was saved."""
        return pullback.keeps("input") <= self.saved_inputs.keys() \
            and pullback.keeps("output") <= self.saved_outputs.keys()

    def _with_zeros(self, cotangents: Sequence[Any | None], mode: Pass) -> list[Any]:
        """The cotangents, with zeros for tracked results without one."""
        some = next(c for c in cotangents if c is not None)
        like = some.like if type(some) is Ones else \
            some.data if isinstance(some, GraphArray) else some
        given: list[Any] = list(cotangents)
        shapes = self.spec.out_shapes(self.shapes)
        for k, tracked in enumerate(self.plan.tracked):
            if tracked and given[k] is None:
                given[k] = mode.lift(zeros(shapes[k], self.results[k], like), None)
        return given

    def _shape(self, ref: Ref) -> tuple[int, ...] | None:
        if ref.source == "input":
            return self.shapes[ref.index]
        if ref.source == "output" and ref.index in self.saved_outputs:
            return tuple(self.saved_outputs[ref.index].data.shape)
        return None

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
        """All saved arrays, in a fixed order."""
        kept = (*self.saved_inputs.values(), *self.saved_outputs.values())
        return [saved for saved in kept if isinstance(saved, Saved)]

    def release(self) -> None:
        """Drop the saved arrays."""
        super().release()
        self.saved_inputs = {}
        self.saved_outputs = {}


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


def zeros(shape: tuple[int, ...], dtype: Any, like: Any,
          device: str | None = None) -> Any:
    """An array of zeros of `like`'s library, by default on its device."""
    if isinstance(like, Traced):
        return like.zeros(shape, dtype)
    library = library_of(like)
    space = library.finish(library.empty(shape, dtype, device or describe(like).device))
    return execute(ZERO, (space,), dtypes=(dtype,))[0]


def _cast(cotangent: Any, dtype: Type, mode: Pass) -> Any:
    """Cast a cotangent to the dtype of its input."""
    if dtype_of(cotangent) == dtype:
        return cotangent
    return mode.run(COPY, (cotangent,), dtypes=(dtype,))[0]

"""The graph node of a spec: the arrays it saves, and its pullback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any
from weakref import ref

import numpy as np

from ..arrays import describe, dtype_of, library_of
from ..arrays.detect import is_lazy
from ..arrays.traced import Traced, TracedNumber
from ..dispatch import execute
from ..errors import KernelTypeError
from ..scalar.typing.types import Type
from ..specs import Pullback, Ref, Spec
from ..specs.base import KEPT
from ..specs.vjp.on_complex import is_complex, spec_on_complex
from ..support.dtypes import number_kind
from ..support.records import record
from .graph import COPY, ORDER, ZERO, Edge, GraphArray, Node, Ones, Pass
from .recipes import Recipe, derive
from .versions import Saved

__all__ = [
    "NUMBERS", "Aval", "CachedRecording", "Identity", "RecordingPlan", "SpecNode",
    "check_differentiable", "is_floating", "is_number", "plan", "zeros",
]

#: Shape, dtype and device of an array.
Aval = tuple[tuple[int, ...], Any, str]
Shapes = tuple[tuple[int, ...], ...]
Dtypes = tuple[np.dtype | None, ...]


#: Types of numbers that are passed by value.
NUMBERS = (bool, int, float, complex, np.generic, TracedNumber)


def is_number(x: Any) -> bool:
    """Whether `x` is a number that is passed by value."""
    return isinstance(x, NUMBERS)


def is_floating(dtype: np.dtype) -> bool:
    """Whether arrays of `dtype` can have a gradient: floats and complex numbers."""
    return number_kind(dtype) in "fc"


def check_differentiable(dtype: np.dtype) -> None:
    """Check that gradients of `dtype` are defined.

    Raises
    ------
    KernelTypeError
        Integers or booleans.
    """
    if not is_floating(dtype):
        raise KernelTypeError(
            f"requires_grad: dtype {dtype} has no gradient; expected float16, "
            "bfloat16, float32, float64 or complex numbers: use x.astype('float32')")


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
    complex
        Whether an input or a result is: PyTorch's gradients of it are conjugates.
    """

    forward: Spec
    needs: tuple[bool, ...]
    shapes: Shapes
    types: tuple[Type, ...]
    tracked: tuple[bool, ...]
    wants: tuple[bool, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    extra: int
    complex: bool = False


@record
class CachedRecording:
    """The common part of recorded calls of a spec with equal types, shapes, dtypes.

    Attributes
    ----------
    plan
        None if there is nothing to differentiate.
    name, tracked
        The forward spec's name, the plan's `tracked`.
    direct
        `dispatch.direct_call`, once there has been a call.
    results
        Dtypes.
    recipes
        How to pull back, by the types of the cotangents and by those that are wanted;
        None where cotangents of ones must be stored.
    view
        Whether it is a view.
    taped
        What another library's tape keeps of a call; None before there has been one.
    """

    plan: RecordingPlan | None
    name: str = ""
    tracked: tuple[bool, ...] = ()
    direct: Callable[..., Any] | None = None
    results: tuple[np.dtype, ...] = ()
    recipes: dict[Any, Recipe | None] = field(default_factory=dict)
    taped: Any = None
    view: bool = False


@lru_cache(maxsize=KEPT)
def plan(spec: Spec, needs: tuple[bool, ...], shapes: Shapes, types: tuple[Type, ...],
         dtypes: Dtypes | None) -> RecordingPlan | None:
    """Plan how to record `spec`; None if it has no gradient."""
    found = spec.result_types(types)
    asked = dtypes or (None,) * len(found)
    results = [want or have for want, have in zip(asked, found, strict=True)]
    spec = spec_on_complex(spec, types, found)
    tracked = tuple(map(is_floating, results))
    if not any(tracked):
        return None
    pullback = spec.vjp(needs, shapes, tracked)
    wants = tuple(ref is not None for ref in pullback.results)
    if not any(wants):
        return None
    extra = len(pullback.forward.result_types(types)) - len(found)
    return RecordingPlan(pullback.forward, needs, shapes, types, tracked, wants,
                         tuple(sorted(pullback.keeps("input"))),
                         tuple(sorted(pullback.keeps("output"))), extra,
                         any(map(is_complex, (*types, *results))))


class Identity(Node):
    """A node that passes its input through: a transform's copy of an argument."""

    __slots__ = ()

    def __init__(self, edge: Edge) -> None:
        super().__init__("identity", (edge,), 1)

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Return the cotangents unchanged."""
        return cotangents


def note_view(node: SpecNode, base: GraphArray, made: GraphArray) -> None:
    """Note that a Variable is a view of another one, for changes in place."""
    node.base = ref(base)
    parent = node.edges[0]
    if parent is not None and not parent[0].collects:
        known = parent[0].views
        if known is None:
            known = parent[0].views = []
        known.append((ref(made), ref(node)))


def link_view(spec: Any, base: GraphArray, made: GraphArray) -> GraphArray:
    """Note that a Variable is a view of one that nothing is recorded of."""
    made._of = base, spec
    views = getattr(base, "_seen_by", None)
    if views is None:
        views = base._seen_by = []
    elif len(views) >= 64 and not len(views) & (len(views) - 1):
        views[:] = [view for view in views if view() is not None]  # at powers of two
    views.append(ref(made))
    return made


class SpecNode(Node):
    """The graph node of a spec that was run on tracked arrays.

    Untracked numbers are kept as they are; of the arrays, only those that the steps
    read.  A tracked input may be a NumPy scalar, and is never a constant.
    """

    takes_ones = True
    __slots__ = ("base", "recording", "saved_inputs", "saved_outputs", "wants")

    #: Of a View what it is of, as long as that lives.
    base: Any

    def __init__(self, recording: CachedRecording, edges: Sequence[Edge | None],
                 inputs: Sequence[Any], outputs: Sequence[Any],
                 names: Sequence[str]) -> None:
        """`names` are those of the inputs, for messages."""
        plan = recording.plan
        assert plan is not None
        # Not by `Node.__init__`, which is one call more.
        self.name = name = recording.name
        wants = plan.wants
        if False in wants:
            edges = list(edges)
            for k, want in enumerate(wants):
                if not want:
                    edges[k] = None
        self.edges, self.outputs = tuple(edges), len(outputs)
        self.order, self.released, self.views = next(ORDER), False, None
        self.recording: CachedRecording = recording
        self.wants: tuple[bool, ...] = wants
        saved: dict[int, Any] = {}
        for k in plan.inputs:
            x = inputs[k]
            constant = edges[k] is None and isinstance(x, NUMBERS)
            saved[k] = x if constant else Saved(x, (k, names, name))
        self.saved_inputs: dict[int, Any] = saved
        kept: dict[int, Any] = {}
        for k in plan.outputs:
            kept[k] = Saved(outputs[k], (-1, (), name))
        self.saved_outputs: dict[int, Any] = kept

    @classmethod
    def of_arrays(cls, recording: CachedRecording, inputs: dict[int, Any],
                  outputs: dict[int, Any]) -> SpecNode:
        """A node outside of a graph, to pull back once; nobody watches its arrays."""
        made = cls.__new__(cls)
        made.recording, made.edges, made.name = recording, (), recording.name
        made.saved_inputs, made.saved_outputs = inputs, outputs
        return made

    @property
    def plan(self) -> RecordingPlan:
        """The plan by which the call was recorded."""
        assert self.recording.plan is not None
        return self.recording.plan

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

    @property
    def results(self) -> tuple[np.dtype, ...]:
        """Dtypes of the outputs."""
        return self.recording.results

    def pull(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
             mode: Pass) -> Sequence[Any | None]:
        """Run the steps of the spec's pullback that the wanted cotangents need."""
        asked: list[Any] = [tuple(wanted)]
        for c in cotangents:
            asked.append((c.shape, c.dtype) if type(c) is Ones else type(c))
        recipes, key = self.recording.recipes, tuple(asked)
        if key in recipes:
            recipe = recipes[key]
        else:
            recipe = recipes[key] = self._recipe(cotangents, wanted)
        if recipe is None:
            return self.pull([c.array(mode) if type(c) is Ones else c
                              for c in cotangents], wanted, mode)
        if recipe.complete:
            return self.pull(self._with_zeros(cotangents, mode), wanted, mode)
        records = mode.records
        values: list[Any] = []
        for k in recipe.inputs:
            kept = self.saved_inputs[k]
            if type(kept) is not Saved:
                values.append(kept)
            elif records:
                values.append(mode.lift(kept.load(), self.edges[k]))
            else:
                values.append(kept.load() if kept.guarded else kept.data)
        for k in recipe.outputs:
            kept = self.saved_outputs[k]
            if type(kept) is not Saved:
                values.append(kept)
            elif records:
                values.append(mode.lift(kept.load(), (self, k)))
            else:
                values.append(kept.load() if kept.guarded else kept.data)
        values += cotangents
        values += recipe.constants
        for step in recipe.steps:
            given = step.pick(values)
            made = None if step.direct is None or records else step.direct(*given)
            values += step.run(given, mode) if made is None else made
        pulled: list[Any | None] = []
        for result in recipe.results:
            if result is None:
                pulled.append(None)
                continue
            place, dtype, shape = result
            if shape is not None:
                like = next(c.like for c in cotangents if type(c) is Ones)
                pulled.append(Ones(shape, dtype, like))
            else:
                pulled.append(values[place] if dtype is None else
                              _cast(values[place], dtype, mode))
        return pulled

    def _recipe(self, cotangents: Sequence[Any | None], wanted: Sequence[bool],
                ) -> Recipe | None:
        """Derive the recipe; None if cotangents of ones must be stored."""
        pullback = self.spec.vjp(self.plan.needs, self.shapes,
                                 tuple([c is not None for c in cotangents]))
        if not self._has_saved(pullback) and any(t and c is None for t, c in zip(
                self.plan.tracked, cotangents, strict=False)):
            return Recipe(complete=True)
        return derive(pullback, wanted, cotangents, self.dtypes, self.results,
                      self._shape)

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
            kept = self.saved_outputs[ref.index]
            return tuple((kept.data if type(kept) is Saved else kept).shape)
        return None

    def arrays(self) -> list[Saved]:
        """All saved arrays, in a fixed order."""
        kept = (*self.saved_inputs.values(), *self.saved_outputs.values())
        return [saved for saved in kept if isinstance(saved, Saved)]

    def release(self) -> None:
        """Drop the saved arrays."""
        self.edges, self.released = (), True
        self.saved_inputs = {}
        self.saved_outputs = {}


def zeros(shape: tuple[int, ...], dtype: Any, like: Any,
          device: str | None = None) -> Any:
    """An array of zeros of `like`'s library, by default on its device."""
    if isinstance(like, Traced):
        return like.zeros(shape, dtype)
    library = library_of(like)
    if is_lazy(like):
        return library.zeros(shape, dtype, like)  # type: ignore[attr-defined]
    space = library.finish(library.empty(shape, dtype, device or describe(like).device))
    return execute(ZERO, (space,), dtypes=(dtype,))[0]


def _cast(cotangent: Any, dtype: Type, mode: Pass) -> Any:
    """Cast a cotangent to the dtype of its input."""
    if dtype_of(cotangent) == dtype:
        return cotangent
    return mode.run(COPY, (cotangent,), dtypes=(dtype,))[0]

"""`Row`: stages of reductions along one axis, then a map, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Literal, Value
from ..scalar.typing.types import Typed, Weak, compute_dtype
from ..support.loop_nests import Axes, Frame, Layout, broadcast_strides, placed_strides
from ..support.records import record
from .base import KEPT, Batching, Hashed, Parameters, Pullback, Shape, Spec
from .combine import Combine
from .map import Map
from .pointwise import pointwise
from .shapes import check_count, normalize_axis, row_shapes, row_whole
from .state import State, implicit_of_one, state_of, state_of_one
from .vjp.functions import compose

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type

__all__ = ["Out", "Row", "Stage", "TypedOut", "TypedRow", "TypedStage"]


#: The groups that operands of each kind vary in: rows, columns.
_MEMBERS: dict[str, Axes] = {
    "element": (0, 1), "row": (0,), "column": (1,), "scalar": ()}


@record(frozen=True)
class Stage(Hashed):
    """A reduction of each row to the values `names`.

    `map` reads inputs, names of earlier stages, ``index`` (the column) and ``size``
    (the number of columns) by parameter name; so does `post`, whose first
    parameters are the state.  `detach` stops derivatives (softmax's maximum).  The last
    `saves` names are the state.
    """

    names: tuple[str, ...]
    map: Function
    combine: Combine
    post: Function
    detach: bool = False
    saves: int = 0

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def wired(self) -> tuple[str, ...]:
        """The parameters of `post` after the state."""
        return self.post.params[len(self.combine.identity):]


@record(frozen=True)
class Out(Hashed):
    """An output of a row.

    Its `kind` is ``"element"`` (one value for each element), ``"row"`` (one for each
    row), ``"column"`` (`function` summed over the rows) or ``"scalar"`` (summed over
    all elements).  `function` wires its parameters by name and has one result.  One
    that is `saved` for the derivative is not rounded to 16 bits.
    """

    kind: str
    function: Function
    saved: bool = False

    __hash__: ClassVar[Any] = Hashed.__hash__


@record(frozen=True)
class Row(Spec):
    """Inputs (`kinds`: element, row, column, scalar), `stages` in order, `outs`."""

    title: str
    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    stages: tuple[Stage, ...]
    outs: tuple[Out, ...]
    axis: int = -1

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return self.title

    @property
    def kernel(self) -> Row:
        """The same along the last axis: the strides say which one."""
        return self if self.axis == -1 else _kernel(self)

    def kernel_for(self, frame: Frame, types: tuple[Type, ...]) -> Spec:
        """A Map of rows of one element: `frame` has no columns then."""
        return self.kernel if len(frame.groups) > 1 else _of_one(self.kernel, types)

    @property
    def parameters(self) -> Parameters:
        """Kinds and names of the inputs."""
        return tuple(zip(self.kinds, self.inputs, strict=True))

    @property
    def functions(self) -> tuple[Function, ...]:
        """The functions of the stages in order, then of the outputs."""
        return (*(f for s in self.stages for f in (s.map, s.post)),
                *(o.function for o in self.outs))

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """A shape for each output, by its kind."""
        return row_shapes(self.kinds, shapes, tuple(o.kind for o in self.outs),
                          self.axis, self.inputs)

    def frame(self, operands: Sequence[Layout], names: Sequence[str] = (),
              target: Shape | None = None) -> Frame:
        """Rows, then columns, unless each row is one element and nothing is summed."""
        kinds = [kind for kind in self.kinds if kind != "scalar"]
        shapes = [shape for shape, _ in operands]
        row_shapes(kinds, shapes, (), self.axis, names)
        extent = row_whole(kinds, shapes)
        check_count(extent, self.name)
        axis = normalize_axis(self.axis, len(extent))
        rows = tuple(other for other in range(len(extent)) if other != axis)
        places = {"element": tuple(range(len(extent))), "row": rows, "column": (axis,),
                  "scalar": ()}
        outs = [out.kind for out in self.outs]
        alone = extent[axis] == 1 and {*outs} <= {"element", "row"}
        return Frame(
            extent, (rows,) if alone else (rows, (axis,)),
            tuple(broadcast_strides(shape, own, extent) if kind == "element" else
                  placed_strides(own, places[kind], len(extent))
                  for kind, (shape, own) in zip(kinds, operands, strict=True)),
            tuple(places[kind] for kind in outs),
            tuple(_MEMBERS[kind] for kind in (*kinds, *outs)), () if alone else (1,))

    def zeros(self, frame: Frame) -> tuple[int, ...]:
        """Sums over the rows where there are none: nothing is launched then."""
        return () if frame.count(0) else tuple(
            k for k, out in enumerate(self.outs) if out.kind in ("column", "scalar"))

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules."""
        return tuple(compute_dtype(f.results[0]) if o.saved else f.results[0]
                     for o, f in zip(self.outs, _typed(self, types)[2], strict=True))

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedRow:
        """Every function typed."""
        states, posts, outs, dtypes = _typed(self, types)
        stages = tuple(
            TypedStage(s.names, t.element, t.merge, p, t.identity, t.dtypes)
            for s, t, p in zip(self.stages, states, posts, strict=True))
        typed_outs = tuple(TypedOut(o.kind, f, compute_dtype(f.results[0]), o.saved)
                           for o, f in zip(self.outs, outs, strict=True))
        return TypedRow(self.inputs, self.kinds, stages, typed_outs, dtypes)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """A Row again: it runs the stages, then their derivatives, in one launch.

        What broadcast elements receive is summed after it.  Nothing is saved of rows of
        one element: that would be as many numbers as there are elements.  Unless there
        are results for rows, with which fusion joins the derivative in one launch.
        """
        from .vjp.row import row_vjp, spread

        whole = row_whole(self.kinds, shapes)
        wanted = {k for k, need in zip(self.kinds, needs, strict=True) if need}
        alone = whole[normalize_axis(self.axis, len(whole))] == 1 and \
            wanted <= {"element", "row"} and all(o.kind == "element" for o in self.outs)
        found = row_vjp(self, needs, present, alone)
        return spread(self, found, shapes, whole, present)

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """A Row of more rows, then sums over those of a sample."""
        from .batching.row import row_batched

        return row_batched(self, batched, shapes, size)


@lru_cache(maxsize=KEPT)
def _kernel(spec: Row) -> Row:
    return replace(spec, axis=-1)


@lru_cache(maxsize=KEPT)
def _of_one(spec: Row, types: tuple[Type, ...]) -> Map:
    """Each stage of a single element after the other, then the outputs."""
    states = _typed(spec, types)[0]

    def build(b: Builder) -> tuple[Value, ...]:
        scope = {**implicit_of_one(b), **{p: p for p in spec.inputs}}
        for stage, state in zip(spec.stages, states, strict=True):
            values = state_of_one(b, stage.map, stage.combine, state, scope)
            found = b.call(stage.post, *values, *(scope[p] for p in stage.wired))
            scope.update(zip(stage.names, found, strict=True))
        return tuple([b.call(out.function, *(scope[p] for p in out.function.params))[0]
                      for out in spec.outs])

    kinds = tuple(["scalar" if k == "scalar" else "element" for k in spec.kinds])
    return Map(compose(spec.name, spec.inputs, build), kinds)


@lru_cache(maxsize=KEPT)
def _typed(spec: Row, types: tuple[Type, ...]) -> tuple[
        tuple[State, ...], tuple[Typed, ...], tuple[Typed, ...], dict[str, np.dtype]]:
    """States and posts of the stages, outs, and the computing dtype of each name."""
    scope: dict[str, Type] = dict(zip(spec.inputs, types, strict=True))
    scope |= {"index": Weak("int"), "size": Weak("int")}
    states: list[State] = []
    posts: list[Typed] = []
    for s in spec.stages:
        state = state_of(s.map, tuple(scope[p] for p in s.map.params), s.combine)
        post = pointwise(s.post, (*state.logical, *(scope[p] for p in s.wired)))
        scope |= dict(zip(s.names, post.results, strict=True))
        states.append(state)
        posts.append(post)
    outs = tuple(pointwise(o.function, tuple(scope[p] for p in o.function.params))
                 for o in spec.outs)
    dtypes: dict[str, np.dtype] = {}
    for typed in (*(s.element for s in states), *posts, *outs):
        for p in typed.function.params:
            if isinstance(scope.get(p), Weak):
                dtypes[p] = typed.dtypes[p]
    for name, t in scope.items():
        if not isinstance(t, Weak):
            dtypes[name] = compute_dtype(t)
    return tuple(states), tuple(posts), outs, dtypes


@record(frozen=True)
class TypedStage:
    """Parameters of `element` and `post` are names to look up; see `TypedRow`."""

    names: tuple[str, ...]
    element: Typed
    merge: Typed
    post: Typed
    identity: tuple[Literal, ...]
    state: tuple[np.dtype, ...]


@record(frozen=True)
class TypedOut:
    """An output, typed; ``column`` and ``scalar`` sums are kept in `accumulator`."""

    kind: str
    function: Typed
    accumulator: np.dtype
    saved: bool = False


@record(frozen=True)
class TypedRow:
    """A Row with every value typed.

    Every function's parameters are names: of an input (loaded, in its computing
    dtype), of a stage's value, ``index`` or ``size``; `post`'s first
    ``len(state)`` parameters are the state.  `dtypes` has the computing dtype of
    each input and stage value.
    """

    inputs: tuple[str, ...]
    kinds: tuple[str, ...]
    stages: tuple[TypedStage, ...]
    outs: tuple[TypedOut, ...]
    dtypes: dict[str, np.dtype]

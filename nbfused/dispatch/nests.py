"""Loop nests of specs: the assignment of operand axes to loops.

A `Frame` is a spec's view of its operands' axes, without saying where they lie in
memory; `nest` adds the strides of the outputs and gives the loops of a launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from ..specs import Contract, Map, Reduce, Row
from ..specs.shapes import (
    broadcast_shapes,
    broadcasts_to,
    check_extra,
    check_permutation,
    normalize_axes,
    normalize_axis,
    operand_name,
    row_shapes,
)
from ..specs.subscripts import Bound, parse_subscripts
from ..support.loop_nests import (
    Group,
    Nest,
    Strides,
    axis_order,
    broadcast_strides,
    canonical,
    flatten,
    move,
)
from ..support.records import record

__all__ = ["Frame", "Operand", "contract_frame", "map_frame", "memory_order", "nest",
           "reduce_frame", "row_frame"]

Shape = tuple[int, ...]
Operand = tuple[Shape, Strides]
Names = Sequence[str]
Axes = tuple[int, ...]


@record(frozen=True)
class Frame:
    """The loops of a spec and its operands' strides, before sorting and merging.

    Attributes
    ----------
    extents
        Of every loop.
    groups
        For each group, its loops, outermost first.
    inputs
        For each array input, its strides over all loops.
    outputs
        For each output, the loop that runs along each of its axes (-1: none, the
        axis was reduced to one element).
    members
        For each operand (inputs, then outputs), the groups that it varies in.
    fixed
        Groups that keep C order, because the function reads the index.
    fold
        Turns canonical groups into others that are better still.
    """

    extents: Shape
    groups: tuple[Axes, ...]
    inputs: tuple[Strides, ...]
    outputs: tuple[Axes, ...]
    members: tuple[Axes, ...]
    fixed: Axes = ()
    fold: Callable[[list[Group]], list[Group]] | None = field(default=None)

    def count(self, group: int) -> int:
        """Number of points in a group."""
        result = 1
        for axis in self.groups[group]:
            result *= self.extents[axis]
        return result


def nest(frame: Frame, outputs: Iterable[Strides]) -> Nest:
    """Sort and merge the loops of a frame, for outputs with these strides."""
    loops = range(len(frame.extents))
    strides = list(frame.inputs)
    for placement, own in zip(frame.outputs, outputs, strict=True):
        along = dict(zip(placement, own, strict=True))
        strides.append(tuple(along.get(axis, 0) for axis in loops))
    groups, offsets = [], []
    for number, axes in enumerate(frame.groups):
        group, moved = canonical(Group(
            tuple(frame.extents[axis] for axis in axes),
            tuple(tuple(own[axis] for axis in axes) for own in strides),
            tuple(int(number in groups_of) for groups_of in frame.members),
            number in frame.fixed))
        groups.append(group)
        offsets.append(moved)
    if frame.fold is not None:
        groups = frame.fold(groups)
    return flatten(groups, offsets)


def memory_order(frame: Frame, output: int) -> Axes | None:
    """Axis order of a new output in memory, like its inputs; None for C order.

    As in NumPy's ``order='K'``, it follows the inputs, so that arrays in Fortran
    order give arrays in Fortran order.
    """
    placement = frame.outputs[output]
    if len(placement) < 2:
        return None
    moving = [tuple(own[axis] if axis >= 0 else 0 for axis in placement)
              for own in frame.inputs]
    order = axis_order(moving, len(placement))
    return None if order == tuple(range(len(placement))) else order


def map_frame(spec: Map, inputs: Sequence[Operand], names: Names = (),
              target: Shape | None = None) -> Frame:
    """The frame of a Map: one group of all axes, without the raw arrays.

    The function runs over `target`, the shape of a given output, where the inputs
    broadcast to it.
    """
    extent = broadcast_shapes([shape for shape, _ in inputs], names)
    if target is not None and broadcasts_to(extent, target):
        extent = target
    axes = tuple(range(len(extent)))
    outputs = len(spec.function.results)
    return Frame(
        extent, (axes,),
        tuple(broadcast_strides(shape, own, extent) for shape, own in inputs),
        (axes,) * outputs, ((0,),) * (len(inputs) + outputs),
        (0,) if "index" in spec.kinds else ())


def reduce_frame(spec: Reduce, inputs: Sequence[Operand], names: Names = ()) -> Frame:
    """The frame of a Reduce: kept axes, then reduced ones in C order."""
    extent = broadcast_shapes([shape for shape, _ in inputs], names)
    reduced = tuple(sorted(normalize_axes(spec.axes, len(extent))))
    kept = tuple(axis for axis in range(len(extent)) if axis not in reduced)
    placement = kept
    if spec.keepdims:
        placement = tuple(-1 if axis in reduced else axis
                          for axis in range(len(extent)))
    outputs = len(spec.post.results)
    return Frame(
        extent, (kept, reduced),
        tuple(broadcast_strides(shape, own, extent) for shape, own in inputs),
        (placement,) * outputs, ((0, 1),) * len(inputs) + ((0,),) * outputs,
        (1,) if "index" in spec.kinds or spec.combine.indexed else ())


_ROW_MEMBERS: dict[str, Axes] = {
    "element": (0, 1), "row": (0,), "column": (1,), "scalar": ()}


def row_frame(spec: Row, inputs: Sequence[Operand], names: Names = ()) -> Frame:
    """The frame of a Row: rows, then columns."""
    kinds = [kind for kind in spec.kinds if kind != "scalar"]
    shapes = [shape for shape, _ in inputs]
    row_shapes(kinds, shapes, (), spec.axis, names)
    extent = broadcast_shapes([shape for shape, kind in zip(shapes, kinds, strict=True)
                               if kind == "element"])
    axis = normalize_axis(spec.axis, len(extent))
    rows = tuple(other for other in range(len(extent)) if other != axis)
    places = {"element": tuple(range(len(extent))), "row": rows, "column": (axis,),
              "scalar": ()}
    outs = [out.kind for out in spec.outs]
    return Frame(
        extent, (rows, (axis,)),
        tuple(_row_strides(kind, operand, extent, places[kind])
              for kind, operand in zip(kinds, inputs, strict=True)),
        tuple(places[kind] for kind in outs),
        tuple(_ROW_MEMBERS[kind] for kind in (*kinds, *outs)), (1,))


def _row_strides(kind: str, operand: Operand, extent: Shape, place: Axes) -> Strides:
    shape, own = operand
    if kind == "element":
        return broadcast_strides(shape, own, extent)
    return _placed(own, place, len(extent))


def _placed(own: Strides, place: Sequence[int], loops: int) -> Strides:
    along = dict(zip(place, own, strict=True))
    return tuple(along.get(axis, 0) for axis in range(loops))


def contract_frame(spec: Contract, inputs: Sequence[Operand],
                   names: Names = ()) -> Frame:
    """The frame of a Contract: batch, m, n and k axes by its subscripts."""
    form = parse_subscripts(spec.subscripts).bind(inputs[0][0], inputs[1][0],
                                                  names or None)
    labels = (*form.batch, *form.m, *form.n, *form.k)
    loop = {label: axis for axis, label in enumerate(labels)}
    extents = tuple(form.extents[label] for label in labels)
    logical = tuple(loop[label] for label in form.out)
    strides = [_operand_strides(operand, own_labels, loop)
               for operand, own_labels in zip(inputs, (form.a, form.b), strict=False)]
    result = tuple(extents[axis] for axis in logical)
    for position, (shape, own) in enumerate(inputs[2:], 2):
        check_extra(shape, result, operand_name(names, position))
        spread = broadcast_strides(shape, own, result)
        strides.append(_placed(spread, logical, len(labels)))
    stored = range(len(logical)) if spec.out_axes is None else check_permutation(
        spec.out_axes, len(logical), "out_axes")
    outputs = len(spec.epilogue.results)
    groups = _number_loops(form)
    extras = [_extra_members(shape, logical, groups) for shape, _ in inputs[2:]]
    return Frame(
        extents, groups, tuple(strides),
        (tuple(logical[axis] for axis in stored),) * outputs,
        ((0, 1, 3), (0, 2, 3), *extras, *((0, 1, 2),) * outputs),
        fold=_fold_batch)


def _operand_strides(operand: Operand, labels: tuple[str, ...],
                     loop: dict[str, int]) -> Strides:
    shape, own = operand
    along = {loop[label]: 0 if extent == 1 else stride
             for label, extent, stride in zip(labels, shape, own, strict=True)}
    return tuple(along.get(axis, 0) for axis in range(len(loop)))


def _number_loops(form: Bound) -> tuple[Axes, ...]:
    """Number the loops consecutively: batch, m, n, k."""
    groups, start = [], 0
    for labels in (form.batch, form.m, form.n, form.k):
        groups.append(tuple(range(start, start + len(labels))))
        start += len(labels)
    return tuple(groups)


def _extra_members(shape: Shape, logical: Axes, groups: tuple[Axes, ...]) -> Axes:
    covered = set(logical[len(logical) - len(shape):])
    return tuple(number for number, axes in enumerate(groups)
                 if covered.intersection(axes))


def _fold_batch(groups: list[Group]) -> list[Group]:
    """Drop a batch of one; merge a batch repeated in A or B into m or n.

    ``(batch, m, k) @ (k, n)`` is a single product of ``batch * m`` rows.
    """
    batch, m, n, k = groups
    if batch.extents == (1,):
        batch = Group((), ((),) * len(batch.strides), batch.unit)
    batch, m = move(batch, m, 1)
    batch, n = move(batch, n, 0)
    return [batch, m, n, k]

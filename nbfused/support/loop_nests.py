"""Loop nests from shapes and strides, as integer arithmetic.

Operands of any shape become strides over a common nest of loops, in groups (the kept
and the reduced loops of a reduction, …).  Within each group loops are put in memory
order, reversed where everything runs backwards, and merged with their neighbours
wherever all strides allow, so that a kernel mostly sees one long contiguous loop.
A `Frame` is what a spec says of its loops; `nest` adds the strides of the outputs and
gives the loops of a launch.

Strides count elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from itertools import accumulate, chain
from math import prod
from typing import NamedTuple

from .records import record

__all__ = [
    "Axes", "Frame", "Group", "Layout", "Nest", "Strides", "axis_order",
    "broadcast_strides", "canonical", "dense_strides", "flatten", "is_dense",
    "memory_order", "nest", "ordered_strides", "placed_strides",
    "reshape_strides", "stride_code", "stride_codes",
]

Shape = tuple[int, ...]
Strides = tuple[int, ...]
Axes = tuple[int, ...]
#: Shape and strides of an array.
Layout = tuple[Shape, Strides]


def broadcast_strides(shape: Shape, strides: Strides, target: Shape) -> Strides:
    """Strides of an array broadcast to `target`; 0 where it is repeated."""
    missing = len(target) - len(shape)
    if not missing and shape == target and 1 not in shape:
        return strides
    return (0,) * missing + tuple(
        0 if extent == 1 else stride
        for extent, stride in zip(shape, strides, strict=True))


def placed_strides(strides: Strides, loops: Iterable[int], count: int) -> Strides:
    """Strides over `count` loops of an array whose axes run along some of them."""
    along = dict(zip(loops, strides, strict=True))
    return tuple(along.get(axis, 0) for axis in range(count))


def dense_strides(shape: Shape) -> Strides:
    """Strides of a C-contiguous array."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def ordered_strides(shape: Shape, order: Sequence[int]) -> Strides:
    """Strides of a contiguous array whose axes lie in memory in `order`."""
    dense = dense_strides(tuple(shape[axis] for axis in order))
    place = {axis: at for at, axis in enumerate(order)}
    return tuple(dense[place[axis]] for axis in range(len(shape)))


def is_dense(shape: Shape, strides: Strides) -> bool:
    """Whether strides are C-contiguous, ignoring axes of extent below 2."""
    step = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 0:
            return True
        if extent != 1:
            if stride != step:
                return False
            step *= extent
    return True


def reshape_strides(shape: Shape, strides: Strides, target: Shape) -> Strides | None:
    """Strides of a view of shape `target`; None if it needs a copy."""
    if 0 in target:
        return dense_strides(target)
    loops = [(extent, (stride,)) for extent, stride
             in zip(shape, strides, strict=True) if extent != 1]
    runs = _merge(loops) if loops else []
    result: list[int] = []
    left, step = 1, 1
    for extent in reversed(target):
        if left == 1 and extent != 1 and runs:
            left, (step,) = runs.pop()
        if left % extent:
            return None
        result.append(step)
        step, left = step * extent, left // extent
    return tuple(reversed(result))


def axis_order(strides: Sequence[Strides], ndim: int) -> tuple[int, ...]:
    """The loop order, outermost first, that walks through memory in order.

    The insertion sort of NumPy's ``nditer`` (`order='K'`): neighbours are swapped
    only where the strides of all operands that move in both agree, so a conflict
    leaves C order.  Earlier operands do not weigh more than later ones.
    """
    order: list[int] = []
    for axis in range(ndim - 1, -1, -1):
        at = 0
        for position, other in enumerate(order):
            verdict = _is_inner(strides, axis, other)
            if verdict is True:
                break
            if verdict is False:
                at = position + 1
        order.insert(at, axis)
    return tuple(order)


def _is_inner(strides: Sequence[Strides], axis: int, other: int) -> bool | None:
    """Whether loop `other` belongs inside `axis`; None if either order is as good.

    Stays outside unless every operand that moves in both has a smaller stride in it.
    """
    verdict = None
    for operand in strides:
        outer, inner = abs(operand[axis]), abs(operand[other])
        if outer and inner:
            if outer >= inner:
                return True
            verdict = False
    return verdict


class Group(NamedTuple):
    """A group of loops that may be reordered.

    Attributes
    ----------
    extents
        One for each loop.
    strides
        For each operand, one for each loop.
    unit
        For each operand, its stride in the loop of extent 1 (or 0) that stands for a
        group without loops: 1, so that the contiguous kernel takes it, or 0.
    fixed
        The loops keep their C order, because the function reads the index.
    """

    extents: Shape
    strides: tuple[Strides, ...]
    unit: Strides
    fixed: bool = False


def canonical(group: Group) -> tuple[Group, Strides]:
    """Normalise a group: drop extents of 1, sort, reverse and merge loops.

    Returns
    -------
    Group
        At least one loop.
    tuple of int
        For each operand, by how many elements its pointer moves.
    """
    columns = list(zip(*group.strides, strict=True)) or [()] * len(group.extents)
    if 0 in group.extents:
        return _single(group, 0), (0,) * len(group.unit)
    loops = [(extent, column) for extent, column
             in zip(group.extents, columns, strict=True) if extent != 1]
    if not loops:
        return _single(group, 1), (0,) * len(group.unit)
    offsets: Strides = (0,) * len(group.unit)
    if not group.fixed:
        if len(loops) > 1:
            flat = [column for _, column in loops]
            order = axis_order(list(zip(*flat, strict=True)), len(loops))
            loops = [loops[i] for i in order]
        loops, offsets = _reverse(loops, offsets)
    loops = _merge(loops)
    strides = tuple(zip(*(column for _, column in loops), strict=True))
    extents = tuple(extent for extent, _ in loops)
    return Group(extents, strides, group.unit, group.fixed), offsets


Loop = tuple[int, Strides]


def _single(group: Group, extent: int) -> Group:
    strides = tuple((unit,) for unit in group.unit)
    return Group((extent,), strides, group.unit, group.fixed)


def _reverse(loops: list[Loop], offsets: Strides) -> tuple[list[Loop], Strides]:
    """Reverse loops in which operands run backwards and none forwards."""
    result = []
    for extent, column in loops:
        if column and max(column) <= 0 and min(column) < 0:
            offsets = tuple(offset + (extent - 1) * stride
                            for offset, stride in zip(offsets, column, strict=True))
            column = tuple(-stride for stride in column)
        result.append((extent, column))
    return result, offsets


def _merge(loops: Sequence[Loop]) -> list[Loop]:
    """Merge adjacent loops across which every operand has an even step."""
    result = [loops[0]]
    for extent, column in loops[1:]:
        above, steps = result[-1]
        if all(step == stride * extent
               for step, stride in zip(steps, column, strict=True)):
            result[-1] = (above * extent, column)
        else:
            result.append((extent, column))
    return result


class Nest(NamedTuple):
    """A loop nest: extents, strides and offsets of a launch.

    Attributes
    ----------
    shape
        Extents, group after group.
    ranks
        Number of loops in each group.
    strides
        For each operand, one for each loop.
    offsets
        For each operand, by how many elements its pointer moves.
    boxes
        Those of the frame, by these loops.
    """

    shape: Shape
    ranks: tuple[int, ...]
    strides: tuple[Strides, ...]
    offsets: Strides
    boxes: tuple[tuple[tuple[int, int], ...], ...] = ()

    @property
    def size(self) -> int:
        """Number of points of the nest."""
        return prod(self.shape)


def flatten(groups: Sequence[Group], offsets: Sequence[Strides]) -> Nest:
    """Concatenate canonical groups and their pointer offsets."""
    operands = range(len(groups[0].unit))
    return Nest(
        tuple(chain.from_iterable(group.extents for group in groups)),
        tuple(len(group.extents) for group in groups),
        tuple(tuple(chain.from_iterable(group.strides[i] for group in groups))
              for i in operands),
        tuple(sum(moved[i] for moved in offsets) for i in operands))


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
    needed
        Groups of which none may be empty, or there is nothing to compute.
    inner
        For each operand, the groups whose innermost strides decide the kernel; the last
        group's for all if empty.
    follows
        Whether new outputs lie in memory as the inputs do; in C order otherwise.
    fold
        Turns canonical groups into others that are better still.
    moves
        For each array input, by how many elements its pointer moves; none if empty.
    boxes
        Boxes of points that the function tells from others: for each loop the first
        coordinate, and the one after the last.  There is one group then.
    """

    extents: Shape
    groups: tuple[Axes, ...]
    inputs: tuple[Strides, ...]
    outputs: tuple[Axes, ...]
    members: tuple[Axes, ...]
    fixed: Axes = ()
    needed: Axes = (0,)
    inner: tuple[Axes, ...] = ()
    follows: bool = True
    fold: Callable[[list[Group]], list[Group]] | None = field(default=None)
    moves: Strides = ()
    boxes: tuple[tuple[tuple[int, int], ...], ...] = ()

    def count(self, group: int) -> int:
        """Number of points in a group."""
        return prod(self.extents[axis] for axis in self.groups[group])

    @property
    def shapes(self) -> list[Shape]:
        """Shapes of the outputs."""
        return [tuple(1 if axis < 0 else self.extents[axis] for axis in placement)
                for placement in self.outputs]


def nest(frame: Frame, outputs: Iterable[Strides]) -> Nest:
    """Sort and merge the loops of a frame, for outputs with these strides."""
    strides = [*frame.inputs, *(placed_strides(own, placement, len(frame.extents))
                                for placement, own in zip(frame.outputs, outputs,
                                                          strict=True))]
    if frame.boxes:
        return _boxed(frame, strides)
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


def _boxed(frame: Frame, strides: Sequence[Strides]) -> Nest:
    """Sort and merge loops that have boxes: merged are those that lie in all whole."""
    (axes,) = frame.groups
    loops = [(frame.extents[a], tuple(own[a] for own in strides),
              tuple(box[a] for box in frame.boxes)) for a in axes
             if frame.extents[a] != 1 or any(box[a] != (0, 1) for box in frame.boxes)]
    loops = [loops[k] for k in axis_order(
        list(zip(*(column for _, column, _ in loops), strict=True)), len(loops))]
    merged = loops[:1] or [(prod(frame.extents), (0,)*len(strides),
                            ((0, 1),)*len(frame.boxes))]
    for extent, column, sides in loops[1:]:
        above, steps, outer = merged[-1]
        if all(s == (0, extent) for s in sides) and all(
                step == stride*extent for step, stride in zip(steps, column,
                                                              strict=True)):
            merged[-1] = above*extent, column, tuple(
                [(lo*extent, hi*extent) for lo, hi in outer])
        else:
            merged.append((extent, column, sides))
    extents, columns, boxes = zip(*merged, strict=True)
    moves = (*frame.moves, *(0,)*(len(strides) - len(frame.moves)))
    return Nest(extents, (len(extents),), tuple(zip(*columns, strict=True)), moves,
                tuple(zip(*boxes, strict=True)))


def memory_order(frame: Frame, output: int) -> Axes | None:
    """Axis order of a new output in memory, like its inputs; None for C order.

    As in NumPy's ``order='K'``, it follows the inputs, so that arrays in Fortran
    order give arrays in Fortran order.
    """
    placement = frame.outputs[output]
    if len(placement) < 2 or not frame.follows:
        return None
    moving = [tuple(own[axis] if axis >= 0 else 0 for axis in placement)
              for own in frame.inputs]
    order = axis_order(moving, len(placement))
    return None if order == tuple(range(len(placement))) else order


def stride_code(stride: int) -> str:
    """``"1"`` for unit stride, ``"0"`` for a repeated element, ``"s"`` otherwise."""
    return "1" if stride == 1 else "0" if stride == 0 else "s"


def stride_codes(frame: Frame, loops: Nest) -> tuple[str, ...]:
    """Codes of the innermost strides of each operand, in the groups that count."""
    ends = list(accumulate(loops.ranks))
    inner = frame.inner or ((len(ends) - 1,),) * len(loops.strides)
    return tuple("".join(stride_code(own[ends[group] - 1]) for group in groups)
                 for own, groups in zip(loops.strides, inner, strict=True))

"""`Contract`: batched matrix products with prologues, epilogue, permuted store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..scalar.ir.build import Builder
from ..scalar.ir.nodes import Function, Value, literal
from ..scalar.typing.types import Typed, compute_dtype, promoted_dtype
from ..support.loop_nests import (
    Axes,
    Frame,
    Group,
    Layout,
    broadcast_strides,
    placed_strides,
)
from ..support.records import record
from .base import KEPT, Batching, Hashed, Parameters, Pullback, Shape, Spec
from .fusion.epilogues import with_total
from .map import Map
from .pointwise import pointwise
from .shapes import check_extra, check_permutation, contract_shapes, operand_name
from .subscripts import parse_subscripts
from .vjp.functions import compose

if TYPE_CHECKING:
    from ..scalar.typing.types import Type

__all__ = ["Contract", "TypedContract", "move"]


@record(frozen=True)
class Contract(Spec):
    """``out = epilogue(sum_k prologue_a(A) * prologue_b(B), *extras)``.

    Attributes
    ----------
    subscripts
        ``"mk,kn->mn"``; ``...`` stands for broadcast batch axes.
    epilogue
        Parameters: the accumulator, then `kinds` (``"element"``, an array
        that broadcasts to the result as subscripted; ``"scalar"``).  One result
        for each output.
    prologues
        A scalar function of one value for each operand, or None.
    out_axes
        How the result is permuted when it is stored, as in `numpy.transpose`.
    saves
        Whether the last output is the accumulator, or its sum with extras, for the
        derivative.
    precision
        ``"tf32"``: a device may round float32 factors to the 10 bits of TF32.
    """

    subscripts: str
    epilogue: Function
    kinds: tuple[str, ...] = ()
    prologues: tuple[Function | None, Function | None] = (None, None)
    out_axes: tuple[int, ...] | None = None
    saves: bool = False
    precision: str | None = None

    __hash__: ClassVar[Any] = Hashed.__hash__

    @property
    def name(self) -> str:
        """The name for kernels and messages."""
        return f"contract_{self.epilogue.name}"

    @property
    def kernel(self) -> Contract:
        """The same without subscripts and permutation: they are in the strides."""
        return _kernel(self)

    def kernel_for(self, frame: Frame, types: tuple[Type, ...]) -> Spec:
        """A Map where each product has one term: `frame` has no loops of several."""
        if len(frame.groups) > 1:
            return self.kernel
        return _of_one_term(self.kernel, self._accumulated(types))

    @property
    def parameters(self) -> Parameters:
        """The factors, then the epilogue's."""
        return (("element", "a"), ("element", "b"),
                *zip(self.kinds, self.epilogue.params[1:], strict=True))

    @property
    def functions(self) -> tuple[Function, ...]:
        """The epilogue."""
        return (self.epilogue,)

    def reads_in_place(self, position: int) -> bool:
        """True of the epilogue's arrays, where the result is stored as subscripted."""
        return position >= 2 and self.kinds[position - 2] == "element" and (
            self.out_axes is None or self.out_axes == tuple(range(len(self.out_axes))))

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The permuted shape of the product, for each output."""
        extras = [s for s, k in zip(shapes[2:], self.kinds, strict=True)
                  if k == "element"]
        shape = contract_shapes(self.subscripts, shapes[0], shapes[1], extras,
                                self.out_axes)
        return (shape,) * len(self.epilogue.results)

    def frame(self, operands: Sequence[Layout], names: Sequence[str] = (),
              target: Shape | None = None) -> Frame:
        """Batch, m, n and k axes by the subscripts, or those of the result.

        That is where there is one term; results are in C order.
        """
        form = parse_subscripts(self.subscripts).bind(operands[0][0], operands[1][0],
                                                      names or None)
        one = all(form.extents[label] == 1 for label in form.k)
        parts = (form.out, form.k) if one else (form.batch, form.m, form.n, form.k)
        loop = {label: axis for axis, label in enumerate(chain(*parts))}
        extents = tuple(form.extents[label] for label in loop)
        groups = tuple(tuple(loop[label] for label in part) for part in parts)
        logical = tuple(loop[label] for label in form.out)
        result = tuple(extents[axis] for axis in logical)
        strides, extras = [], []
        for (shape, own), labels in zip(operands[:2], (form.a, form.b), strict=True):
            once = broadcast_strides(shape, own, shape)
            strides.append(placed_strides(once, map(loop.__getitem__, labels),
                                          len(loop)))
        for position, (shape, own) in enumerate(operands[2:], 2):
            check_extra(shape, result, operand_name(names, position))
            spread = broadcast_strides(shape, own, result)
            strides.append(placed_strides(spread, logical, len(loop)))
            extras.append(_members(logical[len(logical) - len(shape):], groups))
        stored = range(len(logical)) if self.out_axes is None else check_permutation(
            self.out_axes, len(logical), "out_axes")
        outputs = len(self.epilogue.results)
        placement = tuple(logical[axis] for axis in stored)
        if one:
            return Frame(
                result, groups[:1], tuple(own[:len(result)] for own in strides),
                (placement,) * outputs, ((0,),) * (len(strides) + outputs),
                follows=False)
        return Frame(
            extents, groups, tuple(strides), (placement,) * outputs,
            ((0, 1, 3), (0, 2, 3), *extras, *((0, 1, 2),) * outputs),
            needed=(0, 1, 2), follows=False, fold=_fold_batch,
            inner=((1, 3), (3, 2), *((1, 2),) * (len(extras) + outputs)))

    def _prologue(self, which: int, dtype: Type) -> Typed | None:
        f = self.prologues[which]
        return None if f is None else pointwise(f, (dtype,))

    def _accumulated(self, types: tuple[Type, ...]) -> np.dtype:
        """Dtype of the product before the epilogue, as numpy.matmul's."""
        operands = [f.results[0] if f else types[k]
                    for k, f in enumerate(self._prologue(k, types[k]) for k in (0, 1))]
        return promoted_dtype(*operands)

    def _epilogue(self, types: tuple[Type, ...]) -> Typed:
        return pointwise(self.epilogue, (self._accumulated(types), *types[2:]))

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """By NumPy's rules for matmul, then for the epilogue."""
        return self._epilogue(types).results

    def typed(self, types: tuple[Type, ...],
              outputs: tuple[np.dtype, ...] = ()) -> TypedContract:
        """Every function typed."""
        accumulator = compute_dtype(self._accumulated(types))
        return TypedContract(
            (self._prologue(0, types[0]), self._prologue(1, types[1])),
            self._epilogue(types), self.kinds, accumulator, self.precision)

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """A Map for the epilogue, then two Contracts."""
        from .vjp.contract import contract_vjp

        return contract_vjp(self, needs, shapes, present)

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """A Contract with a letter more in its subscripts."""
        from .batching.contract import contract_batched

        return contract_batched(self, batched, shapes, size)


def _members(covered: Axes, groups: tuple[Axes, ...]) -> Axes:
    return tuple(number for number, axes in enumerate(groups)
                 if set(covered).intersection(axes))


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


@lru_cache(maxsize=KEPT)
def _kernel(spec: Contract) -> Contract:
    return replace(spec, subscripts="mk,kn->mn", out_axes=None, saves=False)


@lru_cache(maxsize=KEPT)
def _of_one_term(spec: Contract, dtype: np.dtype) -> Map:
    """The products of two factors: `dtype` is that of the product.

    Sums begin at 0: that of -0.0 is 0.0.
    """
    taken = Builder(set(spec.epilogue.params))  # an extra may be called as a factor is
    factors = taken.fresh("a"), taken.fresh("b")
    extras = spec.epilogue.params[1:]

    def build(b: Builder) -> tuple[Value, ...]:
        values = [x if f is None else b.call(f, x)[0]
                  for f, x in zip(spec.prologues, factors, strict=True)]
        total = b.let("cast", b.let("mul", *values), attr=dtype.name)
        if dtype.kind in "fc":
            total = b.let("add", b.let("cast", literal(0), attr=dtype.name), total)
        return b.call(spec.epilogue, total, *extras)

    return Map(compose(spec.name, (*factors, *extras), build),
               ("element", "element", *spec.kinds))


@lru_cache(maxsize=KEPT)
def saving(spec: Contract, rest: Function, added: tuple[str, ...]) -> Contract:
    """The same results, then the accumulator after the additions of `begun`."""
    if spec.saves:
        return spec
    return replace(spec, epilogue=with_total(spec.epilogue, rest, added), saves=True)


@record(frozen=True)
class TypedContract:
    """A Contract with every value typed; `accumulator` is the sum's dtype."""

    prologues: tuple[Typed | None, Typed | None]
    epilogue: Typed
    kinds: tuple[str, ...]
    accumulator: np.dtype
    precision: str | None = None


def move(source: Group, target: Group, free: int) -> tuple[Group, Group]:
    """Move inner loops that operand `free` does not use from `source` to `target`.

    A batch loop along which one operand of a product is repeated is a loop over
    rows of the other: one larger product instead of many small ones.  A loop moves
    only where it merges with the outermost loop of `target`, or `target` is a single
    loop of extent 1.
    """
    while source.extents and source.strides[free][-1] == 0:
        extent = source.extents[-1]
        column = [steps[-1] for steps in source.strides]
        if target.extents == (1,):
            strides = tuple((step,) for step in column)
            target = Group((extent,), strides, target.unit, target.fixed)
        elif all(step == steps[0] * target.extents[0]
                 for step, steps in zip(column, target.strides, strict=True)):
            merged = (extent * target.extents[0], *target.extents[1:])
            target = Group(merged, target.strides, target.unit, target.fixed)
        else:
            break
        source = Group(source.extents[:-1],
                       tuple(steps[:-1] for steps in source.strides),
                       source.unit, source.fixed)
    return source, target

"""`View`: shapes and strides only; what computes no number."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import ShapeError
from ..support.records import record
from .base import Batching, Hashed, Parameters, Program, Pullback, Ref, Shape, Spec
from .shapes import check_count

if TYPE_CHECKING:
    import numpy as np

    from ..scalar.typing.types import Type

__all__ = ["View"]


@record(frozen=True)
class View(Spec):
    """A rearrangement of elements.

    ===============  ==========================================================
    kind             params
    ===============  ==========================================================
    ``reshape``      the new shape
    ``transpose``    the axes, as in `numpy.transpose`
    ``broadcast``    the new shape; new strides are 0
    ``expand``       positions of new axes of extent 1 in the result, sorted
    ``squeeze``      axes of extent 1 to drop, sorted
    ``slice``        ``(start, stop, step)`` for each axis, as in `slice.indices`
    ``unslice``      ``(shape, slices)``: zeros, with the input stored in the slice
    ``concatenate``  ``(axis,)``; takes several inputs
    ===============  ==========================================================
    """

    kind: str
    params: tuple[Any, ...]

    __hash__: ClassVar[Any] = Hashed.__hash__
    launches: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The name for messages."""
        return self.kind

    @property
    def parameters(self) -> Parameters:
        """One array; to concatenate takes as many as are given."""
        return (("element", "x"),)

    @property
    def rearranges(self) -> bool:
        """Unless it has zeros, or elements of several arrays."""
        return self.kind not in ("unslice", "concatenate")

    @property
    def fixes_extents(self) -> bool:
        """If its parameters are extents."""
        return self.kind not in ("transpose", "expand", "squeeze")

    def out_shapes(self, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """The shape of the result."""
        return (getattr(self, f"_{self.kind}")(*shapes),)

    def result_types(self, types: tuple[Type, ...]) -> tuple[np.dtype, ...]:
        """The input's dtype; concatenate promotes."""
        from ..scalar.typing.types import promoted_dtype

        return (promoted_dtype(*types),)

    def typed(self, types: tuple[Type, ...], outputs: tuple[np.dtype, ...] = ()) -> Any:
        """Views are not compiled."""
        raise TypeError(f"view {self.kind!r} has no kernel")

    def _reshape(self, shape: Shape) -> Shape:
        if prod(shape) != prod(self.params) or min(self.params, default=0) < 0:
            raise ShapeError(f"cannot reshape an array of shape {shape} "
                             f"({prod(shape)} elements) to {self.params} "
                             f"({prod(self.params)} elements); expected as many: one "
                             "extent may be -1, which stands for what is left")
        return self.params

    def _transpose(self, shape: Shape) -> Shape:
        return tuple(shape[a] for a in self.params)

    def _broadcast(self, shape: Shape) -> Shape:
        tail = self.params[len(self.params) - len(shape):]
        fits = len(shape) <= len(self.params) and all(
            s in (1, t) for s, t in zip(shape, tail, strict=True))
        if min(self.params, default=0) < 0:
            raise ShapeError(f"broadcast_to: 'shape' is {self.params}; expected "
                             "extents of at least 0")
        if not fits:
            raise ShapeError(f"an array of shape {shape} does not broadcast to "
                             f"{self.params}; expected extents that are equal, or 1: "
                             "reshape it so that the right axes meet")
        check_count(self.params, "broadcast_to")
        return self.params

    def _expand(self, shape: Shape) -> Shape:
        out = list(shape)
        for axis in self.params:
            out.insert(axis, 1)
        return tuple(out)

    def _squeeze(self, shape: Shape) -> Shape:
        return tuple(s for a, s in enumerate(shape) if a not in self.params)

    def _slice(self, shape: Shape) -> Shape:
        return tuple(len(range(*s)) for s in self.params)

    def _unslice(self, shape: Shape) -> Shape:
        return self.params[0]

    def _concatenate(self, *shapes: Shape) -> Shape:
        (axis,) = self.params
        first = shapes[0]
        for k, s in enumerate(shapes):
            if s[:axis] + s[axis + 1:] != first[:axis] + first[axis + 1:]:
                raise ShapeError(
                    f"arrays[{k}] of shape {s} does not fit arrays[0] of shape {first}:"
                    f" they may differ in axis {axis} only")
        whole = (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1:])
        check_count(whole, "concatenate")
        return whole

    def vjp(self, needs: tuple[bool, ...], shapes: tuple[Shape, ...],
            present: tuple[bool, ...]) -> Pullback:
        """The transposed rearrangement."""
        program = Program()
        g = Ref("cotangent", 0)
        if self.kind == "concatenate":
            results = self._split(program, g, needs, shapes)
        elif self.kind == "broadcast":
            self.out_shapes(shapes)  # raises where it does not
            results = (unbroadcast(program, g, self.params, shapes[0]),)
        else:
            results = (program.run(self._transposed(shapes[0]), g)[0],)
        return Pullback(self, tuple(program.steps), results)

    def batched(self, batched: tuple[bool, ...], shapes: tuple[Shape, ...],
                size: int) -> Batching | None:
        """The same View of the later axes."""
        from .batching.view import view_batched

        return view_batched(self, batched, shapes, size)

    def _transposed(self, shape: Shape) -> View:
        match self.kind:
            case "transpose":
                axes = self.params
                return View("transpose", tuple(axes.index(a) for a in range(len(axes))))
            case "expand":
                return View("squeeze", self.params)
            case "squeeze":
                return View("expand", self.params)
            case "slice":
                return View("unslice", (shape, self.params))
            case "unslice":
                return View("slice", self.params[1])
        return View("reshape", shape)

    def _split(self, program: Program, g: Ref, needs: tuple[bool, ...],
               shapes: tuple[Shape, ...]) -> tuple[Ref | None, ...]:
        (axis,) = self.params
        results: list[Ref | None] = []
        start = 0
        for shape, need in zip(shapes, needs, strict=True):
            window = tuple((start, start + n, 1) if a == axis else (0, n, 1)
                           for a, n in enumerate(shape))
            results.append(program.run(View("slice", window), g)[0] if need else None)
            start += shape[axis]
        return tuple(results)


def unbroadcast(program: Program, g: Ref, full: Shape, shape: Shape,
                like: Ref | None = None) -> Ref:
    """Sum `g` of shape `full` over what broadcasting added to `shape`."""
    from .reduce import sum_over

    axes, keepdims = broadcast_axes(full, shape)
    if axes:
        (g,) = program.run(sum_over(axes, keepdims), g, like=(like,))
    return restore(program, g, full, shape)


def broadcast_axes(full: Shape, shape: Shape) -> tuple[tuple[int, ...], bool]:
    """The axes of `full` along which `shape` is broadcast; whether all are kept."""
    lead = len(full) - len(shape)
    ones = tuple(a for a in range(lead, len(full)) if shape[a - lead] != full[a])
    return (*range(lead), *ones), not lead


def restore(program: Program, g: Ref, full: Shape, shape: Shape) -> Ref:
    """Reshape a sum over `broadcast_axes` to `shape` where dropped axes differ."""
    axes, keepdims = broadcast_axes(full, shape)
    lead = len(full) - len(shape)
    if keepdims or len(axes) == lead:
        return g
    return program.run(View("reshape", shape), g)[0]

"""PyTorch's functions that reshape, divide and join tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....arrays import dtype_of
from ....registry.operations import NUMPY, OPS
from ..symbols.arrays import Symbol
from .dtypes import converted, promoted, tensor_type, traced
from .table import of_torch

__all__: list[str] = []


def _sizes(given: Sequence[Any]) -> tuple[int, ...]:
    """Sizes one by one, or as one tuple."""
    return tuple(given[0]) if len(given) == 1 and isinstance(
        given[0], (tuple, list)) else tuple(given)


def _part(x: Any, dim: int, where: Any) -> Any:
    return OPS["getitem"](x, (*(slice(None),) * (dim % x.ndim), where))


def _of_one_dtype(tensors: Any) -> list[Any]:
    tensors = traced(tensors)
    dtype = tensor_type(tensors)
    return [converted(x, dtype) for x in tensors]


# Joined and divided -------------------------------------------------------------------


@of_torch("cat", "concat", "concatenate")
def cat(tensors: Any, dim: Any = 0, *, axis: Any = None) -> Any:
    """Tensors one after the other."""
    if len({len(x.shape) for x in tensors}) > 1:  # empty ones of one dimension
        return NotImplemented
    along = dim if axis is None else axis
    return OPS["concatenate"](_of_one_dtype(tensors), axis=along)


@of_torch()
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors along a new axis."""
    return OPS["stack"](_of_one_dtype(tensors), axis=dim)


def _joining(name: str) -> None:
    def join(tensors: Any) -> Any:
        return NUMPY[f"numpy.{name}"](_of_one_dtype(tensors))

    of_torch(name)(join)


for _name in ("hstack", "vstack", "dstack", "column_stack"):
    _joining(_name)


@of_torch()
def split(x: Any, split_size_or_sections: Any = None, dim: int = 0, *,
          split_size: Any = None) -> Any:
    """Parts of a size, the last one the rest; or of several sizes."""
    sizes = split_size_or_sections if split_size is None else split_size
    count = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, count - k) for k in range(0, max(count, 1), sizes)] \
            if sizes > 0 else []
    sizes = list(sizes)
    if sum(sizes) != count:
        return NotImplemented  # PyTorch says what is wrong
    ends = np.cumsum(sizes).tolist()
    return tuple([_part(x, dim, slice(end - n, end))
                  for n, end in zip(sizes, ends, strict=True)])


@of_torch()
def chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    """So many parts, or fewer."""
    if chunks < 1 or not x.shape[dim]:
        return NotImplemented
    return split(x, -(-x.shape[dim] // chunks), dim)


@of_torch()
def tensor_split(x: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """So many parts, or parts between indices."""
    return tuple(NUMPY["numpy.array_split"](x, indices_or_sections, axis=dim))


@of_torch()
def unbind(x: Any, dim: int = 0) -> Any:
    """The parts along an axis, without it."""
    return tuple([_part(x, dim, k) for k in range(x.shape[dim])])


@of_torch()
def narrow(x: Any, dim: int, start: int, length: int) -> Any:
    """A part of a length."""
    if not isinstance(start, int) or not 0 <= start <= start + length <= x.shape[dim]:
        return NotImplemented
    return _part(x, dim, slice(start, start + length))


@of_torch()
def select(x: Any, dim: int, index: int) -> Any:
    """One part, without its axis."""
    return _part(x, dim, index) if isinstance(index, int) else NotImplemented


# Taken by indices ---------------------------------------------------------------------


@of_torch()
def index_select(x: Any, dim: int, index: Any) -> Any:
    """Parts at indices."""
    return OPS["take"](x, index, axis=dim)


@of_torch()
def gather(x: Any, dim: int, index: Any) -> Any:
    """Elements at indices along an axis; of as few lines as there are indices."""
    dim %= x.ndim
    lines = tuple([slice(None) if k == dim or n == m else slice(0, m)
                   for k, (n, m) in enumerate(zip(x.shape, index.shape, strict=True))])
    whole = all(part == slice(None) for part in lines)
    return OPS["take_along_axis"](x if whole else OPS["getitem"](x, lines), index,
                                  axis=dim)


@of_torch()
def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    """Elements at indices along an axis."""
    return NotImplemented if dim is None else OPS["take_along_axis"](
        x, indices, axis=dim)


@of_torch()
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    """The elements, and a value where a mask is true."""
    return converted(OPS["where"](mask, converted(value, dtype_of(x)), x), dtype_of(x))


# Other shapes -------------------------------------------------------------------------


@of_torch("reshape", "view")
def reshape(x: Any, *shape: Any) -> Any:
    """The elements in another shape."""
    if len(shape) == 1 and not isinstance(shape[0], (int, tuple, list)):
        return NotImplemented  # a view in another dtype
    return Symbol.reshape(x, _sizes(shape))


@of_torch()
def contiguous(x: Any) -> Any:
    """The elements in order in memory; as a reshape it may be a copy."""
    return Symbol.reshape(Symbol.reshape(x, (-1,)), tuple(x.shape)) if prod(
        x.shape) else x


@of_torch("view_as", "reshape_as")
def reshape_as(x: Any, other: Any) -> Any:
    """The elements in the shape of another tensor."""
    return Symbol.reshape(x, tuple(other.shape))


@of_torch()
def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Axes made one."""
    if not x.ndim:
        return Symbol.reshape(x, (1,))
    low, high = start_dim % x.ndim, end_dim % x.ndim
    shape = tuple(x.shape)
    return Symbol.reshape(x, (*shape[:low], prod(shape[low:high + 1]),
                              *shape[high + 1:]))


@of_torch()
def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    """An axis made several."""
    shape, dim = tuple(x.shape), dim % x.ndim
    sizes = list(sizes)
    if -1 in sizes:
        sizes[sizes.index(-1)] = shape[dim] // -prod(sizes)
    return Symbol.reshape(x, (*shape[:dim], *sizes, *shape[dim + 1:]))


@of_torch()
def squeeze(x: Any, dim: Any = None) -> Any:
    """The tensor without axes of one element; those that have more stay."""
    dims = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    for k in sorted({d % max(x.ndim, 1) for d in dims}, reverse=True):
        if x.ndim and x.shape[k] == 1:
            x = OPS["squeeze"](x, k)
    return x


@of_torch()
def unsqueeze(x: Any, dim: int) -> Any:
    """A new axis."""
    return OPS["expand_dims"](x, dim)


@of_torch()
def permute(x: Any, *dims: Any) -> Any:
    """The axes in another order."""
    return Symbol.transpose(x, *_sizes(dims))


@of_torch("transpose", "swapaxes", "swapdims")
def transpose(x: Any, dim0: int, dim1: int) -> Any:
    """Two axes exchanged."""
    axes = list(range(x.ndim))
    axes[dim0], axes[dim1] = axes[dim1], axes[dim0]
    return Symbol.transpose(x, *axes)


@of_torch()
def t(x: Any) -> Any:
    """The transposed matrix."""
    return Symbol.transpose(x)


@of_torch("movedim", "moveaxis")
def movedim(x: Any, source: Any, destination: Any) -> Any:
    """Axes moved."""
    return NUMPY["numpy.moveaxis"](x, source, destination)


@of_torch("expand")
def expand(x: Any, *size: Any) -> Any:
    """Axes of one element repeated; -1 for those that stay."""
    wanted = _sizes(size)
    own = (*(1,) * (len(wanted) - x.ndim), *x.shape)
    return OPS["broadcast_to"](x, tuple([
        n if want == -1 else want for n, want in zip(own, wanted, strict=True)]))


@of_torch()
def expand_as(x: Any, other: Any) -> Any:
    """The elements broadcast to another tensor's shape."""
    return OPS["broadcast_to"](x, tuple(other.shape))


@of_torch()
def broadcast_to(x: Any, size: Any) -> Any:
    """The elements broadcast to a shape."""
    return expand(x, tuple(size))


@of_torch("repeat", "tile")
def repeat(x: Any, *repeats: Any) -> Any:
    """The tensor repeated along each axis."""
    return NUMPY["numpy.tile"](x, _sizes(repeats))


@of_torch()
def repeat_interleave(x: Any, repeats: Any, dim: int | None = None) -> Any:
    """Each element so many times."""
    if not isinstance(repeats, int):
        return NotImplemented
    return NUMPY["numpy.repeat"](x, repeats, axis=dim)


@of_torch()
def roll(x: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved around."""
    axis = tuple(dims) if isinstance(dims, list) else dims
    return NUMPY["numpy.roll"](
        x, tuple(shifts) if isinstance(shifts, list) else shifts, axis)


@of_torch()
def flip(x: Any, *dims: Any) -> Any:
    """Axes in the other direction."""
    return NUMPY["numpy.flip"](x, _sizes(dims))


def _of_numpy(name: str) -> None:
    def call(x: Any, diagonal: int = 0) -> Any:
        return NUMPY[f"numpy.{name}"](x, diagonal)

    of_torch(name)(call)


for _name in ("tril", "triu", "diag"):
    _of_numpy(_name)


@of_torch()
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of matrices."""
    return NUMPY["numpy.diagonal"](x, offset, dim1, dim2)


@of_torch()
def trace(x: Any) -> Any:
    """The sum of the diagonal."""
    return NUMPY["numpy.trace"](x)


# Products -----------------------------------------------------------------------------


@of_torch()
def einsum(equation: Any, *operands: Any) -> Any:
    """Sums of products, as a text says."""
    if not isinstance(equation, str):
        return NotImplemented
    given = operands[0] if len(operands) == 1 and isinstance(
        operands[0], (list, tuple)) else operands
    return promoted(lambda *xs: NUMPY["numpy.einsum"](equation, *xs), given)


@of_torch()
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over axes."""
    return promoted(lambda x, y: NUMPY["numpy.tensordot"](x, y, dims), (a, b))


def _product(name: str, *names: str) -> None:
    def product(a: Any, b: Any) -> Any:
        return promoted(NUMPY[f"numpy.{name}"], (a, b))

    of_torch(*names or (name,))(product)


_product("outer", "outer", "ger")
_product("inner")
_product("kron")
_product("dot", "dot", "mv")


@of_torch("addmm", "baddbmm", "addmv")
def addmm(x: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """A product of matrices, added to a tensor."""
    product = promoted(OPS["matmul"], (mat1, mat2))
    if alpha != 1:
        product = promoted(OPS["multiply"], (product, alpha))
    return product if beta == 0 else promoted(OPS["add"], (
        x if beta == 1 else promoted(OPS["multiply"], (x, beta)), product))

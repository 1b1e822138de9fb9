"""Calls on Dask arrays, checked, and a spec as a function of blocks."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from pickle import dumps
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of, is_array, library_of
from ...errors import KernelTypeError, ShapeError
from ...scalar.typing.python_numbers import number_type, plain_number
from ...scalar.typing.types import Type
from ...specs import Spec
from ...specs.shapes import broadcast_shapes
from ...support.records import record

__all__ = ["Block", "Call", "Labels", "Pick", "aligned", "array_module", "block_of",
           "blockwise", "chunk_bytes", "flat", "flat_index", "is_chunked", "meta_like",
           "picked", "read_call", "run_blocks", "spell", "token_of", "types_of"]

#: Extents of chunks that are looked at, along an axis.
_SIZES = 8
#: A label for each axis of an array; equal ones go together.
Labels = tuple[Hashable, ...]
Shape = tuple[int, ...]


@record
class Call:
    """A call of a spec on Dask arrays and numbers.

    Attributes
    ----------
    shapes
        Of the inputs; of numbers ().
    dtypes
        Of the outputs.
    """

    spec: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[np.dtype, ...]


def read_call(spec: Spec, inputs: Sequence[Any], out: Sequence[Any | None] | None,
              dtypes: Sequence[Any] | None, names: Sequence[str] | None) -> Call:
    """Check a call; what is raised is in `dask_arrays.run`."""
    if out is not None and any(o is not None for o in out):
        raise KernelTypeError(f"out: {spec.name} is run on Dask arrays, which are "
                              "immutable; leave out=None and use the result")
    kinds = [kind for kind, _ in spec.parameters]
    kinds += ["element"] * (len(inputs) - len(kinds))  # of `concatenate`
    called = tuple(names or [name for _, name in spec.parameters])
    called += tuple(f"arrays[{k}]" for k in range(len(called), len(inputs)))
    if len(kinds) != len(inputs):
        raise KernelTypeError(f"{spec.name} takes {len(kinds)} inputs {called}, got "
                              f"{len(inputs)}")
    given = []
    for kind, name, x in zip(kinds, called, inputs, strict=False):
        if is_array(x) and not isinstance(x, np.generic):
            _check_array(spec, name, x)
            given.append(x)
        elif kind == "scalar":
            given.append(plain_number(x))
        else:
            raise KernelTypeError(f"{spec.name}: {name} is {x!r} beside Dask arrays; "
                                  "expected a Dask array: use dask.array.asarray")
    shapes = tuple([tuple(getattr(x, "shape", ())) for x in given])
    found = spec.result_types(types_of(given))
    spec.out_shapes(shapes)  # raises where they do not fit
    asked = dtypes or (None,) * len(found)
    return Call(spec, tuple(given), called, shapes, tuple(
        [have if want is None else check_dtype(want, "dtype")
         for want, have in zip(asked, found, strict=True)]))


def _check_array(spec: Spec, name: str, x: Any) -> None:
    library = library_of(x)
    if not getattr(library, "lazy", False):
        raise KernelTypeError(
            f"{spec.name}: {name} is an array of {library.name} beside Dask arrays; "
            "one call takes arrays of one library: use dask.array.from_array("
            f"{name}, chunks=-1)")
    library.check(x, name)  # type: ignore[attr-defined]
    if type(x._meta) is not np.ndarray:
        _check_chunks(x._meta, name)


def _check_chunks(meta: Any, name: str) -> None:
    """Refuse chunks of a library without kernels, before any is computed."""
    masked = isinstance(meta, np.ma.MaskedArray)
    if masked or not is_array(meta):
        fill = "dask.array.ma.filled(x, value)" if masked else \
            "map_blocks(function, dtype=...) to convert them"
        raise KernelTypeError(
            f"{name} is a Dask array whose chunks are {type(meta).__name__}; expected "
            f"NumPy's or CuPy's: use {fill}")


def array_module() -> Any:
    """`dask.array`, which made the arrays, so that it is imported."""
    return sys.modules["dask.array"]


def chunk_bytes() -> int:
    """Bytes of the largest chunks that Dask makes by itself."""
    from dask import config
    from dask.utils import parse_bytes

    found: int = parse_bytes(config.get("array.chunk-size"))
    return found


@record(frozen=True)
class Chunk:
    """An input of a block that is a chunk.

    Attributes
    ----------
    name
        For messages.
    sizes
        For each axis the extents of chunks along it; None where these are many.
    """

    dtype: np.dtype
    name: str
    sizes: tuple[tuple[int, ...] | None, ...] = ()

    def checked(self, chunk: Any) -> Any:
        """The chunk itself, if it is as its array says.

        Raises
        ------
        KernelTypeError, ShapeError
            It has another dtype or shape: whoever made the array gave it a wrong
            ``meta`` or ``chunks``.
        """
        if isinstance(chunk, np.generic):
            chunk = np.asarray(chunk)
        if dtype_of(chunk) != self.dtype:
            raise KernelTypeError(
                f"{self.name}: a chunk has dtype {dtype_of(chunk)}, but the Dask array "
                f"says {self.dtype}; give the function that made it that dtype, or "
                "map_blocks the right dtype= or meta=")
        if self.sizes and (len(self.sizes) != chunk.ndim or any(
                sizes and n not in sizes
                for n, sizes in zip(chunk.shape, self.sizes, strict=True))):
            raise ShapeError(
                f"{self.name}: a chunk has shape {tuple(chunk.shape)}, but the Dask "
                f"array says that its chunks are {self.sizes} along its axes; give "
                "map_blocks the right chunks=")
        flags = getattr(chunk, "flags", None)  # what a worker sent lies anywhere
        return chunk if getattr(flags, "aligned", True) else chunk.copy()


@record(frozen=True)
class Block:
    """A spec as a function of the chunks of one block.

    Attributes
    ----------
    given
        For each input a `Chunk`, or the number.
    dtypes
        Of the outputs.
    """

    spec: Spec
    given: tuple[Any, ...]
    dtypes: tuple[np.dtype, ...]

    def __call__(self, *chunks: Any) -> Any:
        """Run the spec: its output, or a tuple of several."""
        from ..execute import execute

        rest = map(only, chunks)
        made = execute(self.spec, [
            x.checked(next(rest)) if isinstance(x, Chunk) else x for x in self.given],
            dtypes=self.dtypes)
        return made[0] if len(made) == 1 else made

    def of(self, arrays: Sequence[Any]) -> Block:
        """The function of chunks of these arrays."""
        rest = iter(arrays)
        return Block(self.spec, tuple([
            replace(x, sizes=_sizes(next(rest))) if isinstance(x, Chunk) else x
            for x in self.given]), self.dtypes)

    def __dask_tokenize__(self) -> Any:
        return token_of(self.spec), repr(self.given), tuple(map(str, self.dtypes))


def _sizes(x: Any) -> tuple[tuple[int, ...] | None, ...]:
    """The extents of chunks along each axis; None of many."""
    found = [tuple(sorted(set(chunks))) for chunks in x.chunks]
    return tuple([sizes if len(sizes) <= _SIZES else None for sizes in found])


def block_of(call: Call, spec: Spec | None = None, inputs: Sequence[Any] | None = None,
             dtypes: Sequence[np.dtype] | None = None) -> Block:
    """The function of blocks of a call, or of another spec in its place."""
    given = call.inputs if inputs is None else inputs
    names = {id(x): name for x, name in zip(call.inputs, call.names, strict=True)}
    return Block(call.spec if spec is None else spec, tuple(
        [Chunk(dtype_of(x), names.get(id(x), "index")) if is_chunked(x) else x
         for x in given]), tuple(dtypes or call.dtypes))


def is_chunked(x: Any) -> bool:
    """Whether an input of a checked call is an array."""
    return hasattr(x, "chunks")


def types_of(inputs: Sequence[Any]) -> tuple[Type, ...]:
    """The types of inputs of a checked call."""
    return tuple([dtype_of(x) if is_chunked(x) else number_type(x) for x in inputs])


def token_of(spec: Spec) -> str:
    """A digest of a spec, which names its tasks."""
    found: str | None = spec.__dict__.get("_token")
    if found is None:
        found = spec.__dict__["_token"] = blake2b(
            dumps(spec), digest_size=16).hexdigest()
    return found


@record(frozen=True)
class Pick:
    """Takes one of the outputs of a block, which has one chunk along what it drops."""

    number: int

    def __call__(self, block: Any) -> Any:
        """The output."""
        return only(block)[self.number]


def flat(blocks: Any) -> Iterator[Any]:
    """The blocks in nested lists, in order."""
    if isinstance(blocks, list):
        for block in blocks:
            yield from flat(block)
    else:
        yield blocks


def only(block: Any) -> Any:
    """The only block in nested lists.

    Labels that the result lacks are those of one chunk; Dask gives them as lists, and
    copies where it is asked to join them.
    """
    (found,) = flat(block)
    return found


def blockwise(function: Any, title: str, labels: Labels,
              operands: Sequence[tuple[Any, Labels]], dtype: np.dtype,
              **options: Any) -> Any:
    """`dask.array.blockwise`, of arrays that broadcast, with nothing computed."""
    from dask.base import tokenize

    arrays = array_module().core.unify_chunks(
        *[part for operand in operands for part in operand], warn=False)[1]
    operands = [(x, own) for x, (_, own) in zip(arrays, operands, strict=True)]
    if isinstance(function, Block):
        function = function.of(arrays)
    arguments = [part for operand in operands for part in operand]
    name = tokenize(function, labels, [(x.name, own) for x, own in operands],
                    str(dtype), options)
    return array_module().blockwise(
        function, labels, *arguments, name=f"{title}-{name}", dtype=dtype,
        meta=meta_like(operands[0][0], len(labels), dtype), concatenate=None,
        align_arrays=False, **options)


def meta_like(x: Any, ndim: int, dtype: np.dtype) -> Any:
    """An empty array as chunks with so many axes would be."""
    return array_module().utils.meta_from_array(x._meta, ndim=ndim, dtype=dtype)


def picked(packed: Any, labels: Labels, outputs: Sequence[tuple[Labels, np.dtype]],
           title: str) -> list[Any]:
    """The outputs of blocks that are tuples, for each its labels and dtype."""
    return [blockwise(Pick(k), title, own, [(packed, labels)], dtype)
            for k, (own, dtype) in enumerate(outputs)]


def run_blocks(block: Block, title: str, labels: Labels,
               operands: Sequence[tuple[Any, Labels]], **options: Any) -> list[Any]:
    """Run a block function whose outputs all have these labels."""
    made = blockwise(block, title, labels, operands, block.dtypes[0], **options)
    if len(block.dtypes) == 1:
        return [made]
    return picked(made, labels, [(labels, dtype) for dtype in block.dtypes], title)


def aligned(x: Any, ndim: int) -> tuple[Any, Labels]:
    """An array with labels of the last of `ndim` axes, to which it broadcasts."""
    return x, tuple(range(ndim - x.ndim, ndim))


def spell(kinds: Sequence[str], inputs: Sequence[Any], index: Any, size: int,
          ) -> tuple[tuple[str, ...], list[Any]]:
    """Kinds and inputs with the index an array and the size a number.

    In a block both would be those of the block.
    """
    given = iter(inputs)
    implied = {"index": ("element", index), "size": ("scalar", size)}
    pairs = [implied[kind] if kind in implied else (kind, next(given))
             for kind in kinds]
    return tuple([kind for kind, _ in pairs]), [x for _, x in pairs]


def flat_index(arrays: Sequence[Any], axes: Sequence[int]) -> Any:
    """The flat C-order index of the points along `axes`, 1 along the others.

    Of the shape that the arrays broadcast to, and in chunks as theirs.
    """
    da = array_module()
    extent = broadcast_shapes([x.shape for x in arrays])
    found, stride = None, 1
    for axis in reversed(axes):
        back = axis - len(extent)
        chunks = next(x.chunks[back] for x in arrays if x.ndim >= -back
                       and x.shape[back] == extent[axis])
        part = da.arange(extent[axis], chunks=(chunks,), dtype=np.int64,
                         like=arrays[0]._meta)
        part = (part * stride)[tuple([slice(None) if k == axis else None
                                      for k in range(len(extent))])]
        found = part if found is None else found + part
        stride *= extent[axis]
    return da.zeros_like(arrays[0], shape=(1,) * len(extent), dtype=np.int64) \
        if found is None else found

"""`ReductionKernel`: CuPy's four slots, in C or Python, on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ...arrays import check_dtype, dtype_of
from ...autograd import apply
from ...autograd.compilers.dynamo import called_whole
from ...dispatch.outputs import check_shape
from ...errors import DefinitionError, KernelTypeError, ShapeError
from ...op.base import is_number, unpack_single
from ...op.kernel_counts import count_kernel
from ...op.keywords import check_keywords
from ...scalar.ir.nodes import drop_params, used_params
from ...scalar.source.definitions import keep_sources
from ...specs import Map
from ...specs.shapes import Axes, broadcast_shapes, normalize_axes
from .arguments import flatten_raw, number, on_stream, split
from .codes import CachedCodes
from .parameters import (
    ParameterInfo,
    check_name,
    check_texts,
    check_unique,
    ignore_options,
    parse_parameters,
    resolve_types,
)
from .slots import (
    Slots,
    TypedSlots,
    check_slots,
    named_by_post,
    reduce_spec,
    stored_spec,
)

__all__ = ["ReductionKernel"]

_KEYWORDS = ("axis", "keepdims", "out", "dtype", "stream")


class ReductionKernel(CachedCodes):
    """A reduction over axes, as CuPy defines it.

    Parameters
    ----------
    in_params, out_params : str
        As for `ElementwiseKernel`.
    map_expr : str or callable
        What is done to each element: an expression in C, or a Python function of the
        inputs, by their names.
    reduce_expr : str or callable
        How two values `a` and `b` are combined; it must be associative and commutative.
        A Python function may combine states of several parts: it takes those of one,
        then those of the other.
    post_map_expr : str or callable
        From the combined value `a` to the outputs: C that assigns them, or a Python
        function of the value, or of its parts, that returns them.
    identity : str, number, tuple or None
        The neutral element, one for each part of a state; None or an empty string if
        there is none.
    name : str
        Of the kernel.
    reduce_type : str, optional
        The type of `a` and `b`; default: that of the first output, and for a sum or
        product of integers at least NumPy's accumulator.
    reduce_dims : bool
        Without effect: axes are merged where that changes no result.
    preamble : str
        Functions and macros in C.
    options : tuple
        Of NVRTC: ignored with a warning.

    Raises
    ------
    DefinitionError
        A `ValueError`: as for `ElementwiseKernel`.
    ScalarSyntaxError
        At the first call: C that is not understood, with its line.

    Notes
    -----
    Sums, products, maxima and minima have derivatives of their own (a tie shares
    equally); any other way to combine is differentiated by folding the elements of each
    output from the left, in C order.
    In C, `_J` is the position among the elements that are reduced, ``_in_ind.size()``
    and ``_out_ind.size()`` are numbers of elements.  A raw input may be combined with
    any `axis`.

    Examples
    --------
    >>> import numpy as np
    >>> import nbfused as nf
    >>> l2norm = nf.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0",
    ...                             "l2norm")
    >>> l2norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
    array([ 5., 10.])
    """

    def __init__(self, in_params: str, out_params: str,
                 map_expr: str | Callable[..., Any],
                 reduce_expr: str | Callable[..., Any],
                 post_map_expr: str | Callable[..., Any], identity: Any,
                 name: str = "reduce_kernel", reduce_type: str | None = None,
                 reduce_dims: bool = True, preamble: str = "",
                 options: Sequence[str] = ()) -> None:
        check_name(name)
        called_whole(self)
        self.in_params: tuple[ParameterInfo, ...] = parse_parameters(
            in_params, "in_params")
        self.out_params: tuple[ParameterInfo, ...] = parse_parameters(
            out_params, "out_params")
        self.params: tuple[ParameterInfo, ...] = self.in_params + self.out_params
        check_unique(self.params)
        for p in self.params:
            if p.name in ("a", "b"):
                raise DefinitionError(f"the parameter {p.name!r} has the name of an "
                                      "operand of the slots; give it another")
            if p.raw and p in self.out_params:
                raise DefinitionError(f"the output {p.name!r} must not be raw")
        if not self.in_params or not self.out_params:
            raise DefinitionError(f"{name} needs an input and an output")
        ignore_options(name, options)
        check_texts(preamble=preamble)
        self.nin: int = len(self.in_params)
        self.nout: int = len(self.out_params)
        self.nargs: int = self.nin + self.nout
        self.name = name
        self.__name__: str = name
        self.map_expr: Any = map_expr
        self.reduce_expr: Any = reduce_expr
        self.post_map_expr: Any = post_map_expr
        self.identity: Any = identity
        self.reduce_type: str | None = reduce_type
        self.reduce_dims: bool = reduce_dims
        self.preamble = preamble
        self._slots = Slots(name, self.in_params, self.out_params, map_expr,
                            reduce_expr, post_map_expr, identity, reduce_type, preamble)
        check_slots(self._slots)
        super().__init__()
        count_kernel(name)

    def __getstate__(self) -> dict[str, Any]:
        """The state to pickle: slots in Python carry their sources."""
        keep_sources(self.map_expr, self.reduce_expr, self.post_map_expr)
        return {**self.__dict__, "_codes": {}}

    def __repr__(self) -> str:
        ins, outs = (", ".join(f"{'raw ' * p.raw}{p.ctype} {p.name}" for p in ps)
                     for ps in (self.in_params, self.out_params))
        return f"<nbfused ReductionKernel {self.name}({ins}) -> ({outs})>"

    def __call__(self, *args: Any, axis: Axes = None, keepdims: bool = False,
                 out: Any = None, dtype: Any = None, stream: Any = None,
                 **unknown: Any) -> Any:
        """Reduce arrays.

        Parameters
        ----------
        *args
            Inputs: arrays that broadcast together, raw arrays, numbers; then all
            outputs, or none.
        axis : int or tuple of int, optional
            What to reduce; default: all axes.
        keepdims : bool
            Keep the reduced axes with extent 1.
        out : array or tuple of array, optional
            The outputs, by keyword.
        dtype : dtype, optional
            Of the mapped values and the outputs, in place of their own.
        stream : stream, optional
            To launch on; default: the current one of the arrays' library.
        **unknown
            Refused.

        Raises
        ------
        numpy.exceptions.AxisError
            `axis` is out of range.
        ShapeError
            A `ValueError`: an axis named twice, nothing to reduce and no identity.
        KernelTypeError
            As for `ElementwiseKernel`.
        """
        if unknown:
            check_keywords(self.name, unknown, _KEYWORDS)
        inputs, outs = split(self.name, self.in_params, self.out_params, args, out)
        with on_stream(stream, self.name):
            return unpack_single(self._run(
                inputs, outs, axis, bool(keepdims),
                None if dtype is None else check_dtype(dtype)))

    def _run(self, inputs: list[Any], outs: list[Any], axis: Axes, keepdims: bool,
             dtype: np.dtype | None) -> tuple[Any, ...]:
        numbers = {p.name: x for p, x in zip(self.in_params, inputs, strict=True)
                   if is_number(x)}
        made = [None if x is None or dtype is not None else dtype_of(x) for x in outs]
        given = [None if is_number(x) else dtype_of(x) for x in inputs]
        types = resolve_types(self.name, (*self.out_params, *self.in_params),
                              (*made, *given), numbers)
        values = {p.name: number(x, p.dtype or types[p.ctype], self.name, p.name)
                  if p.name in numbers else x
                  for p, x in zip(self.in_params, inputs, strict=True)}
        shape, kept, axes = self._extent(values, axis)
        mapped = self._slots.mapped(tuple(types.items()), self._ranks(values), dtype)
        self._keep_code(tuple(d for d in given if d is not None), mapped.text)
        sizes = {"_in_ind_size": prod(shape), "_out_ind_size": prod(kept)}
        if mapped.materialize:
            arrays = self._materialized(mapped, values, sizes, len(axes) == len(shape))
            values = {**dict(zip(mapped.mapped_names, arrays, strict=True)),
                      **{n: values[n] for n in numbers}}
        kinds = tuple((n, "scalar" if is_number(x) else "element")
                      for n, x in values.items())
        over = axes if axis is not None else None
        table = {**values, **sizes}
        places = None if all(o is None for o in outs) else outs
        if places is not None and mapped.reads:
            return self._stored(mapped, kinds, over, keepdims, table, outs)
        spec, names = reduce_spec(mapped, kinds, over, keepdims)
        return apply(spec, [table[n] for n in names], out=places, names=names,
                     dtypes=mapped.dtypes if places is None else None)

    def _stored(self, mapped: TypedSlots, kinds: tuple[tuple[str, str], ...],
                axes: tuple[int, ...] | None, keepdims: bool, table: dict[str, Any],
                outs: list[Any]) -> tuple[Any, ...]:
        """Reduce, then store what the post map makes of that and of the outputs."""
        named_by_post(mapped, dict(kinds))
        first = mapped.reduced()
        spec, names = reduce_spec(first, kinds, axes, keepdims)
        states = apply(spec, [table[n] for n in names], names=names,
                       dtypes=first.dtypes)
        for p, x in zip(self.out_params, outs, strict=True):
            check_shape(f"{self.name}: '{p.name}'", tuple(x.shape),
                        tuple(states[0].shape))
        last, names = stored_spec(mapped)
        table |= {p.name: x for p, x in zip(self.out_params, outs, strict=True)}
        given = [*states, *(table[n] for n in names[len(states):])]
        return apply(last, given, out=outs, names=names)

    def _ranks(self, values: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        return tuple((p.name, len(values[p.name].shape)) for p in self.in_params
                     if p.raw and not is_number(values[p.name]))

    def _extent(self, values: dict[str, Any],
                axis: Axes) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The shape that is reduced, what is left of it, and the axes."""
        shapes = [tuple(values[p.name].shape) for p in self.in_params
                  if not p.raw and not is_number(values[p.name])]
        if not shapes:
            raise ShapeError(f"Loop size is undecided. {self.name} was called without "
                             "an array that is not raw")
        for p in self.in_params:
            if p.raw and is_number(values[p.name]):
                raise KernelTypeError(f"{self.name}: '{p.name}' is raw and must be an "
                                      f"array, got {values[p.name]!r}")
        shape = broadcast_shapes(shapes)
        axes = tuple(sorted(normalize_axes(axis, len(shape))))
        kept = tuple(n for a, n in enumerate(shape) if a not in axes)
        if 0 in shape and 0 not in kept and self.identity in (None, ""):
            raise ShapeError(f"{self.name}: zero-size array to a reduction which has "
                             f"no identity: shape {shape}, axis {axis}")
        return shape, kept, axes

    def _materialized(self, mapped: TypedSlots, values: dict[str, Any],
                      sizes: dict[str, int], whole: bool) -> tuple[Any, ...]:
        """The mapped values as arrays: where raw inputs are read."""
        function, table = mapped.function, {**values, **sizes}
        kinds = {"_j": "index", "_J": "index"}
        for p in self.in_params:
            x = values[p.name]
            kinds[p.name] = "raw" if p.raw else "scalar" if is_number(x) else "element"
            if p.raw:
                table[p.name] = x if callable(self.map_expr) else flatten_raw(x)
                table[f"_{p.name}_size"] = prod(x.shape)
                table |= {f"_{p.name}_shape{k}": n for k, n in enumerate(x.shape)}
        used = dict(zip(function.params, used_params(function), strict=True))
        if used.get("_J") and not whole:
            raise ShapeError(f"{self.name}: _J beside a raw input needs axis=None")
        function = drop_params(function, tuple(
            used[p] or kinds.get(p) == "element" for p in function.params))
        names = [p for p in function.params if kinds.get(p) != "index"]
        spec = Map(function, tuple(kinds.get(p, "scalar") for p in function.params))
        return apply(spec, [table[n] for n in names], names=tuple(names))

"""Elementwise kernels prepared for arguments of some types, and run on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...arrays import dtype_of
from ...autograd import apply
from ...errors import ShapeError
from ...op.base import is_number
from ...scalar.cparse import LOOP
from ...scalar.ir.build import Builder
from ...scalar.ir.nodes import Function, Value, drop_params, used_params
from ...specs import Map
from ...specs.base import KEPT
from ...specs.shapes import broadcast_shapes
from ...specs.vjp.functions import compose
from ...support.forks import cached_property
from ...support.records import record
from .arguments import check_size, flat_output, flatten_raw, loop_array, number
from .bodies import INDEX
from .parameters import ParameterInfo

__all__ = ["Prepared", "check_outputs", "implicit_kind", "indexed", "input_kinds",
           "loop_shape", "signature"]

POINTS = "_points"


def signature(params: Sequence[ParameterInfo], inputs: Sequence[Any],
              outs: Sequence[Any], size: int | None) -> tuple[Any, ...]:
    """A key that calls share if they run the same function."""
    parts: list[Any] = [size is None]
    for p, x in zip(params, (*inputs, *outs), strict=True):
        if x is None or is_number(x):
            parts.append(x.dtype if isinstance(x, np.generic) else type(x))
        else:
            parts += (None, dtype_of(x), len(x.shape) if p.raw else 0)
    return tuple(parts)


def indexed(params: Sequence[ParameterInfo],
            inputs: Sequence[Any]) -> tuple[ParameterInfo, ...]:
    """The inputs; one that is raw and takes a number is a number, as in CuPy."""
    return tuple(replace(p, raw=p.raw and not is_number(x))
                 for p, x in zip(params, inputs, strict=True))


def input_kinds(params: Sequence[ParameterInfo],
                inputs: Sequence[Any]) -> dict[str, str]:
    """The kind of each input: element, raw or scalar."""
    return {p.name: "scalar" if is_number(x) else "raw" if p.raw else "element"
            for p, x in zip(params, inputs, strict=True)}


def loop_shape(params: Sequence[ParameterInfo],
               values: Sequence[Any]) -> tuple[int, ...] | None:
    """The shape that the arrays which are not raw have together; None if none is."""
    shapes = [tuple(x.shape) for p, x in zip(params, values, strict=True)
              if not (p.raw or x is None or is_number(x))]
    return broadcast_shapes(shapes) if shapes else None


def check_outputs(kernel: str, params: Sequence[ParameterInfo], outs: Sequence[Any],
                  size: int | None) -> None:
    """`ShapeError` for a raw output whose size nothing tells."""
    for p, x in zip(params, outs, strict=True):
        if p.raw and x is None and size is None:
            raise ShapeError(f"{kernel}: Output array size is undecided: '{p.name}' is "
                             "raw; pass it as an argument")


@record(frozen=True, eq=False)
class Prepared:
    """A kernel for arguments of some types.

    Attributes
    ----------
    function
        Of inputs, outputs (where they keep what they hold), and what the body can name
        besides.
    kinds
        Of the inputs.
    dtypes
        Of inputs, then outputs.
    given
        For each output, whether the caller gives it.
    sized
        Whether the caller gives the size.
    """

    name: str
    in_params: tuple[ParameterInfo, ...]
    out_params: tuple[ParameterInfo, ...]
    python: bool
    function: Function
    kinds: dict[str, str]
    dtypes: tuple[np.dtype, ...]
    given: tuple[bool, ...]
    sized: bool

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The outputs as the spec has them: those that are raw come last."""
        return tuple(sorted(range(len(self.out_params)),
                            key=lambda k: self.out_params[k].raw))

    @cached_property
    def out_dtypes(self) -> tuple[np.dtype, ...]:
        """The dtypes of the outputs in `order`."""
        return tuple(self.dtypes[len(self.in_params) + k] for k in self.order)

    @cached_property
    def pruned(self) -> tuple[Function, tuple[str, ...]]:
        """The function of what it reads, and the kind of each parameter."""
        used = dict(zip(self.function.params, used_params(self.function), strict=True))
        kinds = {**self.kinds, **self._outputs(used)}
        whole = compose(self.name, self.function.params, self._typed)
        keep = tuple(used[p] or kinds.get(p) in ("element", "scatter")
                     for p in self.function.params)
        function = drop_params(whole, keep)
        found = tuple(kinds.get(p) or implicit_kind(p) for p in function.params)
        if not self.sized:
            return function, found
        return replace(function, params=(*function.params, POINTS)), (*found, "element")

    def _typed(self, b: Builder) -> tuple[Value, ...]:
        """The function, its numbers in the types that are declared."""
        dtypes = {p.name: d for p, d in zip(self.in_params, self.dtypes, strict=False)
                  if self.kinds[p.name] == "scalar"}
        return b.call(self.function, *(
            b.let("cast", p, stem=p, attr=dtypes[p].name) if p in dtypes else p
            for p in self.function.params))

    def _outputs(self, used: dict[str, bool]) -> dict[str, str]:
        """Outputs among the parameters: their contents, or the place to store."""
        found = {}
        for p, given in zip(self.out_params, self.given, strict=True):
            if p.raw:
                found[p.name] = "scatter"
            elif used.get(p.name):
                found[p.name] = "element" if given else "scalar"
            else:
                found[p.name] = "unread"
        return found

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The parameters of the spec that take a value."""
        function, kinds = self.pruned
        return tuple(p for p, k in zip(function.params, kinds, strict=True)
                     if k in ("element", "scalar", "raw"))

    def run(self, inputs: Sequence[Any], outs: Sequence[Any],
            size: int | None) -> tuple[Any, ...]:
        """Run on arguments of these types; the outputs in their order."""
        size = check_size(size, self.name, self._element(outs), needed=True)
        values = self._values(inputs, outs, size)
        function, kinds = self.pruned
        spec = _spec(function, kinds, tuple(
            self._extent(outs[k], size) for k in self.order if self.out_params[k].raw))
        places = [self._place(outs[k], self.out_params[k]) for k in self.order]
        results = apply(spec, [values[p] for p in self.inputs], names=self.inputs,
                        out=places if any(self.given) else None, dtypes=self.out_dtypes)
        found = dict(zip(self.order, results, strict=True))
        return tuple([found[k] if x is None else x for k, x in enumerate(outs)])

    def _element(self, outs: Sequence[Any]) -> str | None:
        """The name of an array that is not raw."""
        for p in self.in_params:
            if self.kinds[p.name] == "element":
                return p.name
        return next((p.name for p, x in zip(self.out_params, outs, strict=True)
                     if x is not None and not p.raw), None)

    def _values(self, inputs: Sequence[Any], outs: Sequence[Any],
                size: int | None) -> dict[str, Any]:
        """The value of each of `inputs`, and of some more."""
        found: dict[str, Any] = {}
        for p, x, dtype in zip(self.in_params, inputs, self.dtypes, strict=False):
            if self.kinds[p.name] == "scalar":
                x = number(x, dtype, self.name, p.name)
            elif p.raw and not self.python:
                found |= _extents(p.name, tuple(x.shape))
                x = flatten_raw(x)
            found[p.name] = x
        for p, x, dtype in zip(self.out_params, outs, self.dtypes[len(inputs):],
                               strict=True):
            found[p.name] = dtype.type(0) if x is None else x
            if p.raw:
                found |= _extents(p.name, (size or 0,) if x is None else tuple(x.shape))
        if any(p.startswith(f"_{LOOP}_shape") for p in self.inputs):
            shape = loop_shape((*self.in_params, *self.out_params), (*inputs, *outs))
            found |= {f"_{LOOP}_shape{k}": n
                      for k, n in enumerate(shape or (size or 0,))}
        if size is not None:
            found[POINTS] = loop_array(
                size, [x for x in inputs if not is_number(x)],
                [x for x in outs if x is not None])
        return found

    def _extent(self, out: Any, size: int | None) -> tuple[int, ...]:
        """The shape of a raw output."""
        if out is None:
            return (size or 0,)
        return tuple(out.shape) if self.python else (prod(out.shape),)

    def _place(self, out: Any, p: ParameterInfo) -> Any:
        """The array that an output is stored to; None where it is to be made."""
        if out is None or not p.raw or self.python:
            return out
        return flat_output(out, f"{self.name}: '{p.name}'")


def _extents(name: str, shape: tuple[int, ...]) -> dict[str, int]:
    """The size and the extents of a raw array, by their names in the body."""
    return {f"_{name}_size": prod(shape)} | {
        f"_{name}_shape{k}": n for k, n in enumerate(shape)}


def implicit_kind(name: str) -> str:
    """The kind of a parameter that the body has without the user's giving it."""
    if name == INDEX:
        return "index"
    return "size" if name in ("n", "_ind_size") else "scalar"


@lru_cache(maxsize=KEPT)
def _spec(function: Function, kinds: tuple[str, ...],
          shapes: tuple[tuple[int, ...], ...]) -> Map:
    return Map(function, kinds, shapes)

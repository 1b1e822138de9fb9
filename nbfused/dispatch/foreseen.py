"""Calls on arrays that are not there yet: layouts of results, and launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import add
from typing import Any, cast

from ..arrays import Array
from ..backend import Backend, Call, Foreseen, Signature
from ..scalar.typing.python_numbers import plain_number
from ..specs import Spec, View
from ..support.loop_nests import dense_strides
from .calls import ZERO, Dtypes, place_of, request_of
from .launch_plans import arguments, find_launcher, make_plan
from .views import view_layout

__all__ = ["array_like", "foresee", "foresee_view"]

#: Of the address of what is not there yet; allocators give no worse.
_ALIGNMENT = 256


class _Later:
    """Stands for a launcher that is not looked for yet."""

    def __init__(self, backend: Backend, kernel: Spec, signature: Signature) -> None:
        self.find = partial(find_launcher, backend, kernel, signature)

    def __call__(self, call: Call) -> None:
        raise NotImplementedError


def foresee(spec: Spec, inputs: Sequence[Any], outs: Sequence[Array | None] | None,
            dtypes: Dtypes | None, like: Array) -> tuple[list[Array], list[Foreseen]]:
    """Results and launches of a call of `spec`.

    Parameters
    ----------
    inputs
        Numbers and described arrays, of which only alignment is known of addresses.
    outs, dtypes
        As for `execute`.
    like
        Tells library, device and an address where no input is an array.
    """
    wanted = arguments(spec)
    given = [plain_number(x) if kind == "scalar" else x
             for kind, x in zip(wanted.kinds, inputs, strict=True)]
    arrays = [x for x in given if type(x) is Array]
    place = place_of(arrays, outs, like, wanted.kinds, wanted.names)
    plan = make_plan(request_of(spec, given, outs, place, dtypes, wanted.names,
                                "same_kind"), _Later)
    given_outs = outs or (None,) * len(plan.results)
    made = [own or array_like(like, r.shape, r.dtype, r.strides)
            for own, r in zip(given_outs, plan.results, strict=True)]
    launches = [one for k in plan.zeros
                for one in foresee(ZERO, (), (made[k],), None, like)[1]]
    if plan.launcher is not None:
        pointers = [array.pointer for array in (*arrays, *made)]
        moved = pointers if plan.moves is None else map(add, pointers, plan.moves)
        launches.append(Foreseen(cast(_Later, plan.launcher).find, Call(
            plan.shape, tuple(moved), plan.strides,
            tuple(x for kind, x in zip(wanted.kinds, given, strict=True)
                  if kind == "scalar"),
            plan.ordinal, place.library.stream(place.device), plan.extents)))
    return made, launches


def foresee_view(spec: View, arrays: Sequence[Array]) -> Array:
    """The result of a view."""
    (shape,) = spec.out_shapes(tuple(array.shape for array in arrays))
    first = arrays[0]
    made_anew = spec.kind in ("unslice", "concatenate")
    layout = None if made_anew else view_layout(spec, first, shape)
    if layout is None:
        return array_like(first, shape, first.dtype)
    strides, offset = layout
    return replace(first, shape=shape, strides=strides,
                   pointer=first.pointer + offset*first.dtype.itemsize)


def array_like(like: Array, shape: tuple[int, ...], dtype: Any,
               strides: tuple[int, ...] | None = None) -> Array:
    """An array that is going to be made; its address is that of another one."""
    return Array(like.pointer // _ALIGNMENT * _ALIGNMENT, shape,
                 strides or dense_strides(shape), dtype, like.device, None, False,
                 like.library, None)

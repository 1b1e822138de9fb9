"""`vmap`: a function of one sample becomes one of many, without a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from ...arrays import dtype_of, is_array
from ...arrays.traced import extents
from ...errors import KernelTypeError, RangeError, ShapeError
from ...specs import View
from ...specs.shapes import normalize_axis
from ...support.trees import flatten
from ..calls.batched import LEVEL, Batched, Level
from ..calls.replays import Recorder
from ..custom import check_callable
from ..gradients import separate_gradients, without_repeats
from ..graph import COPY, FULL
from ..nodes import is_number, zeros
from ..numpy_api.of_cupy import looking_at_arguments
from ..tape import apply
from ..variable import Variable
from .repeated_calls import Repeated, RepeatedCalls

__all__ = ["vmap"]


def vmap(function: Callable[..., Any], in_axes: Any = 0,
         out_axes: Any = 0) -> Callable[..., Any]:
    """Transform a function of one sample into a function of many.

    The function is called once, with placeholders that have the shape of one sample.
    Each operation on them is one on all samples: as a rule one launch, whose loops have
    an axis more.  From the third call with NumPy's arrays of the same shapes and dtypes
    on, these launches are repeated without it, where its code tells that nothing else
    matters.

    Parameters
    ----------
    function : callable
        Of arrays in any trees; returns arrays in any tree.  What it closes over is
        shared by all samples.
    in_axes : int, None, or tree of them
        For each positional argument the axis of the samples: one for all, a tuple with
        one for each, or trees in it as the arguments are.  None: shared by all samples.
        Arrays in keyword arguments have theirs along axis 0.
    out_axes : int or tree of them
        Where the axis of the samples is in the results; as for `in_axes`.  None: the
        result has to be the same for all.

    Returns
    -------
    callable
        Takes what `function` takes, with an axis more in what is mapped.

    Raises
    ------
    ShapeError
        Numbers of samples differ, nothing is mapped, or `in_axes` is no tree as the
        arguments are.
    KernelTypeError
        An argument to map is no array; the function asks for the value of a
        placeholder, changes what all samples share, or calls what has no rule (a kernel
        of threads, an `nf.Function`).

    Notes
    -----
    Together with `grad` it computes gradients of each sample; with `vjp` and `jvp`
    whole Jacobian matrices.  It may be inside of `nf.fuse`, which fuses what it does,
    and inside of itself.

    ``x += y`` and ``x[index] = y`` change samples as NumPy's arrays, views of them
    included; what is changed of a mapped argument is stored into the caller's array.

    Examples
    --------
    >>> import numpy as np, nbfused as nf
    >>> def loss(w, x, y):
    ...     return (np.sum(w * x) - y) ** 2
    >>> x, y = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.0])
    >>> nf.vmap(nf.grad(loss), in_axes=(None, 0, 0))(np.ones(2), x, y)
    array([[ 4.,  8.],
           [42., 56.]])
    """
    check_callable(function)
    repeated = RepeatedCalls(function, (in_axes, out_axes))

    @wraps(function, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        reading = repeated.read(function, args, kwargs)
        known = None if reading is None else repeated.find(reading)
        if reading is not None and known is not None:
            held = known.run(reading.arrays)
            if held is not None:
                if known.final:
                    return known.replay.structure.build(held)
                call = _Call(function, in_axes, args, kwargs)
                return call.results(known.results(held, call.level), out_axes)
            repeated.forget(reading)
        call = _Call(function, in_axes, args, kwargs)
        outside = None if reading is None else repeated.wants(reading)
        if reading is None or outside is None:
            return call.results(call.run(function), out_axes)
        call.level.recorder = Recorder([x.held for x in call.level.arguments],
                                       outside.arrays)
        made = call.run(function)
        results = call.results(made, out_axes)
        repeated.keep(reading, outside, call.repeated(made, out_axes))
        return results

    return mapped


class _Call:
    """A call of a mapped function: its arguments as placeholders."""

    def __init__(self, function: Callable[..., Any], in_axes: Any,
                 args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = getattr(function, "__name__", "the function")
        leaves, structure = flatten(args)
        prefix = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        axes = structure.spread(prefix, "in_axes", "args")
        named, named_structure = flatten(kwargs)
        leaves += named
        axes += [0 if _is_batchable(x) else None for x in named]

        def path(k: int) -> str:
            return [*structure.paths("args"), *named_structure.paths("kwargs")][k]

        found = [None if axis is None else _place(x, axis, path, k)
                 for k, (x, axis) in enumerate(zip(leaves, axes, strict=True))]
        size = self._size(leaves, found, path)
        self.sources = [x for x in leaves if _is_batchable(x)]
        mapped = next(x for x, axis in zip(leaves, found, strict=True)
                      if axis is not None)
        self.level = Level(self.name, size, mapped)
        made = [self._placeholder(x, axis) for x, axis in zip(leaves, found,
                                                              strict=True)]
        self.level.arguments = [x for x in made if isinstance(x, Batched)]
        self.level.shared = [x for x in self.level.arguments if not x.batched]
        self.given = [(x, x.held, leaf, axis) for x, leaf, axis in zip(
            made, leaves, found, strict=True) if axis is not None]
        self.orders = [_order(x, axis) if axis else None for x, axis in zip(
            leaves, found, strict=True) if _is_batchable(x)]
        self.args = structure.build(made[:structure.count])
        self.kwargs = named_structure.build(made[structure.count:])

    def run(self, function: Callable[..., Any]) -> Any:
        """Call the function with the placeholders."""
        token = LEVEL.set(self.level)
        try:
            with looking_at_arguments():
                made = function(*self.args, **self.kwargs)
        finally:
            LEVEL.reset(token)
            self.level.running = False
        for x, before, leaf, axis in self.given:
            if x.held is not before:  # changed in place
                leaf[...] = _moved(self._of_all(x), 0, axis)
        return made

    def repeated(self, made: Any, out_axes: Any) -> Repeated | None:
        """The replay of the call, whose function returned `made`; None if none is."""
        recorder = self.level.recorder
        leaves, structure = flatten(made)
        if recorder is None or not leaves or not all(
                type(x) is Batched and x.level is self.level for x in leaves):
            return None
        replay = recorder.replay([(x.held, x.batched) for x in leaves], structure)
        if replay is None:
            return None
        axes = structure.spread(out_axes, "out_axes", "the result")
        final = replay.fresh and all(replay.batched) and not any(
            a is None or a for a in axes)
        return Repeated(replay, self.orders, final)

    def _size(self, leaves: Sequence[Any], axes: Sequence[int | None],
              path: Callable[[int], str]) -> int:
        """The number of samples; `ShapeError` unless all have as many."""
        sizes = [(int(x.shape[axis]), k) for k, (x, axis) in enumerate(zip(
            leaves, axes, strict=True)) if axis is not None]
        if not sizes:
            raise ShapeError(
                f"vmap: nothing that {self.name} was called with is mapped: in_axes is "
                "None for all of it; give one argument an axis, or call the function "
                "itself")
        for size, k in sizes:
            if size != sizes[0][0]:
                raise ShapeError(
                    f"vmap: {path(k)} has {size} samples and {path(sizes[0][1])} has "
                    f"{sizes[0][0]}; expected equally many: see in_axes")
        return sizes[0][0]

    def _placeholder(self, x: Any, axis: int | None) -> Any:
        if axis is None:
            return Batched(self.level, x, False) if _is_batchable(x) else x
        return Batched(self.level, _moved(x, axis, 0), True)

    def results(self, result: Any, out_axes: Any) -> Any:
        """The function's result, with the axis of the samples."""
        leaves, structure = flatten(result)
        prefix = tuple(out_axes) if isinstance(out_axes, list) else out_axes
        axes = structure.spread(prefix, "out_axes", "the result")

        def path(k: int) -> str:
            return structure.paths("result")[k]

        made = [self._result(x, axis, partial(path, k))
                for k, (x, axis) in enumerate(zip(leaves, axes, strict=True))]
        plain = {(k, 0): x for k, x in enumerate(made)
                 if is_array(x) and not is_number(x)}
        if len(plain) == len(made):  # nobody is to change an argument by a result
            sources = [x.data if isinstance(x, Variable) else x for x in self.sources]
            apart: Any = {edge: without_repeats(x) for edge, x in plain.items()}
            made = list(separate_gradients(apart, sources).values())
        return structure.build(made)

    def _result(self, x: Any, axis: Any, path: Callable[[], str]) -> Any:
        if isinstance(x, Batched) and x.level is self.level:
            held, batched = x.held, x.batched
        elif _is_batchable(x):
            held, batched = x, False
        elif is_number(x):
            held, batched = self._from_number(x), False
        else:
            raise KernelTypeError(f"vmap: {self.name} returned a {type(x).__name__} as "
                                  f"{path()}; expected an array or a number")
        if axis is None:
            if batched:
                raise ShapeError(f"vmap: out_axes is None for {path()}, which is "
                                 "another for each sample; give it an axis")
            return held
        if not batched:
            (held,) = apply(COPY, (self._repeated(held),), dtypes=(dtype_of(held),))
        rank = len(extents(held))
        if axis == 0 and type(axis) is int:
            return held
        _check_axis(axis, path(), "out_axes")
        return _moved(held, 0, normalize_axis(axis, rank))

    def _of_all(self, x: Batched) -> Any:
        """Look up the samples of a placeholder, with their axis."""
        return x.held if x.batched else self._repeated(x.held)

    def _repeated(self, held: Any) -> Any:
        """A view of what is the same for all samples, with their axis."""
        whole = (self.level.size, *extents(held))
        return apply(View("broadcast", whole), (held,))[0]

    def _from_number(self, x: Any) -> Any:
        """An array without dimensions, in the library of the arguments."""
        like = self.level.like
        dtype = np.asarray(x).dtype
        if type(x) is float and dtype_of(like).kind == "f":
            dtype = dtype_of(like)
        data = like.data if isinstance(like, Variable) else like
        return apply(FULL, (zeros((), dtype, data), x), dtypes=(dtype,))[0]


def _is_batchable(x: Any) -> bool:
    """Whether `x` is an array, not a number."""
    return isinstance(x, Variable) or (is_array(x) and not isinstance(x, np.generic))


def _place(x: Any, axis: Any, path: Callable[[int], str], k: int) -> int:
    """The axis of the samples of leaf `k` of the arguments, counted from 0."""
    rank = len(extents(x)) if _is_batchable(x) else 0
    if rank and type(axis) is int and -rank <= axis < rank:
        return axis % rank
    _check_axis(axis, path(k), "in_axes")
    if not _is_batchable(x):
        what = f"the number {x!r}" if is_number(x) else f"a {type(x).__name__}"
        raise KernelTypeError(f"vmap: {path(k)} is {what}, which has no axis for the "
                              "samples; give it None in in_axes")
    if not rank:
        raise ShapeError(f"vmap: {path(k)} has no dimensions, and so no axis for the "
                         "samples; give it None in in_axes")
    raise RangeError(f"vmap: in_axes has {axis} for {path(k)} of shape {extents(x)}; "
                     f"expected an axis in [{-rank}, {rank})")


def _check_axis(axis: Any, path: str, name: str) -> None:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise KernelTypeError(f"vmap: {name} has {axis!r} for {path}; expected an "
                              "integer or None")


def _moved(x: Any, source: int, target: int) -> Any:
    """A view with an axis at another place."""
    if source == target:
        return x
    return apply(View("transpose", _order(x, source, target)), (x,))[0]


def _order(x: Any, source: int, target: int = 0) -> tuple[int, ...]:
    """The axes of `x` in another order, in which that of `source` is at `target`."""
    axes = [a for a in range(len(extents(x))) if a != source]
    axes.insert(target, source)
    return tuple(axes)

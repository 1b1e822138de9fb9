"""Gradients that are averaged over ranks while the backward pass goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, wraps
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from .. import ops
from ..arrays import describe, dtype_of
from ..arrays.traced import extents, find_traced
from ..autograd import value_and_grad as value_and_grad_here
from ..autograd.calls.recorded_call import RecordedCall, as_variable
from ..autograd.custom import check_callable
from ..autograd.transforms.gradients import (
    argument_numbers,
    argument_positions,
    check_complex,
    scalar_output,
)
from ..errors import RangeError
from ..support.trees import flatten
from .collectives import AllReduce, all_reduce
from .communicators import Communicator, given

__all__ = ["average", "value_and_grad"]

#: Bytes of gradients that are summed at once: enough for the bandwidth of NVLink, few
#: enough that the first are under way early; benchmarks/notes/distributed.md#buckets.
BUCKET = 4 << 20
#: The part of a bucket that is not summed by itself at the end.
_LAST = 4
#: Letters of a bucket's description.
_LONG = 160


def average(tree: Any, comm: Any) -> Any:
    """Average a tree of arrays over all ranks.

    Parameters
    ----------
    tree : array, or dict, list, tuple … of arrays
        The same structure, shapes and dtypes on every rank.
    comm
        The user's communicator, or a `Communicator`.

    Returns
    -------
    tree
        Of the same structure; arrays of one dtype are summed at once, in `nf.fuse`
        large ones by themselves, the last ones of the tree first.

    Raises
    ------
    DeviceError, KernelTypeError, DistributedError
        As `all_reduce`.

    Examples
    --------
    Three lines that train on all ranks, also inside of `nf.fuse`:

    >>> import nbfused as nf
    >>> def step(params, batch):  # doctest: +SKIP
    ...     loss, grads = nf.value_and_grad(loss_of)(params, batch)
    ...     grads = nf.distributed.average(grads, comm)
    ...     return loss, update(params, grads)
    """
    leaves, form = flatten(tree)
    group, names = given(comm), form.paths("tree")
    if find_traced(leaves) is not None:
        buckets = _TracedBuckets(group, BUCKET, ["the value", *names])
        for k in reversed(range(len(leaves))):  # gradients of last layers come first
            buckets.add(k + 1, leaves[k])
        return form.build(buckets.finish()[1:])
    made = list(leaves)
    for numbers in _by_dtype(leaves).values():
        flat = ops.concatenate([ops.reshape(leaves[k], (-1,)) for k in numbers])
        what = _described(tuple([(names[k], extents(leaves[k])) for k in numbers]))
        total, start = AllReduce.apply(flat, group, what)*(1.0/group.size), 0
        for k in numbers:
            end = start + prod(extents(leaves[k]))
            made[k] = ops.reshape(total[start:end], extents(leaves[k]))
            start = end
    return form.build(made)


def value_and_grad(function: Callable[..., Any], comm: Any,
                   argnums: int | Sequence[int] = 0, has_aux: bool = False,
                   bucket: int = BUCKET) -> Callable[..., Any]:
    """Transform `function` into one that returns its mean and gradient over all ranks.

    Gradients are summed in buckets, in the order in which the backward pass finishes
    them, while it goes on.

    Parameters
    ----------
    function : callable
        As of `nf.value_and_grad`: each rank calls it with the same parameters and data
        of its own.
    comm
        The user's communicator, or a `Communicator`.
    argnums : int or sequence of int
        The arguments to differentiate by, trees of arrays.
    has_aux : bool
        The function returns ``(output, aux)``; `aux` stays that of each rank.
    bucket : int
        Bytes of gradients that are summed at once.

    Returns
    -------
    callable
        Returns ``(value, gradient)``, or ``((value, aux), gradient)``; the same on
        every rank, but for `aux`.

    Raises
    ------
    RangeError
        `bucket` is not positive.
    DeviceError, KernelTypeError, DistributedError
        As `all_reduce`.

    Notes
    -----
    All ranks have to run the same operations: the order of gradients is theirs.  Where
    a derivative of the result is wanted, gradients are averaged afterwards, as by
    `average`.
    """
    check_callable(function)
    if bucket < 1:
        raise RangeError(f"'bucket' is {bucket!r}; expected bytes above 0")
    numbers, single = argument_numbers(argnums)
    group = given(comm)
    plain = value_and_grad_here(function, argnums, has_aux)

    @wraps(function, updated=())
    def both(*args: Any, **kwargs: Any) -> Any:
        places = argument_positions(numbers, len(args))
        call = RecordedCall(function, args, places, kwargs, has_aux)
        check_complex("value_and_grad", call, False)
        output = scalar_output(call)
        if call.open:
            return _afterwards(plain(*args, **kwargs), group, has_aux)
        kind = _Buckets if find_traced(call.targets) is None else _TracedBuckets
        buckets = kind(group, bucket, ["the value", *(
            name for k, tree in zip(places, call.trees, strict=True)
            for name in tree.paths(f"argument {k}"))])
        buckets.left = sum(map(_bytes, call.targets))
        buckets.add(0, output.detach().data)
        call.pull_plainly(output, lambda k, gradient: buckets.add(k + 1, gradient))
        total, *found = buckets.finish()
        total = ops.multiply(total, 1.0)  # a bucket takes more memory than a number
        value, *found = [call.given_back(as_variable(x)) for x in (total, *found)]
        value, grads = call.form.build([value]), call.by_argument(found)
        value = (value, call.aux) if has_aux else value
        return value, grads[0] if single else grads

    return both


def _afterwards(found: Any, group: Communicator, has_aux: bool) -> Any:
    value, grads = found
    aux: tuple[Any, ...] = ()
    if has_aux:
        value, *aux = value
    value, grads = all_reduce(value, group, "mean"), average(grads, group)
    return ((value, *aux) if has_aux else value), grads


class _Buckets:
    """Sums gradients over ranks as they come, several at once.

    Attributes
    ----------
    left
        Bytes of gradients that are still to come.
    """

    def __init__(self, group: Communicator, size: int, names: Sequence[str]) -> None:
        self._group, self._size, self._names = group, size, names
        self._made: list[Any] = [None]*len(names)
        self._waiting: dict[tuple[Any, ...], list[tuple[int, Any]]] = {}
        self._held: Counter[tuple[Any, ...]] = Counter()
        self._begun: list[Callable[[], object]] = []
        self.left = 0

    def add(self, number: int, gradient: Any) -> None:
        """Take a gradient; the sum begins when there are enough of its kind.

        It waits for what comes last if that is little, and would be a sum by itself.
        """
        array = describe(gradient)
        kind, size = (array.dtype, *array.place), _bytes(gradient)
        self._waiting.setdefault(kind, []).append((number, gradient))
        self._held[kind] += size
        self.left -= size if number else 0
        if self._held[kind] >= self._size and not 0 < self.left < self._size/_LAST:
            self._begin(self._waiting.pop(kind))
            del self._held[kind]

    def finish(self) -> list[Any]:
        """The averages, views of the buckets."""
        for row in self._waiting.values():
            self._begin(row)
        for wait in self._begun:
            wait()
        return self._made

    def _begin(self, row: Sequence[tuple[int, Any]]) -> None:
        """Copy gradients to a bucket, divided by the number of ranks, and sum it."""
        like = describe(row[0][1])
        library, count = like.library, sum(prod(g.shape) for _, g in row)
        flat = library.finish(library.empty((count,), like.dtype, like.device))
        start = 0
        for number, gradient in row:
            end = start + prod(gradient.shape)
            place = flat[start:end].reshape(gradient.shape)
            ops.multiply(gradient, 1.0/self._group.size, out=place)
            self._made[number], start = place, end
        what = _described(tuple([(self._names[k], tuple(g.shape)) for k, g in row]))
        self._group.check("all_reduce", describe(flat), True,
                          {"op": "sum", "what": what})
        start_sum = self._group.reporting("all_reduce", self._group.engine.start_sum)
        self._begun.append(self._group.reporting("all_reduce", start_sum(flat, flat)))


class _TracedBuckets:
    """Records sums of gradients over ranks, in the order in which they are known.

    A plan begins each as soon as it can, wherever it was recorded.  A large gradient is
    summed where it lies; the small ones of a dtype are copied together, and summed
    before the last large one, so that no sum of few bytes is what a step ends with.
    """

    def __init__(self, group: Communicator, size: int, names: Sequence[str]) -> None:
        self._group, self._size, self._names = group, size, names
        self._made: list[Any] = [None]*len(names)
        self._found: list[tuple[int, Any]] = []
        self.left = 0

    def add(self, number: int, gradient: Any) -> None:
        """Take a gradient."""
        self._found.append((number, gradient))

    def finish(self) -> list[Any]:
        """The averages."""
        large, small = list[Any](), dict[Any, Any]()
        for number, gradient in self._found:
            if number and _bytes(gradient) >= self._size:
                large.append([(number, gradient)])
            else:
                small.setdefault(dtype_of(gradient), []).append((number, gradient))
        for row in (*large[:-1], *self._divided(small.values()), *large[-1:]):
            self._sum(row)
        return self._made

    def _divided(self, rows: Iterable[list[tuple[int, Any]]]) -> Iterator[Any]:
        """Rows of small gradients in their order, each of about a bucket's bytes."""
        for row in rows:
            held, begin = 0, 0
            for k, (_, gradient) in enumerate(row):
                held += _bytes(gradient)
                if held >= self._size:
                    yield row[begin:k + 1]
                    held, begin = 0, k + 1
            if row[begin:]:
                yield row[begin:]

    def _sum(self, row: Sequence[tuple[int, Any]]) -> None:
        parts = [gradient for _, gradient in row]
        flat = parts[0] if len(row) == 1 else ops.concatenate(
            [ops.reshape(g, (-1,)) for g in parts])
        what = _described(tuple([(self._names[k], extents(g)) for k, g in row]))
        total = AllReduce.apply(ops.multiply(flat, 1.0/self._group.size), self._group,
                                what)
        if len(row) == 1:
            self._made[row[0][0]] = total
            return
        start = 0
        for number, gradient in row:
            end = start + prod(extents(gradient))
            self._made[number] = ops.reshape(total[start:end], extents(gradient))
            start = end


@lru_cache(maxsize=1024)
def _described(parts: tuple[tuple[str, tuple[int, ...]], ...]) -> str:
    """The parts of a bucket, which have to be the same on every rank."""
    listed = ", ".join(f"{name} {shape}" for name, shape in parts)
    if len(listed) <= _LONG:
        return listed
    digest = blake2b(listed.encode(), digest_size=8).hexdigest()
    return f"{len(parts)} arrays: {listed[:_LONG]}… ({digest})"


def _bytes(x: Any) -> int:
    return prod(extents(x))*dtype_of(x).itemsize


def _by_dtype(leaves: Sequence[Any]) -> dict[np.dtype, list[int]]:
    found: dict[np.dtype, list[int]] = {}
    for k, x in enumerate(leaves):
        found.setdefault(dtype_of(x), []).append(k)
    return found

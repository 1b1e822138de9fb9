"""A kernel's own text in plain Python, a thread after the other, as its reference."""

from __future__ import annotations

from itertools import product
from types import FunctionType
from typing import Any

import numpy as np

import nbfused as nf
from nbfused.kernels.threads.views import ViewType, annotation_of

from .cases import case

__all__ = ["plain_case"]


class Elements:
    """An array whose elements are numbers, or of a class of vectors or matrices."""

    def __init__(self, array, cls=None):
        self.array, self.cls = array, cls

    @property
    def shape(self):
        return self.array.shape[:1] if self.cls else self.array.shape

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        found = self.array[i]
        if self.cls is not None:
            return self.cls(*found.ravel().tolist())
        return found.item() if found.ndim == 0 else Elements(found)

    def __setitem__(self, i, value):
        self.array[i] = value.array if isinstance(value, Elements) else \
            np.asarray(value).reshape(self.array[i].shape)


def _changed(act):
    def change(array, index, value):
        old = array[index]
        array[index] = act(old, value)
        return old

    return staticmethod(change)


class _Atomic:
    add, sub = _changed(lambda a, b: a + b), _changed(lambda a, b: a - b)
    min, max = _changed(min), _changed(max)


class _Plain:
    """The names of nbfused, for one thread of a grid."""

    atomic, unroll = _Atomic, staticmethod(lambda counts: counts)

    def __init__(self, place):
        self.place = place

    def grid(self, axes):
        return self.place[0] if axes == 1 else self.place

    def __getattr__(self, name):
        return getattr(nf, name)


def _argument(value, annotation):
    """What a kernel sees of an argument."""
    if not isinstance(value, np.ndarray):
        return value
    kind = annotation.kind if isinstance(annotation, ViewType) else ""
    return Elements(value, getattr(nf, kind) if kind else None)


def plainly(pyfunc, results, dim, arguments) -> Any:
    """The arrays that are left in `results`."""
    given = {n: v.copy() if isinstance(v, np.ndarray) else v
             for n, v in arguments.items()}
    hints = {n: annotation_of(eval(a, pyfunc.__globals__) if isinstance(a, str) else a)
             for n, a in pyfunc.__annotations__.items()}
    extents = dim if isinstance(dim, tuple) else (dim,)
    for place in product(*map(range, extents)):
        run = FunctionType(pyfunc.__code__, {**pyfunc.__globals__, "nf": _Plain(place)},
                           pyfunc.__name__, pyfunc.__defaults__, pyfunc.__closure__)
        run(**{n: _argument(v, hints.get(n)) for n, v in given.items()})
    found = tuple(given[n] for n in results.split())
    return found if len(found) > 1 else found[0]


def plain_case(results, dim, *, wrt="", **arguments):
    """Enter a kernel whose reference is its own text in plain Python."""
    def enter(pyfunc):
        def reference(**given):
            return plainly(pyfunc, results, dim, given)

        return case(reference, results, dim, wrt=wrt, **arguments)(pyfunc)

    return enter

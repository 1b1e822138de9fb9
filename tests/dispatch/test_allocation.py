"""Memory that runs out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays.libraries.numpy import NUMPY
from nbfused.dispatch.allocation import allocate
from nbfused.errors import (
    AllocationError,
)


class Scarce:
    """A library whose memory runs out."""

    name, writable = "scarce", True

    def __init__(self, room):
        self.room, self.freed = room, 0

    def empty(self, shape, dtype, device):
        if self.room < 1:
            raise MemoryError("none left")
        self.room -= 1
        return np.empty(shape, dtype)

    def free_cache(self, device):
        self.freed += 1
        self.room += self.freed


def test_allocation_is_tried_again():
    library: Any = Scarce(0)
    assert allocate(library, (2,), np.dtype("f4"), "cpu").shape == (2,)
    assert library.freed == 1
    library.freed = -1
    with pytest.raises(AllocationError, match=r"\(2,\) and dtype float32.*scarce"):
        allocate(library, (2,), np.dtype("f4"), "cpu")


def test_other_errors_of_an_allocator_pass():
    class Broken(Scarce):
        def empty(self, shape, dtype, device):
            raise RuntimeError("driver shut down")

    broken: Any = Broken(1)
    with pytest.raises(RuntimeError, match="driver"):
        allocate(broken, (2,), np.dtype("f4"), "cpu")


@pytest.mark.parametrize("op", ["one", "both"])
def test_calls_that_are_prepared_try_again(monkeypatch, op):
    @nf.elementwise
    def both(x):
        return x + 1.0, x - 1.0

    @nf.elementwise
    def one(x):
        return x + 1.0

    # Machine code allocates by itself, and calls Python where there is no memory.
    monkeypatch.setattr("nbfused.dispatch.direct.calls._READABLE", frozenset())
    function = one if op == "one" else both
    missing, freed = [], []
    whole = type(NUMPY).maker

    def maker(self, shape, dtype, device):
        make = whole(self, shape, dtype, device)

        def scarce():
            if missing:
                missing.pop()
                raise MemoryError("none left")
            return make()

        return scarce

    monkeypatch.setattr(type(NUMPY), "maker", maker)
    monkeypatch.setattr(type(NUMPY), "free_cache", lambda self, device: freed.append(1))
    x = np.linspace(0, 1, 3 + len(op))  # a shape that nobody has prepared
    expected = function(x)
    for times in (0, 1, 2):
        missing[:] = [True]*times
        assert np.array_equal(function(x), expected)
        assert not missing

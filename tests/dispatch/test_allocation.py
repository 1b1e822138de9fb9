"""Memory that runs out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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

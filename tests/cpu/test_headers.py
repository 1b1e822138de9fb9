"""Headers of arrays, read by machine code."""

from __future__ import annotations

import numpy as np

from nbfused.cpu.runtime.headers import header_reader


def _x(*shape):
    return np.zeros(shape, "f4")


def test_headers_say_what_arrays_say():
    arrays = (_x(4, 3), _x(4, 3).T, _x(4)[::-1], np.array(2, "i8"),
              np.broadcast_to(_x(3), (4, 3)))
    read = header_reader([x.ndim for x in arrays])
    layouts, addresses = read(arrays)
    assert addresses == tuple(x.ctypes.data for x in arrays)
    assert read(arrays)[0] == layouts
    for k, other in enumerate((_x(3, 4), _x(4, 3), _x(4), np.array(2, "u8"), _x(4, 3))):
        assert read((*arrays[:k], other, *arrays[k + 1:]))[0] != layouts
    assert read((*arrays[:3], _x(1, 1), *arrays[4:])) is None
    assert read((*arrays[:2], _x(), *arrays[3:])) is None

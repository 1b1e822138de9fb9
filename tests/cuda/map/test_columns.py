"""Columns side by side: which calls have them, and that their kernels do not spill."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.cuda.recorded import assembled, needs_compiler, recording, registers

F16, F32 = np.dtype(np.float16), np.dtype(np.float32)
ROWS = 4096

turned = nf.elementwise(lambda x, y, z: (y - z, z - x, x - y))


def aligned(rows, columns, dtype=F32, start=0):
    """Points of which the first lies `start` elements behind an aligned address."""
    flat = np.zeros(rows*columns + 64, dtype)
    first = -flat.ctypes.data % 64 // flat.itemsize
    return flat[first + start:first + start + rows*columns].reshape(rows, columns)


def kernel_of(call):
    """The only kernel that a call launches."""
    needs_compiler()
    with recording() as kernels:
        call()
    (kernel,) = kernels.values()
    return kernel


@pytest.mark.parametrize("dtype", [F16, F32, np.dtype(np.float64)])
def test_whole_accesses_of_columns(dtype):
    p, q = aligned(ROWS, 3, dtype), aligned(ROWS, 3, dtype)
    kernel = kernel_of(lambda: turned(*p.T, out=tuple(q.T)))
    assert "map_columns" in kernel.name
    code, said = assembled(kernel)
    assert "ld.global.v4" in code or "ld.global.v2" in code
    assert said is None or registers(said)[1] == 0


def case(name):
    p, q = aligned(ROWS, 3), aligned(ROWS, 3)
    later, four = aligned(ROWS, 3, start=1), aligned(ROWS, 4)
    return {"begins inside an access": lambda: turned(*later.T, out=tuple(q.T)),
            "a column is not read": lambda: turned(*four[:, :3].T, out=tuple(q.T)),
            "a column is read twice": lambda: turned(p[:, 0], p[:, 1], p[:, 1],
                                                     out=tuple(q.T)),
            "several loops": lambda: turned(*np.moveaxis(
                np.zeros((60, 70, 3), F32)[:, :50], -1, 0))}[name]


@pytest.mark.parametrize("name", ["begins inside an access", "a column is not read",
                                  "a column is read twice", "several loops"])
def test_other_columns_are_read_one_by_one(name):
    assert "map_columns" not in kernel_of(case(name)).name


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F16, F32, np.dtype(np.complex64)])
@pytest.mark.parametrize("columns", [2, 3, 5, 8])
@pytest.mark.parametrize("rows", [0, 1, 1000, 20_011])
def test_values(dtype, columns, rows):
    total = nf.elementwise(eval(
        f"lambda {', '.join(f'x{k}' for k in range(columns))}: "
        f"{' + '.join(f'{k + 1}*x{k}' for k in range(columns))}"))
    p = np.rint(3*np.random.default_rng(rows).standard_normal((rows, columns)))
    x = nf.array(p.astype(dtype), device="cuda")
    found = total(*[x[:, k] for k in range(columns)])
    np.testing.assert_array_equal(nf.to_numpy(found),
                                  (p @ np.arange(1, columns + 1)).astype(dtype))

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


@pytest.mark.parametrize(("dtype", "columns"), [(F16, 3), (F32, 2),
                                                (np.dtype(np.float64), 2)])
def test_whole_accesses_of_columns(dtype, columns):
    p, q = aligned(ROWS, columns, dtype), aligned(ROWS, columns, dtype)
    function = turned if columns == 3 else nf.elementwise(lambda x, y: (y - x, x + y))
    kernel = kernel_of(lambda: function(*p.T, out=tuple(q.T)))
    assert "map_columns" in kernel.name
    code, said = assembled(kernel)
    assert "ld.global.v4" in code or "ld.global.v2" in code
    assert said is None or registers(said)[1] == 0


@pytest.mark.parametrize(("dtype", "columns", "start", "rows", "access"), [
    (F16, 3, 0, 8, 16), (F32, 3, 0, 1, 4), (F32, 3, 1, 1, 4), (F32, 2, 0, 2, 16),
    (F32, 4, 0, 1, 16), (F32, 8, 0, 1, 16), (np.dtype(np.float64), 4, 0, 1, 8),
    (F16, 5, 0, 1, 2), (F16, 3, 1, 1, 2), (F16, 4, 4, 1, 8)])
def test_the_part_of_a_thread(dtype, columns, start, rows, access):
    p, q = (aligned(ROWS, columns, dtype, start) for _ in range(2))
    names = [f"x{k}" for k in range(columns)]
    moved = nf.elementwise(eval(f"lambda {', '.join(names)}: "
                                f"({', '.join(names[1:] + names[:1])})"))
    kernel = kernel_of(lambda: moved(*p.T, out=tuple(q.T)))
    assert "map_columns" in kernel.name
    assert f"first + {rows} <= size" in kernel.text
    width = access//dtype.itemsize
    assert f"store{width}(" in kernel.text
    assert width == 8 or f"store{2*width}(" not in kernel.text


def case(name):
    p, q = aligned(ROWS, 3), aligned(ROWS, 3)
    many, four = aligned(ROWS*8, 7, start=1), aligned(ROWS, 4)
    return {"many that begin inside an access": lambda: nf.ops.softmax(many),
            "a column is not read": lambda: turned(*four[:, :3].T, out=tuple(q.T)),
            "a column is read twice": lambda: turned(p[:, 0], p[:, 1], p[:, 1],
                                                     out=tuple(q.T)),
            "several loops": lambda: turned(*np.moveaxis(
                np.zeros((60, 70, 3), F32)[:, :50], -1, 0))}[name]


@pytest.mark.parametrize("name", [
    "many that begin inside an access", "a column is not read",
    "a column is read twice", "several loops"])
def test_other_columns_are_read_one_by_one(name):
    assert "map_columns" not in kernel_of(case(name)).name


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F16, F32, np.dtype(np.complex64)])
@pytest.mark.parametrize("columns", [2, 3, 5, 8])
@pytest.mark.parametrize("rows", [0, 1, 1000, 20_011])
@pytest.mark.parametrize("start", [0, 1])
def test_values(dtype, columns, rows, start):
    total = nf.elementwise(eval(
        f"lambda {', '.join(f'x{k}' for k in range(columns))}: "
        f"{' + '.join(f'{k + 1}*x{k}' for k in range(columns))}"))
    p = np.rint(3*np.random.default_rng(rows).standard_normal((rows, columns)))
    x = nf.array(p.astype(dtype), device="cuda")
    found = total(*[x[:, k] for k in range(columns)])
    np.testing.assert_array_equal(nf.to_numpy(found),
                                  (p @ np.arange(1, columns + 1)).astype(dtype))

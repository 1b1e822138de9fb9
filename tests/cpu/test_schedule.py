"""How launches are cut."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused.config import config
from nbfused.cpu.runtime.pool import POOL
from nbfused.cpu.runtime.schedule import LINE, lead_of
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cpu.skeletons import run_map

SIZE = 70_001
DTYPES = [np.dtype(t) for t in ("i1", "f2", "f4", "f8", "c16", ml_dtypes.bfloat16)]
SQUARE = Map(parse(lambda x: x*x + 1), ("element",))


@pytest.fixture
def pieces(monkeypatch):
    """First units and numbers of units of what the threads shared."""
    seen, order = [], POOL.order

    def ordered(entry, units, step, first=0, lead=0, turns=False):
        found = order(entry, units, step, first, lead, turns)
        if found is not None:
            seen.append((first, step))
        return found

    monkeypatch.setattr(POOL, "order", ordered)
    with config.override(num_threads=3):
        yield seen


def beginning(size, dtype, skip):
    """Poisoned memory, and an array in it that begins `skip` bytes after a line."""
    room = np.full(size*dtype.itemsize + 4*LINE, 0x7b, np.uint8)
    at = -room.ctypes.data % LINE + LINE + skip
    return room, room[at:at + size*dtype.itemsize].view(dtype)


@pytest.mark.parametrize("skip", [0, 16, 48])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pieces_of_a_map_begin_at_cache_lines(pieces, dtype, skip):
    x = np.random.default_rng(0).integers(0, 5, SIZE).astype(dtype)
    room, y = beginning(SIZE, dtype, skip)
    run_map(SQUARE, x, out=[y])
    assert np.array_equal(y, x*x + np.ones(1, dtype))
    before = y.ctypes.data - room.ctypes.data
    assert np.all(room[:before] == 0x7b)
    assert np.all(room[before + y.nbytes:] == 0x7b)
    ((first, step),) = pieces
    for begin in (first, first + step):
        assert (y.ctypes.data + begin*dtype.itemsize) % LINE == 0


@pytest.mark.parametrize(("columns", "cut"),
                         [(20, False), (500, False), (30_000, True)])
def test_pieces_end_where_short_rows_do(pieces, columns, cut):
    x = np.arange(210_000.0).reshape(-1, columns)
    found = run_map(SQUARE, np.broadcast_to(x[:1], x.shape))
    assert np.array_equal(found, np.broadcast_to(x[0]*x[0] + 1, x.shape))
    ((first, step),) = pieces
    assert first == 0
    assert bool(step % columns) == cut


def test_one_thread_computes_all(pieces):
    x = np.arange(SIZE, dtype=np.float32)
    _, y = beginning(SIZE, x.dtype, 16)
    with config.override(num_threads=1):
        run_map(SQUARE, x, out=[y])
    assert not pieces
    assert np.array_equal(y, x*x + np.float32(1))


def test_columns_have_no_line_to_begin_at(pieces):
    x = np.arange(SIZE, dtype=np.float32)
    y = np.zeros((SIZE, 2), np.float32)
    run_map(SQUARE, x, out=[y[:, 1]])
    assert pieces[0][0] == 0
    assert np.array_equal(y[:, 1], x*x + np.float32(1))
    assert not y[:, 0].any()


@pytest.mark.parametrize(("address", "itemsize", "lead"), [
    (0, 4, 0), (16, 4, 12), (16, 8, 6), (16, 16, 3), (63, 1, 1), (4, 2, 30)])
def test_elements_before_a_line(address, itemsize, lead):
    assert lead_of(1 << 20 | address, itemsize) == lead

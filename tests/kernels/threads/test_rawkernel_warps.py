"""Shuffles among parts of a warp, counting atomics, and what they refuse."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import RangeError, ScalarSyntaxError
from tests.refusal import refused
from tests.variants import sampled

ALL = 0xffffffff


@nf.rawkernel
def shuffled(x, y):
    t = nf.threadIdx.x
    nf.syncwarp(mask=ALL)
    y[0, t] = nf.shfl_sync(ALL, x[t], t + 3, 8)
    y[1, t] = nf.shfl_up_sync(ALL, x[t], 3, width=8)
    y[2, t] = nf.shfl_down_sync(ALL, x[t], 3, 16)
    y[3, t] = nf.shfl_xor_sync(ALL, x[t], 5, 4)
    y[4, t] = nf.shfl_xor_sync(mask=ALL, value=x[t], lane=3, width=4)
    y[5, t] = nf.shfl_down_sync(ALL, x[t], 3, 32)


def by_hand(lane, mode, delta, width):
    """CUDA's rules (PTX, ``shfl.sync``): beyond its segment a lane reads itself."""
    first, last = lane - lane % width, lane - lane % width + width - 1
    if mode == "idx":
        return first + delta % width
    source = {"up": lane - delta, "down": lane + delta, "xor": lane ^ delta}[mode]
    return source if (source >= first if mode == "up" else source <= last) else lane


def test_shuffles_of_a_width(device):
    x = np.random.default_rng(0).standard_normal(32)
    y = nf.zeros((6, 32), device=device)
    shuffled[1, 32](nf.array(x, device=device), y)
    rules = [("up", 3, 8), ("down", 3, 16), ("xor", 5, 4), ("xor", 3, 4),
             ("down", 3, 32)]
    expected = [[by_hand(t, "idx", t + 3, 8) for t in range(32)],
                *([by_hand(t, *rule) for t in range(32)] for rule in rules)]
    np.testing.assert_array_equal(nf.to_numpy(y), x[np.array(expected)])


@cache
def segments(mode):
    """A shuffle with a width of run time, which differs between warps."""
    shuffle = {"idx": nf.shfl_sync, "up": nf.shfl_up_sync, "down": nf.shfl_down_sync,
               "xor": nf.shfl_xor_sync}[mode]

    @nf.rawkernel(differentiable=True)
    def segment(x, widths, delta, y):
        i, w = nf.grid(1), widths[nf.threadIdx.x // 32]
        y[i] = shuffle(ALL, x[i] * x[i], delta, w)

    return segment


@pytest.mark.parametrize("delta", [3, 34])
@pytest.mark.parametrize("mode", sampled(["idx", "up", "down", "xor"], "down"))
def test_widths_of_run_time_and_their_derivative(mode, delta, device):
    """Of the distance CUDA takes five bits; a change of `x` moves what was taken."""
    x, along, g = np.random.default_rng(1).standard_normal((3, 64))
    kernel, on = segments(mode), partial(nf.array, device=device)
    for widths in ([8, 32], [16, 1]):
        sources = np.array([32 * (t // 32) + by_hand(t % 32, mode, delta % 32, w)
                            for t, w in enumerate(np.repeat(widths, 32))])
        y, dx, dy = (on(np.zeros(64)) for _ in range(3))
        kernel[1, 64](on(x), on(np.array(widths)), delta, y)
        np.testing.assert_array_equal(nf.to_numpy(y), (x * x)[sources])
        kernel.fwd[1, 64]((on(x), on(along)), on(np.array(widths)), delta, (y, dy))
        np.testing.assert_allclose(nf.to_numpy(dy), (2 * x * along)[sources])
        kernel.bwd[1, 64]((on(x), dx), on(np.array(widths)), delta, (y, on(g)))
        back = np.bincount(sources, g, 64)
        np.testing.assert_allclose(nf.to_numpy(dx), 2 * x * back)


@nf.rawkernel(differentiable=True)
def beyond(x, n, y):
    t = nf.threadIdx.x
    y[t] = nf.shfl_xor_sync(ALL, x[t], 4) if n > 0 else \
        nf.shfl_down_sync(ALL, x[t], 1)


@pytest.mark.parametrize(("n", "thread"), [(0, 38), (1, 35)])
def test_a_lane_that_is_not_there(n, thread, device):
    """Under debug both modes tell of it, where the block ends inside of a warp."""
    on, line = partial(nf.array, device=device), beyond.pyfunc.__code__.co_firstlineno
    x, y = on(np.arange(40.0)), on(np.zeros(40))
    with config.override(debug=True):
        beyond[1, 64](on(np.arange(64.0)), n, on(np.zeros(64)))
        for launch in (lambda: beyond[1, 39](x, n, y),
                       lambda: beyond.fwd[1, 39]((x, x), n, (y, y * 1))):
            with refused(RangeError, f"{line + 4 - n}: beyond", f"thread {thread} ",
                         "lane 7 ", "no such thread", "width"):
                launch()


@nf.rawkernel
def counting(total, up, down, seen):
    i = nf.grid(1)
    nf.atomic.sub(total, 0, i)
    nf.atomic.add(seen, nf.atomic.inc(up, 0, 6), 1)
    nf.atomic.dec(down, 0, 4)


def test_sub_inc_dec(device):
    """As often as there are threads, in whatever order."""
    total, up, down = (nf.array(np.array([v]), device=device) for v in (7, 2, 1))
    seen = nf.zeros(7, dtype="int64", device=device)
    counting[1, 50](total, up, down, seen)
    assert nf.to_numpy(total)[0] == 7 - sum(range(50))
    expected = [2, 1]
    for _ in range(50):
        expected[0] = 0 if expected[0] >= 6 else expected[0] + 1
        expected[1] = 4 if expected[1] == 0 or expected[1] > 4 else expected[1] - 1
    assert [int(nf.to_numpy(a)[0]) for a in (up, down)] == expected
    values = [(2 + k) % 7 for k in range(50)]
    np.testing.assert_array_equal(nf.to_numpy(seen), np.bincount(values))
    plain = [2], [1]  # the same functions on the host
    for _ in range(50):
        nf.atomic.inc(plain[0], 0, 6)
        nf.atomic.dec(plain[1], 0, 4)
    assert [*plain[0], *plain[1]] == expected


def test_sub_wraps_around_in_unsigned_arrays_and_has_a_derivative(device):
    @nf.rawkernel(differentiable=True)
    def fewer(x, y, n):
        i = nf.grid(1)
        nf.atomic.sub(y, 0, x[i] * x[i])
        nf.atomic.sub(n, 0, 3)

    x, dx, y, dy = (nf.array(np.array(v, float), device=device)
                    for v in ([1, 2, 3], [0, 0, 0], [0], [10]))
    n = nf.array(np.array([4], np.uint32), device=device)
    fewer[1, 3](x, y, n)
    assert nf.to_numpy(y)[0] == -14
    assert nf.to_numpy(n)[0] == (4 - 9) % 2**32
    fewer.bwd[1, 3]((x, dx), (y, dy), n)
    np.testing.assert_array_equal(nf.to_numpy(dx), [-20, -40, -60])


def masked(x):
    nf.syncwarp(0xffff)


def masked_shuffle(x):
    x[0] = nf.shfl_sync(0xff, x[0], 0)


def odd_width(x):
    x[0] = nf.shfl_sync(ALL, x[0], 0, 12)


def too_many(x):
    x[0] = nf.shfl_sync(ALL, x[0], 0, 8, 1)


def unknown(x):
    nf.syncwarp(lanes=ALL)


@pytest.mark.parametrize(("kernel", "words"), [
    (masked, ("whole warp", "0xffffffff, got 65535")),
    (masked_shuffle, ("whole warp", "got 255")),
    (odd_width, ("1, 2, 4, 8, 16 or 32, got 12",)),
    (too_many, ("takes mask, value, lane, width=", "got 5 arguments")),
    (unknown, ("takes mask=", "got 1"))])
def test_refused(kernel, words):
    with refused(ScalarSyntaxError, "test_rawkernel_warps.py", *words):
        nf.rawkernel(kernel)[1, 32](np.zeros(3))

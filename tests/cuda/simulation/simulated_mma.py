"""Python stand-ins for `nbfused.cuda.isa.mma` and its copies, engine `fma` alone.

The others need a warp's lanes at once.
"""

from __future__ import annotations

import ctypes

import numpy as np

ITEM = 4


def read(address, count):
    return np.frombuffer(ctypes.string_at(int(address), count*ITEM), np.float32)


def fma_zeros(down, across):
    return np.zeros((4*down, 4*across), np.float32), None


def fragments(address, units, step, pitch, apart):
    return np.concatenate([read(address + step*pitch + unit*apart*ITEM, 4)
                           for unit in range(units)])


def loaded(left, right, step, down, across, pitches):
    return (fragments(left, down, step, pitches[0], 32),
            fragments(right, across, step, pitches[1], 16))


def multiplied(state):
    sums, (a, b) = state
    return sums + np.outer(a, b)


def fma_first(state, left, right, down, across, steps, pa, ia, pb, ib):
    assert ia == ib == 0
    return state[0], loaded(left, right, 0, down, across, (pa, pb))


def fma_most(state, left, right, down, across, steps, pa, ia, pb, ib):
    for step in range(1, steps):
        state = multiplied(state), loaded(left, right, step, down, across, (pa, pb))
    return state


def fma_last(state, left, right, down, across, steps, pa, ia, pb, ib):
    return multiplied(state), loaded(left, right, 0, down, across, (pa, pb))


def fma_keep(state, address, part, down, across, pitch):
    for r in range(4):
        for j in range(across):
            four = state[0][4*part + r, 4*j:4*j + 4]
            ctypes.memmove(int(address) + r*pitch + j*64,
                           np.ascontiguousarray(four).tobytes(), 16)


def kept(width):
    return lambda address: tuple(read(address, width))


def copy(size):
    def plain(target, pointer, index):
        origin = pointer.address + int(index)*pointer.dtype.itemsize
        assert origin % size == 0, "a copy is not aligned"
        ctypes.memmove(int(target), origin, size)
    return plain


def copy_if(size):
    def careful(target, pointer, index, valid):
        if valid:
            copy(size)(target, pointer, index)
        else:
            ctypes.memset(int(target), 0, size)
    return careful


def namespace(names):
    """`names` are the kernel's, in which `cuda` is exchanged while it runs."""

    def shared_at():
        return names["cuda"].shared.array(0, np.dtype(np.uint8)).ctypes.data

    return {
        "warp_sync": lambda: names["cuda"].syncthreads(), "shared_at": shared_at,
        "copies_end": lambda: None,
        "copies_wait": lambda pending: None,
        **{f"copy{n}": copy(n) for n in (4, 8, 16)},
        **{f"copy{n}_if": copy_if(n) for n in (4, 8, 16)},
        **{f"kept_float32_{n}": kept(n) for n in (1, 4, 8)},
        "fma_zeros": fma_zeros, "fma_first": fma_first, "fma_most": fma_most,
        "fma_last": fma_last, "fma_keep": fma_keep}

"""What a kernel of threads takes on a GPU: strides, extents, shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call
from nbfused.errors import RangeError
from nbfused.gpu.raw_layout import RawLayout, bound_of
from tests.raw_specs import spec_of
from tests.refusal import refused

X = np.zeros((4, 4), np.float32)


@nf.rawkernel
def copy(x, factor, y):
    shared = nf.shared.array((5, 3), "float32")
    flags = nf.shared.array(3, "bool")
    i, j = nf.grid(2)
    shared[0, 0] = x[i, j]
    flags[0] = True
    if i < y.shape[1]:
        y[i, j] = shared[0, 0]*factor


def layout_of(code="c"):
    spec, signature = spec_of(copy, X, 2.0, X, code=code)
    return RawLayout(spec.typed(signature.inputs), signature)


def test_strides_only_where_they_are_needed():
    assert layout_of().picks == [(0, 0), (1, 0)]
    assert layout_of("r").picks == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_shared_arrays_begin_at_multiples_of_16_bytes():
    layout = layout_of()
    assert (layout.offsets, layout.shared) == ([0, 64], 80)


def test_the_arguments_in_order():
    call = Call((), (10, 20), ((5, 1), (6, 1)), (2.0,), extents=((4, 7), (8, 9)))
    layout = layout_of()
    assert [(array, extent.axis) for array, extent in layout.axes] == [(1, 1)]
    assert layout.values(call) == (10, 20, 9, 5, 6, 2.0)


def test_more_shared_memory_than_a_block_has():
    layout, call = layout_of(), Call((), (), (), shared=20)
    assert layout.shared_of(call, "copy", "cuda:1", 100) == 100
    with refused(RangeError, "copy: 80 bytes of shared arrays and 20", "cuda:1",
                 "at most 99", "smaller"):
        layout.shared_of(call, "copy", "cuda:1", 99)


@pytest.mark.parametrize(("block", "bound"), [
    ((1, 1, 1), 256), ((256, 1, 1), 256), ((257, 1, 1), 512), ((8, 8, 16), 1024)])
def test_fewer_threads_may_have_more_registers(block, bound):
    assert bound_of(block) == bound

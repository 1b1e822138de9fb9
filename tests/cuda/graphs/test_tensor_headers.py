"""Headers of PyTorch's tensors by machine code."""

from __future__ import annotations

import gc
import itertools
import sys

import numpy as np
import pytest

from nbfused.cuda.graphs.tensor_headers import tensor_reader
from nbfused.cuda.runtime.machine_code import is_possible

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not (is_possible() and hasattr(torch.Tensor, "__dlpack_c_exchange_api__")),
    reason="takes DLPack's C exchange API, CPython on Linux and x86-64")


@pytest.fixture(autouse=True)
def compiler():
    import llvmlite.binding  # noqa: F401 - it makes the code, if it is there


def reader(*ranks):
    found = tensor_reader(torch.Tensor, ranks)
    assert found is not None
    return found


def test_addresses():
    x = torch.zeros(6, 8)
    views = x, x[2:, ::3], x.T, x[3, 3], torch.empty(0, 3)
    _, addresses = reader(2, 2, 2, 0, 2)(views)
    assert addresses == tuple([v.data_ptr() for v in views])


#: Tensors that differ in one thing each, of which a kernel depends.
BASE = torch.zeros(256)
OTHERS = {
    "plain": lambda: BASE[:64].view(8, 8), "longer": lambda: BASE[:128].view(16, 8),
    "wider": lambda: BASE[:128].view(8, 16), "turned": lambda: BASE[:64].view(8, 8).T,
    "spread": lambda: BASE[:128].view(8, 16)[:, :8],
    "every second": lambda: BASE[:128].view(8, 16)[:, ::2],
    "moved by an element": lambda: BASE[1:65].view(8, 8),
    "integers": lambda: BASE[:64].view(torch.int32).view(8, 8),
    "bfloat16": lambda: torch.zeros(8, 8, dtype=torch.bfloat16),
    "float16": lambda: torch.zeros(8, 8, dtype=torch.float16),
}


@pytest.mark.parametrize(("a", "b"), tuple(
    itertools.combinations_with_replacement(OTHERS, 2)))
def test_layouts_are_equal_for_equal_ones_only(a, b):
    read = reader(2, 2)
    y = torch.zeros(4, 4)
    one, other = (read((OTHERS[name](), y)) for name in (a, b))
    assert one is not None
    assert other is not None
    assert (one[0] == other[0]) is (a == b)


def _without_storage():
    x = torch.zeros(3)
    x.untyped_storage().resize_(0)
    return x


REFUSED = {
    "requires grad": lambda: torch.zeros(3, requires_grad=True),
    "negated": lambda: torch._neg_view(torch.zeros(3)),
    "complex": lambda: torch.zeros(3, dtype=torch.complex64),
    "conjugated": lambda: torch.zeros(3, dtype=torch.complex64).conj(),
    "of a conjugated one": lambda: torch.zeros(3, dtype=torch.complex64).conj().imag,
    "fewer dimensions": lambda: torch.zeros(()),
    "more dimensions": lambda: torch.zeros(3, 1, 1, 1, 1),
    "storage that was freed": _without_storage,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_closer_look(name):
    x, y = REFUSED[name](), torch.zeros(3)
    assert reader(1, 1)((x, y)) is None
    assert reader(1, 1)((y, x)) is None


def test_gradients_that_nobody_wants():
    x = torch.zeros(3, requires_grad=True)
    with torch.no_grad():
        assert reader(1)((x,)) is not None


def test_forward_mode():
    with torch.autograd.forward_ad.dual_level():
        assert reader(1)((torch.zeros(3),)) is None


def test_tensors_without_a_header():
    """PyTorch raises, which a reader of arguments takes for a closer look."""
    read = reader(1)
    with pytest.raises(RuntimeError, match="storage"):
        read((torch.zeros(3).to_sparse(),))


def test_nothing_is_read_inside_of_transforms():
    """Whose tensors have no header, and which follow others as well."""
    read, found, other = reader(1), [], torch.zeros(3)
    torch.func.vmap(lambda x: found.append(read((x,))) or x)(torch.zeros(2, 3))
    torch.func.grad(lambda x: found.append(read((other,))) or x.sum())(torch.zeros(3))
    assert found == [None, None]
    assert read((other,)) is not None


def test_other_libraries_have_none():
    assert tensor_reader(np.ndarray, (1,)) is None
    assert tensor_reader(list, (1,)) is None


def test_nothing_is_kept():
    read, x = reader(1, 1), torch.zeros(5)
    gc.collect()
    before = sys.getrefcount(x)
    for _ in range(100):
        read((x, x))
    assert sys.getrefcount(x) == before

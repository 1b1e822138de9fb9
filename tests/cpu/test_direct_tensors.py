"""Direct calls by machine code on tensors of PyTorch: as in Python, or not at all.

Oracle: PyTorch, and what the same call gives in Python.
"""

from __future__ import annotations

import gc
import sys

import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cpu.runtime import direct
from nbfused.dispatch import direct_call

torch = pytest.importorskip("torch")
from tests.cpu.test_direct_calls import add_call  # noqa: E402 - without PyTorch, too

pytestmark = pytest.mark.skipif(
    not (direct.possible() and hasattr(torch.Tensor, "__dlpack_c_exchange_api__")),
    reason="takes DLPack's C exchange API, and objects laid out as expected")

LAYOUTS = {
    "contiguous": lambda x: x, "every second": lambda x: x[:, ::2],
    "transposed": lambda x: x.T, "repeated": lambda x: x[:1].expand(3, 6, 8),
    "one dimension": lambda x: x.ravel(), "none": lambda x: x[0, 0].clone(),
    "not aligned": lambda x: x.ravel()[1:],
    "bfloat16": lambda x: x.bfloat16(), "integers": lambda x: (9*x).int(),
    "no elements": lambda x: x[:0]}


@pytest.mark.parametrize("layout", LAYOUTS)
@torch.no_grad()
def test_each_layout_is_learnt_once(layout):
    x, y = (LAYOUTS[layout](torch.randn(6, 8)) for _ in range(2))
    call, count = add_call(x, y)
    for _ in range(4):
        (found,) = call(x, y)
        assert count[0] == 1 or not x.numel()  # nothing is launched then
        assert type(found) is torch.Tensor
        assert found.dtype == x.dtype
        assert torch.equal(found, x + y)
        assert not found.requires_grad


def test_layouts_and_dtypes_are_told_apart():
    call, count = add_call(torch.ones(3), torch.ones(3))
    for _ in range(2):
        for dtype in (torch.float32, torch.float64, torch.int32, torch.bool):
            for n in (1, 3, 9):
                x = torch.arange(n).to(dtype)
                ops.add(x, x[:1])
                assert torch.equal(call(x, x[:1])[0], x + x[:1])
    assert count[0] == 12


def test_outputs_that_were_given():
    x, y, out = torch.randn(3, 5)
    call, count = add_call(x, y, out=out)
    for _ in range(3):
        assert call(out, x, y) == (None,)
        assert torch.equal(out, x + y)
    assert count[0] == 1
    whole = torch.randn(6)
    call(whole[:5], whole[:5], y)  # the very same elements
    assert call(whole[1:], whole[:5], y) is None


def _traced(call, x):
    found = []
    torch.jit.trace(lambda x: (found.append(call(x, x)), x + x)[1], (x,),
                    check_trace=False)
    return found[0]


def _watched(call, x):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        return call(x, x)


def _forward(call, x):
    with torch.autograd.forward_ad.dual_level():
        return call(x, x)


def _wrapped(transform):
    def run(call, x):
        found = []
        transform(lambda x: (found.append(call(x, x)), x.sum())[1])(x)
        return found[0]

    return run


#: What PyTorch has to see: the direct call leaves it to others.
REFUSED = {
    "requires grad": lambda call, x: call(x.requires_grad_(True), x),
    "the second": lambda call, x: call(x.detach().clone(), x.requires_grad_(True)),
    "negated": lambda call, x: call(torch._neg_view(x), x),
    "traced": _traced, "watched": _watched, "forward": _forward,
    "vmap": _wrapped(torch.func.vmap), "grad": _wrapped(torch.func.grad),
    "sparse": lambda call, x: call(x.to_sparse(), x),
    "complex": lambda call, x: call(x + 0j, (x + 0j).conj()),
    "an array": lambda call, x: call(x, x.numpy()),
    "freed": lambda call, x: (x.untyped_storage().resize_(0), call(x, x))[1]}


@pytest.mark.parametrize("case", REFUSED)
def test_what_pytorch_has_to_see_comes_to_python(case):
    x = torch.randn(5)
    call, count = add_call(x, x.clone())
    call(x, x)
    assert count[0] == 1
    assert REFUSED[case](call, x) is None
    assert count[0] == 2
    y = torch.randn(5)
    assert torch.equal(call(y, y)[0], y + y)
    assert count[0] == 2


def test_what_requires_grad_is_read_where_nothing_is_recorded():
    x = torch.randn(5, requires_grad=True)
    with torch.no_grad():
        call, count = add_call(x, x)
        for _ in range(3):
            assert torch.equal(call(x, x)[0], x + x)
    assert count[0] == 1
    assert call(x, x) is None


def test_other_types_are_read_in_python():
    x = torch.randn(5)
    call, count = add_call(x, x)
    call(x, x)
    for other in (torch.nn.Parameter(x, False), x.as_subclass(type(
            "Sub", (torch.Tensor,), {}))):
        before = count[0]
        call(other, x)
        assert count[0] == before + 1


def test_where_memory_runs_out_python_is_asked(monkeypatch):
    from nbfused.arrays.libraries.torch import TorchLibrary

    missing, whole = [], TorchLibrary.maker

    def maker(self, *how):
        make = whole(self, *how)

        def scarce():
            if missing:
                missing.pop()
                raise torch.OutOfMemoryError("none left")
            return make()

        return scarce

    monkeypatch.setattr(TorchLibrary, "maker", maker)
    x = torch.randn(11)  # a shape that nobody has prepared
    call, count = add_call(x, x)
    for times in (0, 0, 1, 2):
        missing[:] = [True]*times
        assert torch.equal(call(x, x)[0], x + x)
        assert not missing
    assert count[0] == 3


@nf.elementwise
def apart(x, y):
    return x + y, x*y


def test_nothing_is_kept_nor_lost():
    x = torch.randn(4, 5)
    spec = apart.spec(("element", "element"))
    nf.dispatch.execute(spec, (x, x))
    call = direct_call(spec, (x, x), None)
    asked = [object() for _ in range(3)]
    call(x, x)
    gc.collect()
    before = [sys.getrefcount(one) for one in (x, False, torch.Tensor, *asked)]
    blocks = sys.getallocatedblocks()
    for _ in range(1000):
        total, product = call(x, x)
    assert torch.equal(total, x + x)
    assert torch.equal(product, x*x)
    del total, product
    assert sys.getallocatedblocks() - blocks < 100
    after = [sys.getrefcount(one) for one in (x, False, torch.Tensor, *asked)]
    assert max(map(abs, map(int.__sub__, after, before))) < 100

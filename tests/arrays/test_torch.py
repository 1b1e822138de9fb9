"""PyTorch tensors on the host."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import (
    canonical_device,
    describe,
    host_view,
    is_array,
    library_of,
    to_numpy,
)
from nbfused.arrays.creation import array_like
from nbfused.arrays.libraries import torch_inside
from nbfused.errors import DeviceError, KernelTypeError
from tests.refusal import refused

torch = pytest.importorskip("torch")


@pytest.fixture
def library():
    return library_of(torch.zeros(1))


@pytest.mark.parametrize("dtype", [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "bfloat16"])
def test_dtypes_both_ways(dtype, library):
    x = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(torch, dtype))
    array = describe(x)
    assert array.dtype.name == dtype
    made = library.empty((2, 3), array.dtype, "cpu")
    assert made.dtype is x.dtype
    assert made.shape == (2, 3)
    view = host_view(array)
    view[0, 0] = 1
    assert bool(x[0, 0])
    if dtype == "bfloat16":
        assert view.dtype == ml_dtypes.bfloat16


def test_layouts():
    base = torch.arange(24.0).reshape(2, 3, 4)
    for x in (base, base.mT, base[:, 1:, ::2], base[0, 0].expand(5, 4), base[1, 2, 3],
              base[:0]):
        array = describe(x)
        assert (array.shape, array.strides) == (tuple(x.shape), x.stride())
        assert np.array_equal(host_view(array), x.numpy())
    assert describe(base[1:]).pointer == base.data_ptr() + 12 * 4
    assert array.device == "cpu"
    assert array.stream is None
    assert not array.readonly


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
@pytest.mark.parametrize("quick", [True, False])
def test_what_is_allocated_is_as_pytorch_makes_it(library, monkeypatch, shape, quick):
    if quick:
        assert torch_inside.allocation("cpu") is not None
    else:
        monkeypatch.setattr("nbfused.arrays.libraries.torch.allocation", lambda _: None)
    for dtype in map(np.dtype, ("float32", "int8", "bool", "bfloat16", "complex64")):
        made = library.maker(shape, dtype, "cpu")()
        usual = torch.empty(shape, dtype=getattr(torch, dtype.name))
        assert (made.shape, made.stride(), made.dtype, made.device) == (
            usual.shape, usual.stride(), usual.dtype, usual.device)
        assert made.is_leaf
        assert not made.requires_grad
    with torch.inference_mode():
        assert library.maker(shape, np.dtype("float32"), "cpu")().is_inference()


def test_pytorchs_own_allocation_is_taken_where_it_makes_the_same(monkeypatch):
    """It is not public: what another version of PyTorch makes of it is looked at."""
    guards = torch._C._dynamo.guards
    for other in (None, lambda shape: None, lambda shape, strides, dtype: torch.ones(2),
                  lambda shape, strides, dtype: torch.empty(shape)):
        monkeypatch.setattr(guards, "_empty_strided_cpu", other)
        assert torch_inside.allocation.__wrapped__("cpu") is None
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)  # which one is it of?
    assert torch_inside.allocation.__wrapped__("cuda") is None


@pytest.mark.parametrize("own", [
    torch._C._any_requires_grad, None, lambda tensor: True, lambda *tensors: False])
def test_tracked_tensors_are_seen_by_any_version(monkeypatch, own):
    monkeypatch.setattr(torch._C, "_any_requires_grad", own)
    tracked = torch_inside.are_tracked.__wrapped__()
    plain, other = torch.ones(2), torch.ones(2, requires_grad=True)
    assert not tracked(plain, plain)
    assert tracked(plain, other)
    assert tracked(plain, other * 2)
    assert not tracked(plain, (other * 2).detach())


def test_what_is_found_does_not_hang_on_the_default_device():
    with torch.device("xpu"):  # which this PyTorch was not built for
        assert torch_inside.are_tracked.__wrapped__() is torch._C._any_requires_grad
        assert torch_inside.increments.__wrapped__() is torch._C._increment_version


def test_versions_are_counted_of_one_tensor_or_of_several(monkeypatch):
    tensors = [torch.ones(2), torch.ones(3)]
    torch_inside.increments.__wrapped__()(tensors)
    assert [x._version for x in tensors] == [1, 1]
    real = torch._C._increment_version

    def of_one(tensor):  # as in older versions
        if not torch.is_tensor(tensor):
            raise TypeError("not a tensor")
        real([tensor])

    monkeypatch.delattr(torch._C, "_increment_version")
    monkeypatch.setattr(torch.autograd.graph, "increment_version", of_one)
    torch_inside.increments.__wrapped__()(tensors)
    assert [x._version for x in tensors] == [2, 2]


def test_views_share_memory(library):
    x = torch.arange(12.0)[2:]
    view = library.view(x, (2, 3), (1, 2), 1)
    assert view.tolist() == [[3, 5, 7], [4, 6, 8]]
    view[0, 0] = -1
    assert x[1] == -1
    with pytest.raises(KernelTypeError, match=r"torch\.flip"):
        library.view(x, (2,), (-1,), 1)


def test_subclasses_are_tensors():
    mine = type("Mine", (torch.Tensor,), {})
    for x in (torch.nn.Parameter(torch.ones(2)), torch.ones(2).as_subclass(mine)):
        assert is_array(x)
        assert describe(x).library.name == "torch"


def test_tracking(library):
    plain, wants = torch.ones(2), torch.ones(2, requires_grad=True)
    assert not library.tracks(plain)
    assert library.tracks(wants)
    assert library.tracks(wants * 2)
    with torch.no_grad():
        assert not library.tracks(wants)
    with torch.autograd.forward_ad.dual_level():
        assert library.tracks(torch.autograd.forward_ad.make_dual(plain, plain))
        assert not library.tracks(plain)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: torch.eye(3).to_sparse(), r"sparse .*to_dense\(\)"),
    (lambda: torch.ones(3, dtype=torch.complex64).conj(), r"resolve_conj\(\)"),
    (lambda: torch.ones(3, dtype=torch.complex64).conj().imag, r"resolve_neg\(\)"),
    (lambda: torch.empty(3, device="meta"), r"meta, where .*torch\.empty_like\(grad"),
    (lambda: torch.zeros(3).to(torch.float8_e4m3fn), r"to\(torch\.float32\)"),
    (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)],
                                        layout=torch.strided), "nested"),
])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_tensors_without_plain_memory_are_refused(make, words):
    with pytest.raises(KernelTypeError, match=f"grad.*{words}"):
        describe(make(), "grad")


@pytest.mark.filterwarnings("ignore")
def test_quantised_tensors_are_refused():
    x = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    with pytest.raises(KernelTypeError, match=r"quantised .*dequantize\(\)"):
        describe(x)


def test_tensors_under_transforms_are_refused():
    def run(x):
        with pytest.raises(KernelTypeError, match="outside"):
            describe(x)
        return x

    torch.func.vmap(run)(torch.ones(3, 2))


def test_tensors_without_an_address_are_refused():
    """Also where such calls are prepared: there a kernel would read at 0."""
    freed, y = torch.ones(3), torch.ones(3)
    for _ in range(3):
        nf.ops.exp(freed, out=y)
    freed.untyped_storage().resize_(0)
    with refused(KernelTypeError, "x: a Tensor without storage", "freed"):
        nf.ops.exp(freed, out=y)
    with refused(KernelTypeError, "x: a Tensor without storage"):
        nf.ops.reshape(torch._efficientzerotensor((3,)), (3, 1))
    assert nf.ops.exp(torch.ones(0)).shape == (0,)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_odd_tensors_are_refused_where_their_shape_is_read():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for call in (nf.ops.sum, lambda x: nf.ops.matmul(x, x),
                 lambda x: x + nf.Variable(1)):
        with refused(KernelTypeError, "nested", "to_padded_tensor"):
            call(nested)
    with refused(KernelTypeError, "meta", "torch.empty_like(tensor"):
        to_numpy(torch.ones(3, device="meta"))
    with refused(KernelTypeError, "differentiated", "x.detach()"):
        nf.full(3, torch.ones(3, requires_grad=True))


def test_to_numpy_shares_memory_and_never_drops_a_gradient():
    x = torch.arange(3.0)
    to_numpy(x)[0] = 5
    assert x[0] == 5
    with pytest.raises(KernelTypeError, match="detach"):
        to_numpy(torch.ones(2, requires_grad=True))
    assert to_numpy(torch.tensor([1 + 2j]).conj()).tolist() == [1 - 2j]


def test_devices_and_dtypes_of_tensors_are_taken():
    """As in PyTorch's own ``torch.zeros(3, dtype=x.dtype, device=x.device)``."""
    x = torch.ones(3, dtype=torch.bfloat16)
    for made in (nf.zeros(3, dtype=x.dtype, device=x.device),
                 nf.full(3, 0.0, x.dtype, device=x.device),
                 nf.array([0.0] * 3, dtype=x.dtype, device=torch.device("cpu", 0))):
        assert made.dtype == ml_dtypes.bfloat16
        assert made.tolist() == [0.0] * 3
    assert nf.ops.sum(x, dtype=torch.float64).dtype == torch.float64
    assert nf.Variable(x).astype(torch.int8).dtype == np.int8
    assert nf.fuse(lambda v: v.sum(dtype=torch.float64))(x).dtype == torch.float64


@pytest.mark.parametrize(("hip", "name"), [(None, "cuda:1"), ("6.4", "rocm:1")])
def test_the_name_of_a_device_of_torch(hip, name, monkeypatch):
    monkeypatch.setattr(torch.version, "hip", hip)
    assert canonical_device(torch.device("cuda:1")) == name
    assert canonical_device(torch.device("cuda")) == name[:-1] + "0"


def test_devices_of_torch_that_no_backend_has():
    for device in ("meta", "mps"):
        with refused(DeviceError, f"has devices called '{device}'", "'cuda'"):
            nf.zeros(3, device=torch.device(device))


def test_a_number_becomes_a_tensor_without_axes():
    assert array_like(np.zeros((), "f4"), torch.ones(3)).shape == ()

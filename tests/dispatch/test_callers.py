"""What was found out for one call holds for the next one only where it may."""

from __future__ import annotations

import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call
from nbfused.config import config
from nbfused.dispatch import execute, trace_launches
from nbfused.dispatch.callers import key_of, make_caller
from nbfused.errors import (
    DeviceError,
    InplaceModificationError,
    KernelTypeError,
    OverlapError,
    RangeError,
    ReadOnlyError,
    ShapeError,
)
from nbfused.registry.backends import use_backend
from tests.dispatch.numpy_backend import ADD, SCALE, NumpyBackend, numpy_backend

pytestmark = pytest.mark.interpreted


@nf.elementwise
def doubled(x):
    return x + x


def warm(*args, **kwargs):
    """A call like earlier ones."""
    for _ in range(3):
        result = doubled(*args, **kwargs)
    return result


def test_storage_that_moves_under_an_array():
    x = np.arange(4.0)
    assert warm(x).tolist() == [0, 2, 4, 6]
    x.resize((8,), refcheck=False)  # the same object, elsewhere in memory
    x[:] = np.arange(8.0)
    assert doubled(x).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    x.resize((2, 4), refcheck=False)
    assert doubled(x).shape == (2, 4)


def test_a_tensor_whose_storage_is_exchanged():
    torch = pytest.importorskip("torch")
    x, out = torch.arange(4.0), torch.empty(4)
    warm(x, out=out)
    x.set_(torch.arange(10.0, 14.0))
    assert doubled(x, out=out).tolist() == [20, 22, 24, 26]
    x.resize_(2)
    assert doubled(x).tolist() == [20, 22]
    with pytest.raises(ShapeError):
        doubled(x, out=out)
    x.set_(torch.arange(8.0).reshape(2, 4).T)
    assert doubled(x).tolist() == [[0, 8], [2, 10], [4, 12], [6, 14]]


def test_arrays_of_one_layout_at_other_places():
    block = np.zeros(64, np.float32)
    for start in (0, 1, 2, 3, 4, 5):
        x, out = block[start:start + 9], block[32 + start:41 + start]
        x[:] = np.arange(9) + start
        assert doubled(x, out=out) is out
        np.testing.assert_array_equal(out, 2*(np.arange(9) + start))


def test_outputs_that_overlap_inputs_now_and_not_before():
    block = np.arange(20.0)
    warm(block[:5], out=block[10:15])
    with pytest.raises(OverlapError, match="'x'"):
        doubled(block[:5], out=block[2:7])
    assert block[:5].tolist() == [0, 1, 2, 3, 4]
    assert doubled(block[:5], out=block[:5]).tolist() == [0, 2, 4, 6, 8]
    assert doubled(block[:5], out=block[5:10]).tolist() == [0, 4, 8, 12, 16]


def test_an_output_that_became_read_only():
    x, out = np.ones(3), np.ones(3)
    warm(x, out=out)
    out.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        doubled(x, out=out)


def test_numbers_of_other_types_and_sizes():
    x = np.ones(2, np.int8)
    for _ in range(2):
        assert execute(SCALE, (x, 3))[0].dtype == np.int8
        assert execute(SCALE, (x, np.int16(3)))[0].dtype == np.int16
        assert execute(SCALE, (x, 3.0))[0].dtype == np.float64
        with pytest.raises(RangeError):
            execute(SCALE, (x, 2**63))
        with pytest.raises(RangeError, match="'y'"):
            nf.ops.add(x, 300)
        assert nf.ops.add(x, 3).tolist() == [4, 4]


def test_scalars_of_numpy_as_arrays():
    for value in (1.0, 2.0):
        (result,) = execute(ADD, (np.float64(value), np.full(2, 3.0)))
        assert result.tolist() == [value + 3, value + 3]


def test_a_tensor_that_pytorch_comes_to_differentiate():
    torch = pytest.importorskip("torch")
    x = torch.ones(3)
    assert not warm(x).requires_grad
    x.requires_grad = True
    y = doubled(x)
    assert y.requires_grad
    with torch.no_grad():
        assert not doubled(x).requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    plain = torch.ones(3)
    warm(plain)
    forward = torch.autograd.forward_ad
    with forward.dual_level():
        dual = forward.unpack_dual(doubled(forward.make_dual(plain, plain)))
    assert dual.tangent.tolist() == [2, 2, 2]


@pytest.mark.parametrize("view", [
    lambda t: t.imag, lambda t: t.conj(), lambda t: t.to_sparse()])
def test_tensors_that_only_look_like_earlier_ones(view):
    torch = pytest.importorskip("torch")
    z = torch.tensor([1 + 2j, 3 - 4j])
    warm(torch.ones(2))
    warm(z)
    warm(z.imag)
    strange = view(z.conj())
    if strange.layout is torch.strided and not strange.is_neg():
        return
    with pytest.raises(KernelTypeError, match=r"sparse|negated"):
        doubled(strange)


def test_other_libraries_have_their_own_callers():
    torch = pytest.importorskip("torch")
    x = np.ones(3, np.float32)
    for _ in range(2):
        assert type(doubled(x)) is np.ndarray
        assert type(doubled(torch.ones(3))) is torch.Tensor
        with pytest.raises(KernelTypeError, match="one library"):
            nf.ops.add(x, torch.ones(3))


def test_jax_arrays_are_described_each_time():
    jax = pytest.importorskip("jax")
    x = jax.numpy.arange(3.0)
    for _ in range(3):
        assert doubled(x).tolist() == [0, 2, 4]
    assert key_of(type(x)) is None


def test_launches_are_traced_after_many_that_were_not():
    x = np.ones(3)
    warm(x)
    with trace_launches() as launches:
        doubled(x)
    assert [(one.kind, one.name, one.bytes) for one in launches] == [
        ("Map", "doubled", 48)]


def test_the_backend_is_looked_up_again():
    x = np.ones(3)
    warm(x)
    fake = numpy_backend()
    with use_backend(fake):
        doubled(x)
    assert len(fake.calls) == 1
    doubled(x)
    assert len(fake.calls) == 1
    other = numpy_backend()
    other.owns = lambda device: False
    with use_backend(other), pytest.raises(DeviceError):
        doubled(x)


def test_a_saved_array_that_is_written_to():
    v = nf.Variable(np.ones(3), requires_grad=True)
    x, out = np.ones(3), np.ones(3)
    warm(x, out=out)
    y = (v * out).sum()
    doubled(x, out=out)
    with pytest.raises(InplaceModificationError):
        y.backward()


def test_indices_are_looked_at_once_asked_for():
    table = np.arange(3.0)
    for _ in range(3):
        nf.ops.take(table, np.array([0, 2]))
    with config.override(debug=True), pytest.raises(IndexError):
        nf.ops.take(table, np.array([0, 5]))


def test_a_launcher_that_is_bound_is_told_what_stays():
    first, bound, started = [], [], []

    class Bindable:
        def __init__(self, launch):
            self.launch = launch

        def __call__(self, call):
            first.append(call.scalars)  # when it may measure
            self.launch(call)

        def bind(self, call):
            bound.append(call)

            def start(pointers, scalars, stream):
                assert [p & 15 for p in pointers] == [p & 15 for p in call.pointers]
                started.append(scalars)
                self.launch(Call(call.shape, tuple(pointers), call.strides, scalars))

            return start

    class Binding(NumpyBackend):
        def build(self, spec, signature):
            return Bindable(super().build(spec, signature))

    block, out = np.arange(5.0), np.empty(4)
    x, elsewhere = block[:4], block[1:]  # 8 bytes after what the other is a multiple of
    with use_backend(Binding()):
        for factor in (2.0, 3.0, 4.0):
            execute(SCALE, (x, factor), out=(out,))
            np.testing.assert_array_equal(out, factor*x)
        assert len(bound) == 1
        assert (first, started) == ([(2.0,)], [(3.0,), (4.0,)])
        for factor in (5.0, 6.0):
            execute(SCALE, (elsewhere, factor), out=(out,))
            np.testing.assert_array_equal(out, factor*elsewhere)
    assert len(bound) == 2
    assert (first[1:], started[2:]) == ([(5.0,)], [(6.0,)])


@pytest.mark.parametrize("setting", [{"deterministic": True}, {"autotune": "0"}])
def test_a_launch_is_bound_for_the_settings_that_it_was_chosen_by(setting):
    chosen = []

    class Bindable:
        def __init__(self, launch):
            self.launch = launch

        def __call__(self, call):
            self.bind(call)(call.pointers, call.scalars, call.stream)

        def bind(self, call):
            mode = config.deterministic, config.autotune

            def start(pointers, scalars, stream):
                chosen.append(mode)
                self.launch(Call(call.shape, tuple(pointers), call.strides, scalars))

            return start

    class Binding(NumpyBackend):
        def build(self, spec, signature):
            return Bindable(super().build(spec, signature))

    x = np.arange(4.0)
    with use_backend(Binding()):
        for _ in range(2):
            execute(SCALE, (x, 2.0))
            usual = config.deterministic, config.autotune
            with config.override(**setting):
                execute(SCALE, (x, 2.0))
                other = config.deterministic, config.autotune
    assert chosen == [usual, other, usual, other]


def test_a_first_call_that_fails_does_not_keep_others_from_being_bound():
    bound = []

    class Bindable:
        def __init__(self, launch):
            self.launch = launch

        def __call__(self, call):
            if call.scalars == (0.0,):
                raise KernelTypeError("not this number")
            self.launch(call)

        def bind(self, call):
            bound.append(call)

    class Binding(NumpyBackend):
        def build(self, spec, signature):
            return Bindable(super().build(spec, signature))

    x = np.arange(4.0)
    with use_backend(Binding()):
        with pytest.raises(KernelTypeError):
            execute(SCALE, (x, 0.0))
        for _ in range(2):
            np.testing.assert_array_equal(execute(SCALE, (x, 2.0))[0], 2*x)
    assert len(bound) == 1


def test_threads_do_not_mix_their_arrays():
    rounds, wrong = 50, []
    ready = threading.Barrier(8)

    def work(k):
        x, out = np.full(100, float(k)), np.empty(100)
        ready.wait()
        for _ in range(rounds):
            if not (doubled(x, out=out) == 2*k).all() or not (doubled(x) == 2*k).all():
                wrong.append(k)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_an_output_may_be_named_and_left_out():
    x = np.arange(4.0)
    for _ in range(3):
        np.testing.assert_array_equal(doubled(x, out=(None,)), 2*x)
        (made,) = execute(SCALE, (x, 2.0), out=(None,))
        np.testing.assert_array_equal(made, 2*x)


def test_an_argument_without_a_reading_has_no_caller():
    class Strange:
        pass

    assert make_caller(("element",), (Strange,), None) is None
    assert make_caller(("element",), (float,), None) is None
    assert make_caller(("element",), (np.float64,), None) is None
    assert make_caller(("scalar",), (np.float64,), None) is not None


def test_a_spec_that_was_called_can_be_sent_to_another_process():
    x = np.arange(4.0)
    for _ in range(2):
        execute(SCALE, (x, 2.0))
    (result,) = execute(pickle.loads(pickle.dumps(SCALE)), (x, 3.0))
    np.testing.assert_array_equal(result, 3*x)
    assert pickle.loads(pickle.dumps(SCALE)) == SCALE

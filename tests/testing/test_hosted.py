"""The suite on a device that is not the host, wherever the tests run."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import testing
from nbfused.arrays import DeviceArray
from nbfused.autograd import versions
from nbfused.errors import DeviceError, InplaceModificationError, KernelTypeError
from tests.plugin.nbfused_hosted import HostedBackend
from tests.refusal import refused

OPS = sorted({check.op for check in testing.checks()})


@pytest.fixture
def hosted():
    with nf.use_backend(HostedBackend()):
        yield "hosted"


@pytest.mark.parametrize("op", OPS)
def test_ops_take_arrays_that_the_host_cannot_read(op, hosted):
    assert testing.run(hosted, [op]) == []


def test_arrays_are_its_own(hosted):
    x = nf.array(np.arange(6.0).reshape(2, 3), device=hosted)
    y = nf.ops.swish(x)
    assert isinstance(y, DeviceArray)
    assert y.device == "hosted:0"
    with pytest.raises(TypeError, match="to_numpy"):
        np.asarray(y)
    v = nf.Variable(x, requires_grad=True)
    (nf.ops.linear(v, nf.ops.transpose(v)) * 2.0).sum().backward()
    assert isinstance(v.grad, DeviceArray)


def test_host_arrays_do_not_mix_in(hosted):
    x = nf.array(np.ones(3), device=hosted)
    with pytest.raises(KernelTypeError, match="'x' is of nbfused, 'y' is of numpy"):
        nf.ops.add(x, np.ones(3))
    with pytest.raises(DeviceError, match="'x' is on cpu"):
        nf.ops.exp(np.ones(3))


def test_two_devices(hosted):
    """One call takes arrays on one device, the output too."""
    here, there = (nf.array(np.ones(3), device=f"hosted:{k}") for k in (0, 1))
    with refused(DeviceError, "'x' is on hosted:0", "'y' is on hosted:1",
                 "arrays on one device", "nbfused.array(x, device=...)"):
        nf.ops.add(here, there)
    with refused(DeviceError, "'lhs' is on hosted:0", "'bias' is on hosted:1", "move"):
        nf.ops.matmul_add_relu(here, here, there)
    with refused(DeviceError, "out is on hosted:1", "the inputs are on hosted:0"):
        nf.ops.exp(here, out=there)
    np.testing.assert_array_equal(nf.to_numpy(there), np.ones(3))
    assert nf.ops.exp(there).device == "hosted:1"


def test_training_steps_stay_there(hosted):
    p, g, m, v = (nf.array(x, device=hosted) for x in (
        np.ones(3), np.ones(3), np.zeros(3), np.zeros(3)))
    nf.ops.adam_step(p, g, m, v, lr=0.1, step=1)
    nf.ops.sgd_step(p, g, lr=0.1)
    np.testing.assert_allclose(nf.to_numpy(p), 0.8, rtol=1e-6)
    dropped = nf.to_numpy(nf.ops.dropout(p, 0.5, 3))
    assert set(np.round(dropped, 6)) <= {0.0, 1.6}


def test_losses_do_not_wait_to_look_at_labels(hosted):
    logits = nf.array(np.zeros((2, 4)), device=hosted)
    labels = nf.array(np.array([0, 9]), device=hosted)
    loss = nf.to_numpy(nf.ops.cross_entropy(logits, labels, reduction="none"))
    assert np.isnan(loss).tolist() == [False, True]


def test_the_first_write_to_a_type_of_array_finds_what_was_saved(hosted, monkeypatch):
    """Its library counts no writes, and nobody has asked it yet."""
    monkeypatch.delitem(versions._COUNTERS, DeviceArray, raising=False)
    x = nf.Variable(nf.array(np.ones(3), device=hosted), requires_grad=True)
    loss = (x * x).sum()
    nf.ops.add(x.data, x.data, out=x.data)
    with pytest.raises(InplaceModificationError):
        loss.backward()

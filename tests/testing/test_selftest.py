"""The self-test: it reaches everything, and its kernels' checks can fail."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.registry.operations import OPS
from nbfused.testing.selftest import FAMILIES, sample
from nbfused.testing.user_kernels import KERNELS


def test_each_family_of_ops_is_in_it():
    nf.ops.swish(1.0)  # fills the table
    of = {name: op.__module__.rpartition(".")[2] for name, op in OPS.items()}
    assert set(of.values()) == FAMILIES.keys()
    assert [n for family, names in FAMILIES.items() for n in names
            if of[n] != family] == []


def test_values_gradients_dtypes_and_layouts_are_in_it():
    checks = [c for c in sample() if c not in KERNELS]
    assert {c.kind for c in checks} == {"value", "special", "gradient", "low-gradient"}
    assert {c.dtype.kind for c in checks} == set("biufcV")
    assert {c.layout for c in checks} >= {"contiguous", "strided"}
    assert all(c.shapes == () or np.prod(c.shapes[0]) > 1 for c in checks)
    assert len(set(map(str, sample()))) == len(sample())


def test_cuda_source_is_for_cuda():
    names = {device: {str(c) for c in sample(device)} for device in ("cpu", "cuda:0")}
    assert names["cuda:0"] - names["cpu"] == {"kernel-RawKernel"}


PORTABLE = [k for k in KERNELS if not k.devices]


@pytest.mark.parametrize("check", PORTABLE, ids=str)
def test_kernels_pass_and_fail(check, monkeypatch):
    check("cpu")
    exact = nf.to_numpy
    monkeypatch.setattr(nf, "to_numpy", lambda x: exact(x) * 1.01 + 0.01)
    with pytest.raises(AssertionError):
        check("cpu")

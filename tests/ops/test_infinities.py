"""Reductions of infinite elements, whatever the order that a backend merges in."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from tests.plugin.nbfused_interpreter import InterpreterBackend
from tests.variants import sampled

pytestmark = pytest.mark.interpreted


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "norm"])
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("value", sampled([np.inf, -np.inf], -np.inf))
def test_of_one_infinite_element(name, position, value, device):
    x = np.array([[1.5, 2.0, -1.0], [0.5, 1.0, 4.0]], np.float32)
    x[:, position] = value
    with np.errstate(invalid="ignore"):
        expected = np.linalg.norm(x, axis=1) if name == "norm" else getattr(
            np, name)(x, axis=1)
    op = getattr(nf.ops, name)
    found = nf.to_numpy(op(nf.array(x, device=device), axis=1))
    np.testing.assert_array_equal(found, expected)
    with nf.use_backend(InterpreterBackend()):  # merges one element after another
        np.testing.assert_array_equal(op(x, axis=1), expected)

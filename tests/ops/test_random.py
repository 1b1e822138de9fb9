"""Dropout: the same mask everywhere, the right share, the mask's gradient."""

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError, RangeError
from tests.refusal import refused

pytestmark = pytest.mark.interpreted


def mask(shape, p, seed, device):
    x = nf.array(np.ones(shape, np.float32), device=device)
    return nf.to_numpy(nf.ops.dropout(x, p, seed))


def test_a_seed_gives_one_mask_whatever_the_layout(device):
    found = mask((6, 50), 0.3, 7, device)
    np.testing.assert_array_equal(found, mask((6, 50), 0.3, 7, device))
    turned = nf.array(np.ones((50, 6), np.float32), device=device).T
    np.testing.assert_array_equal(found, nf.to_numpy(nf.ops.dropout(turned, 0.3, 7)))
    assert np.any(found != mask((6, 50), 0.3, 8, device))


def test_the_share_and_the_scale(device):
    found = mask((200_000,), 0.25, 3, device)
    np.testing.assert_allclose(found[found > 0], 1 / 0.75, rtol=1e-6)
    # Five standard deviations of a binomial share.
    assert abs(np.mean(found == 0) - 0.25) < 5 * (0.25 * 0.75 / found.size) ** 0.5


def test_the_mask_is_known(device):
    """The first numbers, so that every backend draws the same."""
    uniform = mask((8,), 0.5, 1, device)
    np.testing.assert_array_equal(uniform, [2, 2, 0, 2, 0, 0, 0, 0])


def test_the_gradient_is_the_mask(device):
    x = nf.Variable(nf.array(np.full(1000, 3.0, np.float32), device=device),
                    requires_grad=True)
    nf.ops.sum(nf.ops.dropout(x, 0.4, 5)).backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), mask((1000,), 0.4, 5, device))


def test_a_probability_of_one_is_refused():
    with pytest.raises(ValueError, match=r"'p' must be in \[0, 1\), got 1.0"):
        nf.ops.dropout(np.ones(3), 1.0, 0)


@nf.fuse
def seeded(x, seed):
    return nf.ops.dropout(x, 0.5, seed)


@pytest.mark.parametrize(("seed", "error", "words"), [
    (-1, RangeError, "at least 0, got -1"), (2**63, RangeError, "64 bits"),
    (1.5, KernelTypeError, "an integer, got 1.5")])
def test_what_is_no_seed(seed, error, words):
    with refused(error, "dropout: 'seed'", words):
        nf.ops.dropout(np.ones(3), 0.5, seed)
    if seed != 2**63:  # that is no number of a fused function
        with refused(error, "dropout: 'seed'", words):
            seeded(np.ones(3), seed)

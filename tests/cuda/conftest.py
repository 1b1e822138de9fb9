"""Which device a test of CUDA needs."""

from __future__ import annotations

import pytest


@pytest.fixture
def hopper():
    """Skips where the device is another."""
    from nbfused.cuda.runtime.driver import device

    if device(0).arch[0] != 9:
        pytest.skip("no Hopper GPU")

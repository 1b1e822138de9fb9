"""The gallery's programs, at small size and on the device that is tested."""

from __future__ import annotations

import pytest

from examples.programs import programs


@pytest.fixture
def run(device):
    """Run a program by its name, with constants of one's choice."""
    matplotlib = pytest.importorskip("matplotlib", reason="the pictures of the gallery")
    matplotlib.use("agg")
    yield lambda name, **chosen: programs()[name].run(device=device, **chosen)
    matplotlib.pyplot.close("all")

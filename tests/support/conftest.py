"""Fixtures of the tests of worker processes."""

from __future__ import annotations

import pytest

from nbfused.support import processes, workers


@pytest.fixture
def nobody_left():
    """Each test starts and ends without workers."""
    workers.close_idle()
    yield
    workers.close_idle()
    assert not workers._alive


@pytest.fixture(params=[True, False], ids=["forks", "processes"])
def either(request, monkeypatch):
    """Workers of both kinds: where they are forks, and where they are not."""
    if request.param > processes.FORKS:
        pytest.skip("no forks here")
    monkeypatch.setattr(processes, "FORKS", request.param)

"""Tuning without a device: planted times, an empty cache."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from nbfused.config import config
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning import tuner as tune
from tests.cuda.tuning.planted import MODEL, PLANS, Times


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty cache, and nothing shipped."""
    monkeypatch.setattr(choices, "_tables", {})
    monkeypatch.setattr(choices, "SHIPPED", tmp_path / "shipped")
    with config.override(cache_dir=str(tmp_path / "cache"), autotune="1",
                         deterministic=False, cache_disable=False):
        yield tmp_path


@pytest.fixture
def device():
    return SimpleNamespace(ordinal=0, name=MODEL, cuda=(13, 0), current=nullcontext)


@pytest.fixture
def times(monkeypatch):
    planted = Times({PLANS[0]: 10.0, PLANS[1]: 7.0, PLANS[2]: 30.0})
    monkeypatch.setattr(tune, "timing", lambda device, stream: nullcontext(planted))
    monkeypatch.setattr(tune, "is_capturing", lambda device, stream: stream == 99)
    return planted

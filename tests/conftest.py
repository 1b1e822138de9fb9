"""Tests that need a device: skipped where it is missing, unless it is demanded."""

from __future__ import annotations

import os
from functools import cache

import pytest

import nbfused as nf

KINDS = ("cuda", "rocm")
DEMANDED = os.environ.get("NBFUSED_TEST_BACKEND", "")


@cache
def why_not(kind: str) -> str | None:
    """Why the backend `kind` cannot be used here; None if it can."""
    found = nf.backends()
    return found[kind].why if kind in found else f"no backend is called {kind}"


def needed(item: pytest.Item) -> tuple[str, ...]:
    """The backends of which `item` needs one."""
    kinds = tuple(kind for kind in KINDS if item.get_closest_marker(kind))
    return kinds or (KINDS if item.get_closest_marker("gpu") else ())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip for missing hardware; under ``NBFUSED_TEST_BACKEND`` that is a failure."""
    kinds = needed(item)
    reasons = {kind: why_not(kind) for kind in kinds}
    if not kinds or None in reasons.values():
        return
    reason = "; ".join(f"{kind}: {why}" for kind, why in reasons.items())
    if DEMANDED in kinds:
        pytest.fail(f"NBFUSED_TEST_BACKEND={DEMANDED}, but {reason}", pytrace=False)
    pytest.skip(reason)

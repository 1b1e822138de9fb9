"""Tests of the backend run in emulation, unless a device is demanded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbfused.config import config
from nbfused.errors import BackendNotAvailableError
from nbfused.rocm.build import toolchain

DEMANDED = os.environ.get("NBFUSED_TEST_BACKEND") == "rocm"
EMULATE = os.environ.get("NBFUSED_ROCM_EMULATE") or ("0" if DEMANDED else "1")


@pytest.fixture(autouse=True)
def emulated():
    """Devices are emulated by a C++ compiler, or skipped where there is none."""
    with config.override(rocm_emulate=EMULATE):
        try:
            toolchain.find()
        except BackendNotAvailableError as missing:
            pytest.skip(str(missing))
        yield


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a device is demanded these tests are among those that need it."""
    for item in items if DEMANDED else ():
        if Path(__file__).parent in item.path.parents:
            item.add_marker("rocm")

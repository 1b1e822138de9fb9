"""Tests that need a device: skipped where it is missing, unless it is demanded.

Tests that take the fixture `device` run wherever arrays are: on the cpu, and under
``NBFUSED_TEST_BACKEND=name`` on a device of that backend instead, a plugin's as well.
``NBFUSED_BACKEND=rocm`` means the same here: the other tests need their backends.

Where tests are marked ``interpreted`` their kernels are, which takes no compiler and a
thirtieth of the time: what they say of gradients, traces and NumPy's rules holds
whoever runs the kernels.  ``make variants`` compiles them, and a test that says
something of compiled kernels is marked ``compiled`` beside them.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache

import pytest

#: GPUs; any other backend, also one of a plugin, has no marker of its own.
KINDS = ("cuda", "rocm")
if os.environ.get("NBFUSED_BACKEND") in KINDS:  # before the import that reads it
    os.environ.setdefault("NBFUSED_TEST_BACKEND", os.environ.pop("NBFUSED_BACKEND"))
DEMANDED = os.environ.get("NBFUSED_TEST_BACKEND", "")
# Many processes test on one GPU: JAX would take three quarters of its memory at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Each of pytest's processes has a processor: what compiles in others asks for them.
os.environ.setdefault("NBFUSED_COMPILE_WORKERS", "1")

import nbfused as nf  # noqa: E402
from tests.plugin.nbfused_interpreter import InterpreterBackend  # noqa: E402

#: One for all tests, so that what was prepared is found again.
INTERPRETER = InterpreterBackend()


@cache
def why_not(kind: str) -> str | None:
    """Why the backend `kind` cannot be used here; None if it can."""
    found = nf.backends()
    return found[kind].why if kind in found else f"no backend is called {kind}"


def needed(item: pytest.Item) -> tuple[str, ...]:
    """The backends of which `item` needs one."""
    kinds = tuple(kind for kind in KINDS if item.get_closest_marker(kind))
    return kinds or (KINDS if item.get_closest_marker("gpu") else ())


def pytest_configure() -> None:
    """Refuse a backend that is demanded and is none, or cannot be used."""
    reason = DEMANDED and DEMANDED not in KINDS and why_not(DEMANDED)
    if reason:
        raise pytest.UsageError(f"NBFUSED_TEST_BACKEND={DEMANDED}: {reason}; expected "
                                f"one of {', '.join(nf.backends())}")


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what runs on the demanded device because its arrays are made there."""
    for item in items if DEMANDED in KINDS else ():
        kinds = [kind for kind in KINDS if item.get_closest_marker(kind)]
        if "device" in getattr(item, "fixturenames", ()) and not kinds:
            item.add_marker(DEMANDED)


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


def pytest_collection_finish() -> None:
    """Let Python look for cycles among what the tests make, not in what they are."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Interpret the kernels of tests that are marked so, unless these are asked for."""
    interpreted = item.get_closest_marker("interpreted") is not None and \
        item.get_closest_marker("compiled") is None and not DEMANDED and \
        not needed(item) and "interpreted" not in item.config.option.markexpr
    with nf.use_backend(INTERPRETER) if interpreted else nullcontext():
        return (yield)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where a test makes its arrays: ``nf.array(x, device=device)``."""
    if DEMANDED and DEMANDED not in KINDS:
        with nf.use_backend(DEMANDED, "cpu"):  # what both own is the first one's
            yield next(iter(nf.backends()[DEMANDED].devices), "cpu")
    else:
        kinds = needed(request.node)
        yield next((kind for kind in kinds if why_not(kind) is None), "cpu")

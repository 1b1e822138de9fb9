"""Mistakes that a GPU may forgive are found by at least one way of running."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nbfused.config import config
from tests.rocm.emulated import WAYS, said, sanitized, start

N = 128
X = np.random.default_rng(0).integers(1, 50, 512).astype(np.float32)
FIRST = X[:N]
COUNTS = np.bincount(FIRST.astype(int) % 8, minlength=8)

#: What each kernel of planted.hip gives where it is right.
EXPECTED = {
    "missing_barrier": X.reshape(4, N)[:, ::-1].ravel(),
    "missing_second_barrier": np.roll(X.reshape(4, N), -1, 1).sum(0),
    "barrier_in_a_branch": FIRST.reshape(-1, 2)[:, ::-1].ravel(),
    "divergent_barrier": FIRST.reshape(-1, 2)[:, ::-1].ravel(),
    "barrier_in_a_loop": FIRST.reshape(-1, 2)[:, ::-1].ravel(),
    "shuffles_of_a_wave": FIRST.reshape(2, 64).sum(1).repeat(64),
    "lanes_in_step": FIRST.sum(keepdims=True),
    "first_of_a_wave": FIRST.reshape(4, 32).sum(1)[[1, 0, 3, 2]].repeat(32),
    "unwritten": COUNTS,
    "unwritten_dynamic": COUNTS,
    "blocks_in_order": np.cumsum(X[:100]),
}
#: The ways of running that let a mistake pass; no way does for those not named.
FORGIVING = {
    "shuffles_of_a_wave": {(64, schedule) for schedule in ("step", "first", "last")},
    "lanes_in_step": {(wave, "last") for wave in (32, 64)},
    "blocks_in_order": {(wave, schedule) for wave in (32, 64)
                        for schedule in ("step", "first")},
}


def outcome(monkeypatch, kernel, wrong, way):
    """The code of a launch, and whether the result is what it should be."""
    wave, schedule = way
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
    monkeypatch.setenv("NBFUSED_EMULATION_THREADS", "1")  # else blocks race
    y = np.full(512, -1, np.float32)
    code = start("planted", kernel, wrong, X, y)
    expected = EXPECTED[kernel]
    return code, np.array_equal(y[:expected.size], expected)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("kernel", EXPECTED)
def test_what_is_right_passes(monkeypatch, kernel, way):
    code, equal = outcome(monkeypatch, kernel, False, way)
    assert code == 0, said(code)
    assert equal


@pytest.mark.parametrize("kernel", EXPECTED)
def test_mistakes_are_found(monkeypatch, kernel):
    passed = {way for way in WAYS
              if outcome(monkeypatch, kernel, True, way) == (0, True)}
    assert passed == FORGIVING.get(kernel, set())
    assert len(passed) < len(WAYS)


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("kernel", "text"), [
    ("barrier_in_a_branch", r"16 wait at planted\.hip:\d+, 112 have ended"),
    ("divergent_barrier",
     r"64 wait at planted\.hip:(\d+), 64 wait at planted\.hip:(?!\1)\d+, 0 have ended"),
    ("barrier_in_a_loop", r"127 wait at planted\.hip:\d+, 1 have ended"),
])
def test_where_threads_wait_in_vain_is_told(monkeypatch, kernel, text, way):
    code, _ = outcome(monkeypatch, kernel, True, way)
    assert code == 719
    assert re.search(r"barrier .* block \(0, 0, 0\): " + text, said(code))
    assert outcome(monkeypatch, kernel, False, way) == (0, True)


# --- writes beyond an array


def write(kernel, wrong):
    """What a sanitized Python does: it ends at a write beyond an array."""
    with config.override(rocm_emulate="1"):
        y = np.zeros(500, np.float32)
        assert start("planted", kernel, wrong, X, y) == 0
    assert np.array_equal(y[:N], FIRST)


@pytest.mark.parametrize(("kernel", "error"), [
    ("out_of_bounds", "heap-buffer-overflow"), ("out_of_shared", "use-after-poison")])
def test_writes_beyond_an_array_are_found_by_the_sanitizer(kernel, error):
    code = "from tests.rocm.test_emulation_planted import write; write({!r}, {})"
    right, wrong = (sanitized("-c", code.format(kernel, k)) for k in (0, 1))
    assert right.returncode == 0, right.stderr
    assert wrong.returncode != 0
    assert error in wrong.stderr
    assert "planted.hip" in wrong.stderr

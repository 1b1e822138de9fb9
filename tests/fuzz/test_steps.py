"""A fixed share of the random training steps; ``python -m tests.fuzz --steps N``."""

from __future__ import annotations

import pytest

import nbfused as nf
from nbfused.kernels.fusing.program import Program
from nbfused.kernels.fusing.trace import Trace
from tests.fuzz.steps import check_step, draw_step
from tests.plugin.nbfused_interpreter import InterpreterBackend
from tests.variants import sampled

pytestmark = pytest.mark.filterwarnings("ignore:fuse.*decorated again")


@pytest.mark.parametrize("seed", sampled(range(60), *range(10)))
def test_a_fused_step_is_the_step(seed):
    with nf.use_backend(InterpreterBackend()):
        found = check_step(seed)
    assert not found, found


def test_a_seed_is_always_the_same_step():
    assert [draw_step(k) for k in range(20)] == [draw_step(k) for k in range(20)]


def _is_found(count=12):
    with nf.use_backend(InterpreterBackend()):
        return any(check_step(seed) for seed in range(count))


def test_a_lost_update_is_noticed(monkeypatch):
    from_trace = Program.from_trace.__func__
    monkeypatch.setattr(Program, "from_trace", classmethod(
        lambda cls, trace, outputs, stores, effects=(), **options: from_trace(
            cls, trace, outputs, {}, effects, **options)))
    assert _is_found()


def test_a_number_kept_from_the_first_call_is_noticed(monkeypatch):
    argument = Trace.argument
    monkeypatch.setattr(Trace, "argument", lambda self, x, name: (
        x if isinstance(x, float) and argument(self, x, name) else argument(
            self, x, name)))
    assert _is_found()

"""Kernels of a program compiled in other processes, before the first of them runs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu import CpuBackend, ahead
from nbfused.cpu.runtime import compile
from nbfused.errors import CompileError
from nbfused.kernels.fusing import ahead as fusing_ahead
from nbfused.registry.backends import registry
from nbfused.support import processes, workers
from nbfused.support.workers import LostError

pytestmark = pytest.mark.filterwarnings("ignore:fuse. several is decorated again")


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """No kernels on disk, and no worker that is left."""
    monkeypatch.setattr(nf.config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(nf.config, "compile_workers", 2)
    yield
    workers.close_idle()


def program():
    """A function of its own, with four launches, and its results by NumPy."""
    number = float(np.random.default_rng().uniform(1, 2))  # in no kernel before

    @nf.fuse
    def several(x, w):
        return (nf.ops.matmul(x, w) * number, (x * number).sum(axis=0),
                (x - number).max(axis=1), np.exp(w / number))

    def expected(x, w):
        return (number * np.einsum("ik,kj->ij", x, w), number * np.add.reduce(x),
                np.sort(x, 1)[:, -1] - number, np.e ** (w / number))

    return several, expected


def arguments():
    rng = np.random.default_rng(0)
    return rng.normal(size=(37, 20)), rng.normal(size=(20, 11))


def check(several, expected):
    given = arguments()
    for found, right in zip(several(*given), expected(*given), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


def here(monkeypatch):
    """The texts that this process compiles from now on."""
    texts = []
    real = compile.compile_text
    monkeypatch.setattr(compile, "compile_text",
                        lambda text: texts.append(text) or real(text))
    return texts


def test_nothing_is_compiled_in_this_process(fresh, monkeypatch):
    texts = here(monkeypatch)
    made = nf.cache.stats().compilations
    check(*program())
    assert nf.cache.stats().compilations - made >= 3
    assert texts == []


@pytest.mark.variants
def test_without_a_folder_as_well(fresh, monkeypatch):
    monkeypatch.setattr(nf.config, "cache_disable", True)
    texts = here(monkeypatch)
    check(*program())
    assert texts == []


def test_one_worker_compiles_here(fresh, monkeypatch):
    monkeypatch.setattr(nf.config, "compile_workers", 1)
    texts = here(monkeypatch)
    check(*program())
    assert len(texts) >= 3
    assert not workers._alive


def test_lost_workers_leave_the_kernels_to_this_process(fresh, monkeypatch):
    def lost(self, job):
        self.kill()
        raise LostError("gone")

    monkeypatch.setattr(processes.Worker, "run", lost)
    texts = here(monkeypatch)
    check(*program())
    assert len(texts) >= 3


def test_one_lost_worker_leaves_its_own_kernel_only(fresh, monkeypatch):
    real, jobs = processes.Worker.run, []

    def run(self, job):
        jobs.append(job)
        if len(jobs) == 1:
            self.kill()
            raise LostError("gone")
        return real(self, job)

    monkeypatch.setattr(processes.Worker, "run", run)
    texts = here(monkeypatch)
    check(*program())
    (lost,) = jobs[0].arguments
    assert texts[0] == lost
    assert not {job.arguments[0] for job in jobs[1:]} & set(texts)


def test_nothing_is_ahead_when_the_main_thread_has_ended(fresh, monkeypatch):
    monkeypatch.setattr(fusing_ahead, "pools_are_open", lambda: False)
    texts = here(monkeypatch)
    check(*program())
    assert len(texts) >= 3
    assert not processes.is_started()


@pytest.fixture
def expected_calls(fresh, monkeypatch):
    """The times at which a GPU's compiler was started early."""
    found = []
    backend = SimpleNamespace(expect=lambda: found.append(1))
    monkeypatch.setattr(registry, "accelerator", lambda: backend)
    return found


def named(name):
    """A function of a name, whose code is made anew."""
    names = {}
    exec(f"def {name}(x): return x", names)
    return names[name]


def test_the_first_decoration_starts_the_compiler_of_a_gpu(expected_calls):
    nf.fuse(named("one"))
    assert expected_calls == [1]
    nf.fuse(named("one"))  # as in another process on this machine
    assert expected_calls == [1]
    nf.fuse(kernel_name="same")(named("two"))
    assert expected_calls == [1, 1]


@pytest.mark.parametrize("asked", ["accelerator", "expect"])
def test_an_error_of_a_plugin_is_logged_and_ends_no_decoration(
        fresh, asked, monkeypatch, caplog):
    def broken():
        raise RuntimeError("a plugin's own")

    backend = SimpleNamespace(expect=broken)
    monkeypatch.setattr(registry, "accelerator",
                        broken if asked == "accelerator" else lambda: backend)
    monkeypatch.setattr(CpuBackend, "expect", lambda self: broken())
    with caplog.at_level("WARNING", logger="nbfused"):
        fused = nf.fuse(named(f"with_broken_{asked}"))
        assert "a plugin's own" in caplog.text
        caplog.clear()
        assert fused(np.ones(2)).tolist() == [1, 1]
        assert "a plugin's own" in caplog.text


def test_files_of_any_name(expected_calls):
    function = named("three")
    function.__code__ = function.__code__.replace(co_filename="\udcff.py")
    assert nf.fuse(function)(np.ones(2)).tolist() == [1, 1]
    assert expected_calls == [1]


def test_no_compiler_is_started_for_what_has_no_code(expected_calls):
    class Proxy:
        __code__ = "of another kind"

        def __call__(self, x):
            return x

    for function in (Proxy(), partial(np.add, 1), np.negative, abs):
        nf.fuse(function)
    assert expected_calls == []


def test_no_compiler_is_started_where_no_pool_is_open(expected_calls, monkeypatch):
    monkeypatch.setattr(fusing_ahead, "pools_are_open", lambda: False)
    nf.fuse(named("one"))
    assert expected_calls == []


def test_an_error_of_a_worker_is_the_compilers(fresh, monkeypatch):
    monkeypatch.setattr(ahead, "_COMPILE", f"{__name__}:broken")
    several, _ = program()
    with pytest.raises(CompileError, match="refused") as caught:
        several(*arguments())
    assert "def kernel" in caught.value.source


def broken(text):
    raise CompileError("refused", source=text)


def test_the_second_call_of_a_layout_compiles_nothing(fresh, monkeypatch):
    several, expected = program()
    check(several, expected)
    made = nf.cache.stats().compilations
    check(several, expected)
    check(several, expected)
    assert nf.cache.stats().compilations == made


def test_layers_that_do_the_same_share_their_kernels(fresh, monkeypatch):
    """Whatever their parameters are called."""
    @nf.fuse
    def network(parameters, x):
        for w, b in parameters:
            x = nf.ops.matmul(x, w) * 1.25 + b
            x = nf.ops.softmax(x, axis=-1) - b
        return x

    rng = np.random.default_rng(1)
    x, layers = rng.normal(size=(6, 8)), [(rng.normal(size=(8, 8)), rng.normal(size=8))
                                          for _ in range(12)]
    found, right = network(layers, x), x
    for w, b in layers:
        right = np.exp((right @ w) * 1.25 + b)
        right = right / right.sum(-1, keepdims=True) - b
    np.testing.assert_allclose(found, right, rtol=1e-10)
    specs = {launch.spec.kernel for launch in next(iter(
        network._programs.values())).launches}
    assert len(specs) <= 3


def test_a_compiler_starts_with_the_first_trace_of_a_function_only(fresh, monkeypatch):
    started = []
    monkeypatch.setattr(CpuBackend, "expect",
                        lambda self: started.append(1))

    def two(x):
        return np.exp(x) + x.sum()

    nf.fuse(two)(np.ones(5))
    assert started == [1]
    nf.fuse(two)(np.ones((3, 4)))  # traced before, as in an earlier process
    assert started == [1]
    nf.fuse(lambda x: np.exp(x) * x.sum())(np.ones(5))
    assert started == [1, 1]

"""Kernels of calls to come: the order in which other processes compile them."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from nbfused.config import config
from nbfused.cuda.runtime import ahead
from nbfused.cuda.runtime.assemble import Assembly


class Processes:
    """Workers that have compiled what they are asked for at once."""

    running = True

    def __init__(self, most):
        self.most, self.asked = most, []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def submit(self, job):
        self.asked.append(job.arguments)
        future = Future()
        future.set_result(Assembly(job.arguments[0].text))
        return future


class Program:
    """A kernel of this text, which notes that it is loaded."""

    def __init__(self, text, loaded):
        self.kernel = SimpleNamespace(name=text, text=text)
        self.function = lambda *of: loaded.append(text)


@pytest.mark.parametrize(("most", "expected"), [
    (1, ["b", "eeeee", "dddd", "aaa"]), (2, ["b", "aaa", "eeeee", "dddd"]),
    (16, ["b", "aaa", "dddd", "eeeee"])])
def test_what_has_no_process_yet_goes_by_its_length(monkeypatch, tmp_path, most,
                                                    expected):
    loaded, kept, workers = [], [], Processes(most)
    device = SimpleNamespace(arch=(9, 0), cuda=(13, 0), current=lambda: workers)
    calls = [SimpleNamespace(
        call=SimpleNamespace(device=0),
        launch=SimpleNamespace(program=Program(text, loaded), shared=0))
        for text in ("b", "aaa", "b", "dddd", "eeeee", "eeeee")]
    monkeypatch.setattr(ahead, "Workers", lambda *of: workers)
    monkeypatch.setattr(ahead, "device", lambda ordinal: device)
    monkeypatch.setattr(ahead, "launches_of", lambda call: [call.launch])
    monkeypatch.setattr(ahead.compile, "key_of", lambda kernel, device: kernel.text)
    monkeypatch.setattr(ahead.compile, "keep", lambda *of: kept.append(of))
    with config.override(cache_dir=str(tmp_path), ptxas="driver"):
        ahead.compile_ahead(calls)
    assert [kernel.text for kernel, *_ in workers.asked] == expected
    assert all(rest == [(9, 0), (13, 0), "driver"] for _, *rest in workers.asked)
    assert sorted(loaded) == ["aaa", "b", "b", "dddd", "eeeee", "eeeee"]
    assert sorted(code.ptx for *_, code in kept) == sorted(expected)

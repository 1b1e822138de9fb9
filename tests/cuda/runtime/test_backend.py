"""Whether the backend can be used here, and why not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nbfused.cuda import CudaBackend, backend

FOUND = object()


@pytest.fixture
def machine(monkeypatch):
    """A machine on which everything is there."""
    monkeypatch.setattr(backend, "find_spec", lambda name: FOUND)
    monkeypatch.setattr(backend, "CDLL", lambda name: None)
    monkeypatch.setattr(backend, "glob", lambda pattern: ["/dev/nvidia0"])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    backend._why_not.cache_clear()
    yield monkeypatch
    backend._why_not.cache_clear()


def test_available(machine):
    assert CudaBackend().available() is None


def test_without_bindings(machine):
    machine.setattr(backend, "find_spec", lambda name: None)
    assert "nbfused[cuda13]" in CudaBackend().available()


def test_without_a_driver(machine):
    def missing(name):
        raise OSError(name)

    machine.setattr(backend, "CDLL", missing)
    assert "libcuda.so.1" in CudaBackend().available()


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_with_every_device_hidden(machine, hidden):
    machine.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert "hides every device" in CudaBackend().available()


def test_without_device_files_the_driver_is_asked(machine):
    machine.setattr(backend, "glob", lambda pattern: [])
    machine.setattr("nbfused.cuda.runtime.driver.device_count", lambda: 0)
    assert CudaBackend().available() == "the NVIDIA driver shows no device"


def test_a_broken_installation_is_a_reason_not_an_error(machine):
    def broken(name):
        raise ValueError("half an installation")

    machine.setattr(backend, "find_spec", broken)
    assert "half an installation" in CudaBackend().available()


@pytest.mark.parametrize(("device", "owned"), [
    ("cuda", True), ("cuda:3", True), ("cpu", False), ("cudax:0", False)])
def test_owns(device, owned):
    assert CudaBackend().owns(device) is owned


def test_looking_imports_no_compiler_and_no_driver():
    code = ("import sys, nbfused.cuda as c; c.CudaBackend().available(); "
            "print([m for m in ('numba', 'llvmlite', 'torch', 'cupy') "
            "if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True)
    assert done.stdout.strip() == "[]"

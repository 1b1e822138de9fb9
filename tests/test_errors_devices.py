"""Bad input: devices and backends that there are none of."""

from __future__ import annotations

import pytest

import nbfused as nf
from nbfused.errors import BackendNotAvailableError, DeviceError
from tests.refusal import refused

DEVICES = {
    "name": ("gpu:x", ("device: 'gpu:x' names no device", "'rocm:0'")),
    "unknown": ("tpu", ("device: no backend has devices called 'tpu'", "'cuda'")),
}


@pytest.mark.parametrize("kind", DEVICES)
def test_devices_that_do_not_exist(kind):
    device, words = DEVICES[kind]
    for make in (lambda: nf.array([1.0], device=device),
                 lambda: nf.zeros(3, device=device)):
        with refused(DeviceError, *words):
            make()


def test_backends_that_do_not_exist():
    with (refused(BackendNotAvailableError, "no backend is called 'nonsense'", "cpu",
                  "cuda", "rocm"), nf.use_backend("nonsense")):
        pass

"""The record of launches."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nbfused.dispatch import execute, trace_launches
from nbfused.registry.backends import use_backend
from tests.dispatch.numpy_backend import (
    ADD,
    COPY,
    numpy_backend,
    reduce_of,
)

X = np.zeros((2, 3))


@pytest.fixture(autouse=True)
def backend():
    fake = numpy_backend()
    with use_backend(fake):
        yield fake


def test_trace():
    with trace_launches() as outer:
        execute(ADD, (X, X))
        with trace_launches() as inner:
            execute(reduce_of(None), (X,))
        worker = threading.Thread(target=execute, args=(COPY, (X,)))
        worker.start()
        worker.join()
    assert [(one.kind, one.name, one.shape, one.backend) for one in outer] \
        == [("Map", "add", (6,), "cpu")]
    assert [one.kind for one in inner] == ["Reduce"]
    execute(ADD, (X, X))
    assert len(outer) == 1


def test_bytes_count_what_is_repeated_once():
    with trace_launches() as launches:
        rows = np.broadcast_to(np.zeros(3, "f4"), (2, 3))
        execute(ADD, (rows, np.zeros((2, 3), "f4")))
    (launch,) = launches
    assert launch.bytes == 4 * (3 + 6 + 6)
    assert launch.grid is launch.block is None

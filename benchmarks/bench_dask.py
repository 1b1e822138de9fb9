"""Benchmarks of Dask arrays: two worker processes against NumPy on the same Dask."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

import nbfused as nf

SHAPES = ((40_000, 1024), (200_000, 1024))
QUICK = ((400, 64),)
KINDS = ("numpy", "cpu")


def unfused(x: Any) -> Any:
    """swish, layer_norm and sum, written for arrays."""
    y = x / (1 + np.exp(-x))
    d = y - y.mean(axis=-1, keepdims=True)
    return (d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)).sum()


def fused(x: Any) -> Any:
    return nf.ops.sum(nf.ops.layer_norm(nf.ops.swish(x)))


class DaskRows:
    """swish, layer_norm and sum of float32 rows in 20 to 100 chunks."""

    param_names = ("where", "shape")
    params = (KINDS, SHAPES)
    quick = (KINDS, QUICK)

    def setup(self, where: str, shape: tuple[int, int]) -> None:
        if find_spec("distributed") is None:
            raise NotImplementedError("distributed is not installed")
        da, distributed = import_module("dask.array"), import_module("distributed")
        self.cluster = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        self.client = distributed.Client(self.cluster)
        chunks = (min(2000, shape[0] // 4), -1)
        self.x = da.random.default_rng(0).standard_normal(
            shape, chunks=chunks, dtype="f4").persist()
        distributed.wait(self.x)
        self.call = unfused if where == "numpy" else fused
        self.call(self.x).compute()

    def teardown(self, *params: object) -> None:
        if hasattr(self, "client"):
            self.client.close()
            self.cluster.close()

    def time_compute(self, *params: object) -> None:
        self.call(self.x).compute()

    def time_graph(self, *params: object) -> None:
        """The graph, written out for the scheduler: bar 1 ms a chunk."""
        dict(self.call(self.x).__dask_graph__())

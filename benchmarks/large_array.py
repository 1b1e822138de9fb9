"""``python -m benchmarks.large_array``: an array larger than the workers' memory.

swish, layer_norm with its gradients, l2norm and logsumexp of float64 rows on two worker
processes of Dask; what each took, and the most memory that a worker had.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import nbfused as nf
from nbfused import ops

__all__ = ["main"]

COLUMNS = 1000


@nf.reduction(combine="sum", post=math.sqrt)
def l2norm(x: Any) -> Any:
    """The root of the sum of squares."""
    return x * x


def gradients(x: Any) -> Any:
    """The largest element of a gradient of layer_norm, and that by its weight."""
    da = __import__("dask.array").array
    weight, bias = (nf.Variable(f(COLUMNS, chunks=-1), requires_grad=True)
                    for f in (da.ones, da.zeros))
    v = nf.Variable(x, requires_grad=True)
    ops.sum(ops.layer_norm(v, weight, bias) ** 3).backward()
    return ops.max(v.grad), weight.grad


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "swish": lambda x: ops.sum(ops.swish(x)),
    "layer_norm": lambda x: ops.sum(ops.layer_norm(x) ** 2),
    "layer_norm, its gradients": gradients,
    "l2norm": lambda x: l2norm(x, axis=1),
    "logsumexp": lambda x: ops.logsumexp(x),
    "logsumexp of columns": lambda x: ops.sum(ops.logsumexp(x, axis=0)),
}


def peak() -> int:
    """Bytes that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds and bytes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_array",
                                     description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--limit", default="4GB", help="memory of a worker")
    parser.add_argument("--chunk", type=int, default=20_000, help="rows of a chunk")
    given = parser.parse_args(argv)
    import dask
    import dask.array as da
    import distributed

    rows = int(given.gigabytes*1e9/8/COLUMNS)
    with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit=given.limit,
            dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        x = da.random.default_rng(0).standard_normal(
            (rows, COLUMNS), chunks=(given.chunk, -1))
        print(f"{x.nbytes/1e9:.1f} GB in {x.npartitions} chunks of "
              f"{max(x.chunks[0])*COLUMNS*8/1e6:.0f} MB, two workers of {given.limit}")
        for name, program in PROGRAMS.items():
            start = time.perf_counter()
            dask.compute(program(x))
            took = time.perf_counter() - start
            most = max(client.run(peak).values())
            print(f"{name:26} {took:7.1f} s, {most/1e9:5.2f} GB of a worker at most")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

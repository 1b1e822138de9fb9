"""One rank: ``python -m tests.distributed.ranks ENGINE FOLDER HOW RANK SIZE PORT``.

It runs every program, and adds a line of JSON for each to a file of its own.  HOW is
"interpreted" or "compiled": kernels are compiled by each of the ranks.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

import nbfused as nf
from tests.distributed import learning, planned  # noqa: F401 - enter their programs
from tests.distributed.programs import PROGRAMS, Ranks, alone


def gloo(rank, size, port):
    """A group of PyTorch in host memory; arrays of NumPy."""
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=size)
    return dist.group.WORLD, ""


def tensors(rank, size, port):
    """The same, and tensors."""
    return gloo(rank, size, port)


def mpi(rank, size, port):
    """MPI's world; what starts the processes says who is who."""
    from mpi4py import MPI

    return MPI.COMM_WORLD, ""


def torch_nccl(rank, size, port):
    """A group of PyTorch on GPUs; tensors."""
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    return dist.group.WORLD, f"cuda:{rank}"


def cupy_nccl(rank, size, port):
    """NCCL through CuPy; its arrays.  The identity travels through PyTorch's store."""
    import cupy
    from cupy.cuda import nccl
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", port, size, rank == 0)
    if rank == 0:
        store.set("id", bytes(nccl.get_unique_id()).hex())
    cupy.cuda.Device(rank).use()
    identity = bytes.fromhex(store.get("id").decode())
    return nccl.NcclCommunicator(size, identity, rank), f"cuda:{rank}"


ENGINES = {f.__name__: f for f in (gloo, tensors, mpi, torch_nccl, cupy_nccl)}


def put(engine, device, x):
    """An array of the library that goes with the engine."""
    if engine in ("tensors", "torch_nccl"):
        import torch

        if x.dtype.name == "bfloat16":
            made = torch.from_numpy(x.astype("float32")).bfloat16()
        else:
            made = torch.from_numpy(x.copy())
        return made.to(device or "cpu")
    return nf.array(x, device=device) if device else x.copy()


def main(engine, folder, how, rank, size, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    comm, device = ENGINES[engine](rank, size, port)
    place = partial(put, engine, device)
    place.device = device
    ranks = Ranks(comm, place)
    with alone() if how == "interpreted" else nullcontext():
        run(engine, folder, ranks)


def run(engine, folder, ranks):
    for name, program in PROGRAMS.items():
        if name in SKIPPED.get(engine, ()):
            continue
        try:
            program(ranks)
            error = None
        except pytest.skip.Exception as why:
            error = f"skipped: {why}"
        except BaseException:
            error = traceback.format_exc()
        with open(Path(folder, f"{ranks.rank}.json"), "a", encoding="utf-8") as file:
            print(json.dumps([name, ranks.rank, error]), file=file)


#: NCCL has no way from host to host: ranks that differ would wait for ever.  The groups
#: of the first are PyTorch's and MPI's.
SKIPPED = {"cupy_nccl": ("a_group_that_others_are_not_in", "ranks_that_differ",
                         "a_rank_that_does_not_come")}

if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))

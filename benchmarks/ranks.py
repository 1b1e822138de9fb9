"""``python -m benchmarks.ranks``: several GPUs of one host beside one.

A training step of a perceptron with the batch of each rank, beside PyTorch's
DistributedDataParallel; a cross entropy whose classes are split over ranks, both ways;
how long processes take to start.  PyTorch starts the group, NCCL carries.  Losses and
gradients are compared with those of one process before anything is timed.

``--profile`` prints the kernels of a fused step of rank 0 by their start, ``--bucket``
the bytes of gradients that are summed at once, and ``--segments`` leaves NCCL's calls
out of the CUDA graph.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbfused as nf
from nbfused import distributed, ops

__all__ = ["main"]

WIDTHS, ROWS = (1024, 4096, 1000), 4096
TOKENS, CLASSES = 8192, 128256
#: Turns, and calls of each.
TURNS, CALLS = 7, 20

Step = Callable[[], Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds by one process and by several, and the ratio of throughputs."""
    given = _parser().parse_args(argv)
    if given.rank is not None:
        print(json.dumps(_measured(given)))
        return 0
    alone, together = (_processes(n, given) for n in (1, given.size))
    found = {"one": alone, "several": together, "size": given.size}
    for name, seconds in together.items():
        if name not in alone or name == "start":
            continue
        gain = alone[name]/seconds*(1 if name.startswith("cross") else given.size)
        print(f"{name:44} {alone[name]*1e6:9.1f} us, of {given.size} "
              f"{seconds*1e6:9.1f} us: {gain:5.2f} x the throughput")
    print(f"{'start, first launch and result':44} {alone['start']:9.2f} s, of "
          f"{given.size} {together['start']:9.2f} s: "
          f"{together['start']/alone['start']:5.2f} x the time")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


def _processes(size: int, given: argparse.Namespace) -> dict[str, float]:
    """Start as many, and what the first one measured."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ranks", "--rank", str(rank), "--size",
         str(size), "--port", str(port), "--bucket", str(given.bucket),
         *(["--profile"] if given.profile else []),
         *(["--segments"] if given.segments else []), "--only", given.only],
        env=environment, text=True, stdout=subprocess.PIPE) for rank in range(size)]
    printed = [p.communicate()[0] for p in started]
    if any(p.returncode for p in started):
        raise SystemExit("a rank failed: see above")
    *lines, last = printed[0].splitlines()
    print("\n".join(lines))
    found: dict[str, float] = json.loads(last)
    return found


def _measured(given: argparse.Namespace) -> dict[str, float]:
    """Seconds of each program on this rank."""
    rank, size = given.rank, given.size
    begin = time.perf_counter()
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    ops.swish(torch.ones(1 << 20, device="cuda")).sum().item()
    found = {"start": time.perf_counter() - begin}
    dist.init_process_group("nccl", rank=rank, world_size=size,
                            device_id=torch.device("cuda", rank))
    comm = distributed.communicator(dist.group.WORLD)
    if given.segments:
        comm.engine.on_stream = None
    for name, step in (*_training(comm, given.bucket), *_splitting(comm)):
        if given.only not in name:
            continue
        found[name] = _seconds(step)
        if given.profile and "fuse" in name:
            lines = _profiled(step)
            if rank == 0:
                print(f"\n{name}, {size} ranks: start, duration [us], stream, kernel")
                print("\n".join(lines))
    comm.release()
    dist.destroy_process_group()
    return found


def _profiled(step: Step) -> list[str]:
    """The kernels of the second of three steps in the order of their start."""
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        for _ in range(3):
            step()
            torch.cuda.synchronize()
    events = sorted([e for e in profiler.events() if e.device_type == DeviceType.CUDA],
                    key=lambda e: e.time_range.start)
    each = len(events)//3
    events = events[each:2*each]
    begin = events[0].time_range.start if events else 0
    return [f"{e.time_range.start - begin:8.1f} {e.time_range.elapsed_us():8.1f} "
            f"{e.device_resource_id:4} {e.name[:70]}" for e in events]


def _seconds(step: Step) -> float:
    """The median time of a step, the host's work included."""
    import torch
    import torch.distributed as dist

    for _ in range(5):
        step()
    turns = []
    for _ in range(TURNS):
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        for _ in range(CALLS):
            step()
        torch.cuda.synchronize()
        turns.append((time.perf_counter() - start)/CALLS)
    return statistics.median(turns)


def _training(comm: distributed.Communicator,
              bucket: int) -> list[tuple[str, Step]]:
    """Steps of gradient descent, each rank with a batch of its own."""
    import torch
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    options: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    weights = [torch.randn(a, b, **options)/a**0.5
               for a, b in pairwise(WIDTHS)]
    start = [x for w in weights for x in (w, torch.zeros(w.shape[1], **options))]
    torch.manual_seed(comm.rank)
    x = torch.randn(ROWS, WIDTHS[0], **options)
    labels = torch.randint(WIDTHS[-1], (ROWS,), device="cuda")

    def loss(p: Any, x: Any, labels: Any) -> Any:
        h = ops.linear(x, p[0], p[1], activation="gelu")
        return ops.cross_entropy(ops.linear(h, p[2], p[3]), labels)

    def trained(gradients: Any) -> Callable[..., Any]:
        def step(p: Any, x: Any, labels: Any) -> Any:
            value, found = gradients(p, x, labels)
            ops.sgd_step(p, found, lr=1e-3)
            return value
        return step

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.p = torch.nn.ParameterList([p.clone() for p in start])

        def forward(self, x: Any) -> Any:
            p = self.p
            return F.gelu(x @ p[0] + p[1]) @ p[2] + p[3]

    net: torch.nn.Module = Net().cuda()
    if comm.size > 1:
        net = DistributedDataParallel(net, device_ids=[comm.rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, fused=True)

    def theirs() -> Any:
        optimizer.zero_grad()
        value = F.cross_entropy(net(x), labels)
        value.backward()
        optimizer.step()
        return value

    eager = nf.value_and_grad(loss) if comm.size == 1 else \
        distributed.value_and_grad(loss, comm, bucket=bucket)
    compiled = nf.fuse(trained(eager))
    plain = trained(eager)
    ours, fused = ([p.clone() for p in start] for _ in range(2))
    values = [float(theirs()), float(plain(ours, x, labels)),
              float(compiled(fused, x, labels))]
    mean = torch.tensor(values[0], device="cuda")
    torch.distributed.all_reduce(mean)
    assert all(abs(v - float(mean)/comm.size) < 0.02*v for v in values[1:]), values
    return [("perceptron, nbfused eager", lambda: plain(ours, x, labels)),
            ("perceptron, nbfused in nf.fuse", lambda: compiled(fused, x, labels)),
            ("perceptron, PyTorch eager, DDP", theirs)]


def _splitting(comm: distributed.Communicator) -> list[tuple[str, Step]]:
    """Value and gradient of a cross entropy, whole or split over ranks."""
    import torch

    own = CLASSES//comm.size
    torch.manual_seed(comm.rank)
    logits = torch.randn(TOKENS, own, device="cuda", dtype=torch.bfloat16)
    torch.manual_seed(100)
    labels = torch.randint(CLASSES, (TOKENS,), device="cuda")

    def loss(x: Any) -> Any:
        if comm.size == 1:
            return ops.cross_entropy(x, labels)
        return ops.mean(distributed.cross_entropy(x, labels, comm))

    step = nf.value_and_grad(loss)
    fused = nf.fuse(step)
    if comm.size > 1:
        parts = [torch.empty_like(logits) for _ in range(comm.size)]
        torch.distributed.all_gather(parts, logits)
        want = float(ops.cross_entropy(torch.cat(parts, 1), labels))
        assert all(abs(float(f(logits)[0]) - want) < 1e-2*want for f in (step, fused))
    return [("cross entropy (8192, 128256) both ways", lambda: step(logits)),
            ("cross entropy in nf.fuse", lambda: fused(logits))]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks",
                                     description=__doc__)
    parser.add_argument("--size", type=int, default=2, help="GPUs and processes")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--profile", action="store_true", help="print kernels")
    parser.add_argument("--bucket", type=int, default=4 << 20, help="bytes")
    parser.add_argument("--segments", action="store_true",
                        help="leave collectives out of CUDA graphs")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m nbfused selftest``: ops and kernels of every kind, on every backend.

A sample of the conformance suite that takes less than a minute where no kernel is
compiled yet, and the checks of `user_kernels`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from math import prod

from ..registry.backends import backends
from ..registry.report import info
from ..support.progress import progress
from .conformance import Check, checks
from .user_kernels import KERNELS, KernelCheck

__all__ = ["FAMILIES", "main", "sample"]

#: Ops that stand for their family, a module of `nbfused.ops`.
FAMILIES = {
    "activations": ("swish", "gelu"), "arithmetic": ("add", "floor_divide"),
    "assignment": ("set_at",), "comparison": ("where",), "filling": ("full_like",),
    "gathers": ("take",), "indexing": ("getitem",),
    "losses": ("cross_entropy",), "math": ("exp",), "matmul": ("linear",),
    "normalization": ("softmax", "layer_norm"), "norms": ("norm",),
    "power": ("power",),
    "reductions": ("sum", "argmax"), "shapes": ("astype", "transpose"),
}
#: Ops that are run in further dtypes: in all, or in those that a sum accumulates wider.
DTYPES = {"add": None, "sum": {"float16", "bfloat16", "int8", "uint32", "bool"}}
#: Ops that are differentiated in 16 bits too.
NARROW = {"swish", "linear"}

AnyCheck = Check | KernelCheck


def sample(device: str = "cpu") -> list[AnyCheck]:
    """List the checks of a self-test: of each family of ops, and of each kernel."""
    ops = [name for names in FAMILIES.values() for name in names]
    return [*(check for name in ops for check in _of_op(name)),
            *(kernel for kernel in KERNELS if device.startswith(kernel.devices))]


def _of_op(name: str) -> Iterator[Check]:
    """Choose values in two layouts, special ones, a gradient; for some, dtypes."""
    every = [check for check in checks([name]) if check.case == 0]
    values = [check for check in every if check.kind == "value"]
    first = values[0].dtype
    yield max((c for c in values if (c.dtype, c.layout) == (first, "contiguous")),
              key=lambda c: sum(map(prod, c.shapes)))
    yield from (c for c in values if c.layout == "strided")
    yield from {c.kind: c for c in reversed(every) if c.kind in ("special", "gradient")
                }.values()
    if name in DTYPES:
        among = DTYPES[name]
        yield from {c.dtype: c for c in values if c.dtype != first
                    and (among is None or c.dtype.name in among)}.values()
    if name in NARROW:
        yield from (c for c in every if c.kind == "low-gradient"
                    and c.dtype.itemsize == 2)


def main(ops: Sequence[str] = ()) -> int:
    """Run and print the self-test: a sample, or all checks of the ops named.

    Returns
    -------
    int
        The exit status: 1 if a check failed, or none was run.
    """
    ran = False
    failures: list[str] = []
    for name, found in backends().items():
        if not (found.enabled and found.devices):
            print(f"{name}: skipped, {found.why or 'not enabled'}")
            continue
        device = found.devices[0]
        wanted: Sequence[AnyCheck] = checks(ops) if ops else sample(device)
        start = time.perf_counter()
        failed = _failures(device, wanted)
        print(f"{device}: {len(wanted)} checks, {len(failed)} failed, "
              f"{time.perf_counter() - start:.1f} s", flush=True)
        ran = True
        failures += failed
    if failures:
        print(_advice(failures, ops))
    elif not ran:
        print("nothing was tested: no backend is enabled and has a device")
    return int(bool(failures) or not ran)


def _failures(device: str, wanted: Sequence[AnyCheck]) -> list[str]:
    """Run checks on a device; a line for each one that failed."""
    failed = []
    with progress(f"selftest {device}", len(wanted)) as advance:
        for check in wanted:
            try:
                check(device)
            except Exception as error:
                failed.append(f"{device}: {check}: {type(error).__name__}: {error}")
            advance(str(check))
    return failed


def _advice(failures: Sequence[str], ops: Sequence[str]) -> str:
    """Describe what failed, where, with which versions, and how to report it."""
    here = info()
    installed = ", ".join(f"{name} {version}" for name, version
                          in here["versions"].items() if version)
    command = shlex.join(["python", "-m", "nbfused", "selftest", *ops])
    return "\n".join([
        "", *failures, "",
        f"with {installed}", f"on {here['platform']}", "",
        "Results on a device named above may be wrong. What to do:",
        "1. See whether a damaged cache or a setting is the cause:",
        f"     NBFUSED_CACHE_DISABLE=1 {command}",
        "2. If it fails again, open an issue and attach what these print:",
        f"     {command}", "     python -m nbfused info"])

"""Running the workloads and printing what came out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..clock import Clock
from .libraries import Library
from .workloads import Workload

__all__ = ["Row", "ceilings", "measure", "text"]

_log = logging.getLogger(__name__)

#: Relative error, in the 2-norm, that an answer may have.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Row:
    """One line: seconds of every library, None where it cannot or failed the check.

    `ceiling` is the best rate of this run, in `unit` a second.
    """

    name: str
    dtype: str
    seconds: dict[str, float | None]
    work: float
    unit: str
    ceiling: float
    bar: float
    against: str

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest peer."""
        peers = {k: s for k, s in self.seconds.items() if k != "nbfused" and s}
        return min(peers.items(), key=lambda p: p[1]) if peers else None

    @property
    def share(self) -> float | None:
        """Of the ceiling."""
        ours = self.seconds.get("nbfused")
        return self.work/ours/self.ceiling if ours else None

    @property
    def ratio(self) -> float | None:
        """What the bar is for: the best peer's time over ours, or the share."""
        ours = self.seconds.get("nbfused")
        if self.against == "ceiling":
            return self.share
        return self.best[1]/ours if self.best and ours else None

    def record(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "best": self.best, "share": self.share,
                "ratio": self.ratio}


def measure(works: Sequence[Workload], libraries: Sequence[Library], clock: Clock,
            device: str) -> Iterator[Row]:
    """Check and time every library on every workload."""
    rates = ceilings(clock, device)
    for work in works:
        arrays = work.inputs(np.random.default_rng(0))
        expected = _expected(work, arrays, device)
        if expected is None:
            _log.warning("%s, %s: nothing to check it with", work.name, work.dtype)
            continue
        seconds = {lib.name: _seconds(lib, work, arrays, expected, clock, device)
                   for lib in libraries}
        ceiling = rates["B"] if work.unit == "B" else rates[work.dtype]
        yield Row(work.name, work.dtype, seconds, work.work, work.unit, ceiling,
                  work.bar, work.against)


def _expected(work: Workload, arrays: Sequence[np.ndarray],
              device: str) -> list[np.ndarray] | None:
    """In float64, by PyTorch or by NumPy; None where neither can.

    An optimizer changes its arguments and gives nothing.
    """
    if work.family == "adam_step":
        return []
    if find_spec("torch") is not None:
        from .of_torch import reference

        return reference(work.family, work.options, arrays, work.dtype, device,
                         work.both)
    from .of_arrays import families

    if work.both or work.dtype != "float32" or work.family not in families("numpy"):
        return None
    doubles = [a.astype(np.float64) for a in arrays]
    return [np.asarray(families("numpy")[work.family](*doubles, **work.options))]


def _seconds(library: Library, work: Workload, arrays: Sequence[np.ndarray],
             expected: Sequence[np.ndarray], clock: Clock,
             device: str) -> float | None:
    try:
        call = library.prepare(work, arrays, device)
        if call is None:
            return None
        found = library.results(call()) if expected else []
    except Exception as error:
        _log.warning("%s cannot do %s: %s", library.name, work.name, error)
        return None
    for k, (got, want) in enumerate(zip(found, expected, strict=True)):
        off = _error(got, want)
        if not off <= TOLERANCE[work.dtype]:
            _log.warning("%s, %s: result %d is off by %.1e", library.name, work.name, k,
                         off)
            return None
    return clock.seconds(call)


def _error(got: np.ndarray, want: np.ndarray) -> float:
    """Relative, in the 2-norm."""
    if got.shape != want.shape:
        return float("inf")
    scale = float(np.linalg.norm(want.ravel())) or 1.0
    return float(np.linalg.norm((got - want).ravel()))/scale


def ceilings(clock: Clock, device: str) -> dict[str, float]:
    """Bytes a second of a copy, FLOP a second of a product in each dtype."""
    rates = dict.fromkeys(("float32", "float16", "bfloat16"), float("nan"))
    if not device.startswith("cuda"):
        source, target = np.zeros(1 << 24, np.float32), np.zeros(1 << 24, np.float32)
        a = np.ones((1024, 1024), np.float32)
        return {**rates,
                "B": 8*source.size/clock.seconds(lambda: np.copyto(target, source)),
                "float32": 2.0*1024**3/clock.seconds(lambda: a @ a)}
    import torch

    x = torch.zeros(1 << 27, device=device)
    y = torch.empty_like(x)
    rates["B"] = 8*x.numel()/clock.seconds(lambda: y.copy_(x))
    for dtype in ("float32", "float16", "bfloat16"):
        b = torch.randn(8192, 8192, device=device).to(getattr(torch, dtype))
        rates[dtype] = 2.0*8192**3/clock.seconds(partial(torch.matmul, b, b))
    return rates


def text(rows: Sequence[Row]) -> str:
    """The table."""
    lines = [f"{'work':38} {'dtype':9} {'ours us':>10} {'best us':>10} {'peer':14} "
             f"{'ratio':>6} {'bar':>5} {'ceiling':>7}"]
    for r in rows:
        best = r.best
        lines.append(
            f"{r.name:38} {r.dtype:9} {_micro(r.seconds.get('nbfused'))} "
            f"{_micro(best[1] if best else None)} {best[0] if best else '-':14} "
            f"{_number(r.ratio, 6)} {r.bar:5.2f} {_number(r.share, 7)}"
            f"{'' if r.ratio is None or r.ratio >= r.bar else '  below'}")
    return "\n".join(lines)


def _micro(seconds: float | None) -> str:
    return f"{'-':>10}" if seconds is None else f"{seconds*1e6:10.1f}"


def _number(value: float | None, width: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:{width}.2f}"

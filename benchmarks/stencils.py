"""``python -m benchmarks.stencils``: programs of slices by nbfused and its peers.

A five-point stencil that writes the interior of a copy, one with periodic borders, a
wave of two states, a game of life and a step of lattice Boltzmann (nine velocities,
walls that reflect), forward and with the gradient of a weighted sum.  A way whose
results are not those of NumPy in float64 is not timed.  Each program is written once,
for modules that have NumPy's functions; only JAX and PyTorch store slices otherwise.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import nbfused as nf
from benchmarks.clock import clock

__all__ = ["PROGRAMS", "WAYS", "Program", "main", "measure"]

DX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
DY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = (4 / 9,) + (1 / 9,)*4 + (1 / 36,)*4
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
RELAXATION = 1.7
TURNS = 5


class Library(NamedTuple):
    """What programs need of a library besides operators and slices."""

    roll: Callable[[Any, tuple[int, ...], tuple[int, ...]], Any]
    where: Callable[[Any, Any, Any], Any]
    stack: Callable[[Sequence[Any]], Any]
    interior: Callable[[Any, Any], Any]


def five_point(library: Library, x: Any) -> Any:
    """Diffusion inside fixed borders."""
    c = x[1:-1, 1:-1]
    return library.interior(x, c + 0.1*(x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:]
                                        + x[1:-1, :-2] - 4*c))


def periodic(library: Library, x: Any) -> Any:
    """Diffusion on a torus, with a reaction."""
    around = sum(library.roll(x, (by,), (axis,)) for by in (1, -1) for axis in (0, 1))
    return x + 0.1*(around - 4*x) + 0.01*x*(1 - x*x)


def wave(library: Library, before: Any, now: Any) -> Any:
    """A wave on a string of many copies, its ends fixed."""
    c = now[1:-1, 1:-1]
    return library.interior(now, 2*c - before[1:-1, 1:-1] + 0.2*(
        now[1:-1, 2:] - 2*c + now[1:-1, :-2]))


def life(library: Library, x: Any) -> Any:
    """A game of life on a torus, of numbers 0 and 1."""
    around = sum(library.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1)
                 for j in (-1, 0, 1) if i or j)
    return library.where((around == 3) | ((x == 1) & (around == 2)), x*0 + 1, x*0)


def boltzmann(library: Library, f: Any, wall: Any) -> Any:
    """Populations stream to their cells and collide there; walls reflect them."""
    here = [library.roll(f[k], (DY[k], DX[k]), (0, 1)) for k in range(9)]
    density = sum(here[1:], here[0])
    u = (here[1] + here[5] + here[8] - here[3] - here[6] - here[7]) / density
    v = (here[2] + here[5] + here[6] - here[4] - here[7] - here[8]) / density
    still = 1 - 1.5*(u*u + v*v)
    after = []
    for k in range(9):
        along = 3*(DX[k]*u + DY[k]*v)
        rest = WEIGHTS[k]*density*(still + along + 0.5*along*along)
        after.append(library.where(wall > 0, here[OPPOSITE[k]],
                                   here[k] + RELAXATION*(rest - here[k])))
    return library.stack(after)


class Program(NamedTuple):
    """A program, the extents of its arrays, and whether it has a gradient."""

    name: str
    function: Callable[..., Any]
    extent: tuple[int, int]
    smooth: bool = True

    @functools.lru_cache(maxsize=1)  # noqa: B019 - programs are rows of a table
    def numbers(self) -> list[np.ndarray]:
        """Its arguments in float64, and the weights of the sum."""
        rng = np.random.default_rng(0)
        match self.function.__name__:
            case "boltzmann":
                f = np.stack([w*(1 + 0.1*rng.random(self.extent)) for w in WEIGHTS])
                wall = (rng.random(self.extent) < 0.05).astype(float)
                return [f, wall, rng.normal(size=f.shape)]
            case "life":
                given = [(rng.random(self.extent) < 0.4).astype(float)]
            case "wave":
                given = [rng.normal(size=self.extent) for _ in range(2)]
            case _:
                given = [rng.normal(size=self.extent)]
        return [*given, rng.normal(size=self.extent)]


def _programs(side: int, fluid: int) -> tuple[Program, ...]:
    return (Program("five-point stencil", five_point, (side, side)),
            Program("periodic stencil", periodic, (side, side)),
            Program("wave", wave, (side, side)),
            Program("game of life", life, (side, side), False),
            Program("lattice Boltzmann", boltzmann, (fluid, fluid)))


PROGRAMS = {"cuda": _programs(8192, 2048), "cpu": _programs(2048, 512)}

#: Runs a program; returns its result and, both ways, the gradient of its first array.
Run = Callable[[], Any]


def _in_place(x: Any, new: Any) -> Any:
    y = x.copy()
    y[1:-1, 1:-1] = new
    return y


NUMPY = Library(lambda x, by, axes: np.roll(x, by, axes), np.where, np.stack, _in_place)


def numpy_way(program: Program, device: str, both: bool) -> Run | None:
    """NumPy, as the program is written."""
    if both:
        return None
    arrays = [x.astype("float32") for x in program.numbers()[:-1]]
    return lambda: program.function(NUMPY, *arrays)


def fused(program: Program, device: str, both: bool) -> Run:
    """`nf.fuse` of what NumPy runs."""
    numbers = [x.astype("float32") for x in program.numbers()]
    if device != "cpu":
        numbers = [nf.array(x, device=device) for x in numbers]

    def run(*arrays: Any) -> Any:
        return program.function(NUMPY, *arrays)

    def pulled(weights: Any, first: Any, *others: Any) -> Any:
        made, pullback = nf.vjp(lambda x: run(x, *others), first)
        return made, pullback(weights)[0]

    if not both:
        forward = nf.fuse(run)
        return lambda: forward(*numbers[:-1])
    whole = nf.fuse(pulled)
    return lambda: whole(numbers[-1], *numbers[:-1])


def _torch(program: Program, device: str, both: bool, compiled: bool) -> Run:
    import torch

    def interior(x: Any, new: Any) -> Any:
        y = x.clone()
        y[1:-1, 1:-1] = new
        return y

    library = Library(torch.roll, torch.where, torch.stack, interior)
    *arrays, weights = [torch.tensor(x, dtype=torch.float32, device=device)
                        for x in program.numbers()]

    def forward(*arrays: Any) -> Any:
        return program.function(library, *arrays)

    if compiled:
        torch.compiler.reset()  # it gives up what it has compiled for eight programs
    call = torch.compile(forward) if compiled else forward
    if not both:
        return lambda: call(*arrays)
    first = arrays[0].requires_grad_()

    def run() -> Any:
        made = call(first, *arrays[1:])
        return made.detach(), torch.autograd.grad(made, first, weights)[0]

    return run


def torch_eager(program: Program, device: str, both: bool) -> Run:
    """PyTorch's kernels."""
    return _torch(program, device, both, False)


def torch_compiled(program: Program, device: str, both: bool) -> Run:
    """`torch.compile`."""
    return _torch(program, device, both, True)


def jax_jit(program: Program, device: str, both: bool) -> Run:
    """JAX, compiled."""
    import jax
    import jax.numpy as jnp

    where = jax.devices("cpu" if device == "cpu" else "gpu")[0]
    library = Library(jnp.roll, jnp.where, jnp.stack,
                      lambda x, new: x.at[1:-1, 1:-1].set(new))
    *arrays, weights = [jax.device_put(jnp.asarray(x, "float32"), where)
                        for x in program.numbers()]

    def forward(*arrays: Any) -> Any:
        return program.function(library, *arrays)

    def pulled(weights: Any, first: Any, *others: Any) -> Any:
        made, pullback = jax.vjp(lambda x: forward(x, *others), first)
        return made, pullback(weights)[0]

    call = jax.jit(pulled if both else forward)
    given = [weights, *arrays] if both else arrays

    def run() -> Any:
        return jax.block_until_ready(call(*given))

    return run


#: Name → what makes the run, and where it can be made.
WAYS: dict[str, tuple[Callable[[Program, str, bool], Run | None], str]] = {
    "nbfused": (fused, "cpu cuda"), "torch": (torch_eager, "cpu cuda"),
    "torch.compile": (torch_compiled, "cpu cuda"), "jax": (jax_jit, "cpu cuda"),
    "numpy": (numpy_way, "cpu"),
}


def _arrays(made: Any) -> list[np.ndarray]:
    found = made if isinstance(made, tuple) else (made,)
    return [np.asarray(x.cpu() if hasattr(x, "cpu") else x if hasattr(
        x, "block_until_ready") else nf.to_numpy(x), np.float64) for x in found]


class Expected:
    """NumPy's result in float64, and the slope of the weighted sum along a direction.

    Made once for all ways: at 67 million cells it takes longer than their runs.
    """

    def __init__(self, program: Program, both: bool) -> None:
        *arrays, weights = program.numbers()
        self.value = program.function(NUMPY, *arrays)
        if both:
            first, *others = arrays
            self.direction = np.random.default_rng(1).normal(size=first.shape)
            above, below = (program.function(NUMPY, first + e*self.direction, *others)
                            for e in (1e-5, -1e-5))
            self.slope = ((above - below)*weights).sum() / 2e-5

    def is_met(self, made: Any) -> bool:
        """Whether a way's result is NumPy's, and its gradient has the slope."""
        value, *gradients = _arrays(made)
        right = np.allclose(value, self.value, rtol=1e-4, atol=1e-5)
        for gradient in gradients:
            along = gradient*self.direction
            right &= bool(abs(along.sum() - self.slope) < 1e-5*np.abs(along).sum())
        return bool(right)


def _ways(program: Program, device: str, both: bool,
          wanted: Sequence[str]) -> Iterator[tuple[str, Run]]:
    """The ways that are there and right."""
    expected = Expected(program, both)
    for name in wanted:
        make, where = WAYS[name]
        if device not in where.split():
            continue
        try:
            run = make(program, device, both)
            made = run and [run() for _ in range(3)][-1]
        except ImportError as error:
            print(f"  {name}: not there ({error})")
            continue
        if run is None:
            continue
        if expected.is_met(made):
            yield name, run
        else:
            print(f"  {name}: WRONG")


def measure(program: Program, device: str, both: bool,
            wanted: Sequence[str] = tuple(WAYS)) -> dict[str, float]:
    """Microseconds a run, by way: the median of turns."""
    runs = dict(_ways(program, device, both, wanted))
    timer = clock(device)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(TURNS):
        for name, run in runs.items():
            times[name] += timer.samples(run, 1 / TURNS, own_streams=name == "jax")
    return {name: statistics.median(found)*1e6 for name, found in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stencils",
                                     description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--only", default="", help="programs with this in their names")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(argv)
    found = {}
    for program in PROGRAMS[given.device]:
        for both in (False, True)[:1 + program.smooth]:
            name = f"{program.name} {program.extent}{', both ways'*both}"
            if given.only not in name:
                continue
            print(name)
            times = found[name] = measure(program, given.device, both, given.ways)
            for way, value in sorted(times.items(), key=lambda item: item[1]):
                print(f"  {way:16} {value:10.1f} us   nbfused is "
                      f"{value / times.get('nbfused', value):5.2f} x as fast")
    if given.json:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

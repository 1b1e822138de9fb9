"""``python -m nbfused demo``: a network of fused ops learns handwritten digits.

========= ====================================================================
`compare` comparison of fused ops with unfused NumPy: time and error
`digits`  handwritten digits from scikit-learn, split for training and testing
`network` the demo's network and optimiser, made of fused ops only
`picture` the demo's figure: learning curves, and speed-ups by fusion
`train`   the training loop: cosine learning rate, noise on the pictures
`unfused` the ops of the demo in plain, unfused NumPy
========= ====================================================================
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import nbfused as nf

from ..support.progress import progress

if TYPE_CHECKING:
    from rich.console import Console

    from .compare import Timing
    from .train import History

__all__ = ["choose_device", "main"]

PICTURE = "nbfused-demo.png"
NEEDED = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "rich": "rich"}


def choose_device(wanted: str) -> str:
    """The device `wanted`; ``"auto"`` picks a GPU if there is one."""
    if wanted != "auto":
        return wanted
    enabled = [info for info in nf.backends().values() if info.enabled]
    devices = [device for info in enabled for device in info.devices]
    return next((device for device in devices if device != "cpu"), "cpu")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv
        Command-line arguments; those of the process where it is None.

    Returns
    -------
    int
        0, or 2 where a package is missing.
    """
    arguments = parser().parse_args(argv)
    missing = [name for module, name in NEEDED.items() if find_spec(module) is None]
    if missing:
        print(
            f"the demo needs {', '.join(missing)}, not installed here: "
            "pip install 'nbfused[demo]'"
        )
        return 2
    show(arguments)
    return 0


def parser() -> argparse.ArgumentParser:
    """Make the command-line parser of the demo."""
    result = argparse.ArgumentParser(
        prog="python -m nbfused demo",
        description="A network of fused ops learns handwritten digits.",
    )
    result.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 …")
    result.add_argument(
        "--epochs", type=_count, default=30, help="passes over the digits"
    )
    result.add_argument(
        "--seed", type=int, default=0, help="of the split, the weights, the batches"
    )
    result.add_argument(
        "--out", type=Path, default=Path(), help="folder of the picture"
    )
    result.add_argument(
        "--quick", action="store_true", help="few digits, small arrays: a look only"
    )
    return result


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text!r}")
    return int(text)


def show(arguments: argparse.Namespace) -> None:
    """Train, compare, print and draw the results."""
    from rich.console import Console

    from .picture import draw

    console = Console()
    device = choose_device(arguments.device)
    console.print(f"nbfused {nf.__version__} on [bold]{device}[/]")
    history = learn(console, arguments, device)
    console.print(
        f"held-out accuracy [bold]{history.accuracy[-1]:.2%}[/] "
        f"after {len(history.accuracy)} epochs in {history.seconds:.1f} s"
    )
    timings = measure(console, arguments, device)
    picture = arguments.out / PICTURE
    draw(picture, history, timings, device)
    console.print(f"picture: {picture.resolve()}", soft_wrap=True)


def learn(console: Console, arguments: argparse.Namespace, device: str) -> History:
    """Train with a progress bar."""
    from .digits import load
    from .train import train

    data = load(arguments.seed, 600 if arguments.quick else None)
    with progress("training", arguments.epochs, console.file) as advance:

        def after_epoch(history: History) -> None:
            loss, accuracy = history.loss[-1], history.accuracy[-1]
            advance(f"loss {loss:.3f}  held-out accuracy {accuracy:.1%}")

        return train(
            data,
            epochs=arguments.epochs,
            seed=arguments.seed,
            device=device,
            after_epoch=after_epoch,
        )


def measure(
    console: Console, arguments: argparse.Namespace, device: str
) -> list[Timing]:
    """Time all cases and print the table."""
    from rich.table import Table

    from .compare import cases, compare

    rows, columns, seconds = (64, 96, 0.0) if arguments.quick else (4096, 1024, 0.5)
    table = Table(
        "op", "nbfused", "NumPy", "faster", "error",
        title=f"fused on {device} against unfused NumPy, {rows} × {columns} float32",
        caption="best times in ms; error against float64, over the largest value",
    )
    for column in table.columns[1:]:
        column.justify = "right"
    timings = []
    with console.status("measuring"):
        for case in cases(rows, columns):
            timing = compare(case, device, seconds)
            timings.append(timing)
            table.add_row(
                timing.name,
                f"{timing.fused * 1e3:.3f}",
                f"{timing.unfused * 1e3:.3f}",
                f"{timing.speedup:.1f}×",
                f"{timing.error:.0e}",
            )
    console.print(table)
    return timings

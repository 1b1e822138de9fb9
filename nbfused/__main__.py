"""``python -m nbfused``: report, self-test, cache, kernels and demo commands."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import cache
from .errors import NbFusedError
from .registry.report import as_text, info, readable_size

__all__ = ["info", "main"]

def _run_info(arguments: argparse.Namespace) -> int:
    gathered = info()
    print(json.dumps(gathered, indent=2) if arguments.json else as_text(gathered))
    return 0


def _run_cache(arguments: argparse.Namespace) -> int:
    if arguments.action == "clear":
        print(f"removed {cache.clear()} kernels from {cache.folder()}")
    else:
        stored = cache.stats()
        print(f"{stored.entries} kernels, {readable_size(stored.bytes)} in "
              f"{stored.folder}")
    return 0


def _run_selftest(arguments: argparse.Namespace) -> int:
    from .testing.selftest import main as selftest

    return selftest(arguments.ops)


def _run_rocm_build(arguments: argparse.Namespace) -> int:
    from .testing.ahead import build

    return build(arguments.arch, arguments.dtypes, arguments.ops, arguments.output,
                 arguments.jobs, arguments.check)


def _run_rocm_report(arguments: argparse.Namespace) -> int:
    from .testing.ahead import report

    return report(arguments.libraries, arguments.check)


def _run_autotune(arguments: argparse.Namespace) -> int:
    from .cuda.tuning import choices

    if arguments.action == "clear":
        print(f"removed {choices.clear()} choices from {choices.folder()}")
    elif arguments.action == "export":
        written = choices.export(arguments.to or choices.SHIPPED)
        print("\n".join(map(str, written)) or "nothing was measured with these kernels")
    else:
        files = [*choices.shipped_files(), *choices.kept_files()]
        for path in files:
            print(path, *choices.as_text(path), sep="\n  ")
        if not files:
            print(f"no choices: none came with nbfused, none are in {choices.folder()}")
    return 0


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text!r}")
    return int(text)


def _add_rocm(commands: Any) -> None:
    rocm = commands.add_parser("rocm", help="kernels for AMD devices, built ahead")
    actions = rocm.add_subparsers(dest="action", required=True)
    build = actions.add_parser("build", help="build the kernels of the built-in ops")
    build.add_argument("--arch", type=_words, help="such as gfx90a,gfx1030; by default "
                       "NBFUSED_ROCM_ARCH, or the device's")
    build.add_argument("--dtypes", type=_words, help="such as float32,float16, or all; "
                       "by default what the conformance suite samples")
    build.add_argument("--ops", type=_words, help="names; by default all")
    build.add_argument("--output", help="folder, later NBFUSED_CACHE_DIR; by default "
                       "the cache's")
    build.add_argument("--jobs", type=_count, help="compilers at a time")
    build.add_argument("--check", action="store_true", help="fail where registers "
                       "spill")
    build.set_defaults(run=_run_rocm_build)
    report = actions.add_parser("report", help="registers, memory, spills")
    report.add_argument("libraries", nargs="*", help="files; by default all cached")
    report.add_argument("--check", action="store_true", help="fail where registers "
                        "spill")
    report.set_defaults(run=_run_rocm_report)


def _add_autotune(commands: Any) -> None:
    tuned = commands.add_parser("autotune", help="choices among kernels, as measured "
                                "under NBFUSED_AUTOTUNE=1")
    actions = tuned.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="those that came with nbfused, then those kept")
    actions.add_parser("clear", help="forget those kept")
    export = actions.add_parser("export", help="write those kept as they are shipped")
    export.add_argument("to", nargs="?", type=Path, help="folder; by default where "
                        "nbfused looks for those that came with it")
    for parser in actions.choices.values():
        parser.set_defaults(run=_run_autotune)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nbfused", description="Fused, differentiable array kernels: "
        "what is installed, a test, the cache, kernels, the demo.")
    commands = parser.add_subparsers(dest="command")
    report = commands.add_parser("info", help="versions, backends, devices, cache")
    report.add_argument("--json", action="store_true", help="for programs")
    report.set_defaults(run=_run_info)
    check = commands.add_parser("selftest", help="run ops and kernels of every kind on "
                                "every backend and compare them with NumPy")
    check.add_argument("ops", nargs="*", help="names of ops, for all of their checks; "
                       "by default a sample that takes less than a minute")
    check.set_defaults(run=_run_selftest)
    stored = commands.add_parser("cache", help="the compiled kernels on disk")
    stored.add_argument("action", choices=("stats", "clear"))
    stored.set_defaults(run=_run_cache)
    _add_autotune(commands)
    _add_rocm(commands)
    commands.add_parser("demo", help="train a network on handwritten digits",
                        add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; ``info`` if none is given.

    Returns
    -------
    int
        The exit status.
    """
    words = list(sys.argv[1:] if argv is None else argv) or ["info"]
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read has what it wanted, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


def _run(words: list[str]) -> int:
    try:
        if words[0] == "demo":
            from .demo import main as demo  # has requirements and options of its own

            return demo(words[1:])
        arguments = _parser().parse_args(words)
        run: Callable[[argparse.Namespace], int] = arguments.run
        return run(arguments)
    except NbFusedError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

"""Choices among kernels on disk: a JSON file for each model of GPU.

Two places hold them.  The cache folder has what was measured here, in a file for the
model, the major version of CUDA that the driver speaks and the kernels' own sources:
after a change of any of these nothing old counts.  ``nbfused/cuda/tuned`` has what was
measured before and came with the package, in a file for the model.  The first wins.

A file decides only which of several right kernels runs: the text in it is compared
with the candidates, never run.  One that is damaged, or for another model, is passed
over and logged.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import nbfused.cache as cache

from ...cache.files import locked
from ...cache.files import read as read_file
from ...cache.files import replace as replace_file
from ...config import config, logger
from ...errors import SettingError
from ...support.records import record

__all__ = ["SHIPPED", "Choice", "Measured", "Table", "as_text", "clear", "export",
           "folder", "kept_files", "read", "shipped_files", "table"]

_log = logger("autotune")
_lock = threading.Lock()
_NO_NAME = re.compile(r"[^\w-]+")

FORMAT = 2
SHIPPED = Path(__file__).parents[1] / "tuned"


@record(frozen=True)
class Choice:
    """The times measured for one kernel and one key, and the winner.

    Attributes
    ----------
    choice
        The text of the candidate that is used.
    microseconds
        For the text of each candidate its time; the rules' choice comes first.
    """

    choice: str
    microseconds: Mapping[str, float]


#: Under (kernel, key).
Choices = dict[tuple[str, str], Choice]


@record(frozen=True)
class Measured:
    """The contents of a file: choices for one model of GPU."""

    gpu: str
    choices: Choices


def folder() -> Path:
    """The folder of the choices that were measured here."""
    return cache.folder() / "tuned"


def kept_files() -> list[Path]:
    """The files of every model and version that was measured here."""
    return sorted(folder() / name for name in _names(folder())
                  if name.endswith(".json"))


def shipped_files() -> list[Path]:
    """The files that came with the package."""
    return sorted(SHIPPED.glob("*.json"))


def clear() -> int:
    """Forget what was measured here; how many choices that were."""
    count = 0
    for path in kept_files():
        found = read(path)
        count += len(found.choices) if found else 0
        with suppress(OSError):
            path.unlink()
    with _lock:
        _tables.clear()
    return count


def export(to: Path) -> list[Path]:
    """Add what was measured here, with these kernels, to files as they are shipped.

    Parameters
    ----------
    to
        A folder: `SHIPPED`, for a package that is about to be built.

    Returns
    -------
    list of Path
        The files that were written, one for each model.

    Raises
    ------
    SettingError
        There is no writing there.
    """
    written = []
    for path in kept_files():
        found = read(path)
        if found is None or path.suffixes[-2:-1] != [f".{_kernels()}"]:
            continue
        target = to / f"{_file_name(found.gpu)}.json"
        before = _choices_of(target, found.gpu)
        try:
            to.mkdir(parents=True, exist_ok=True)
            _write(target, Measured(found.gpu, {**before, **found.choices}))
        except OSError as error:
            raise SettingError(f"choices cannot be exported to {to}: {error}; name a "
                               "folder that can be written to") from error
        written.append(target)
    return written


def as_text(path: Path) -> list[str]:
    """The choices in a file for people: what is used, and the rule's time beside."""
    found = read(path)
    lines = []
    for (kernel, key), choice in found.choices.items() if found else ():
        times = choice.microseconds
        rule = next(iter(times))
        lines.append(f"{kernel} {key}: {choice.choice}, {times[choice.choice]:.1f} us"
                     f" (by rule {times[rule]:.1f})")
    return lines


def _file_name(model: str) -> str:
    """The name of a model's file without its ending: ``NVIDIA_H200``."""
    return _NO_NAME.sub("_", model)


@lru_cache(maxsize=1)
def _kernels() -> str:
    """A digest of the sources that kernels come from."""
    total, package = hashlib.sha256(), Path(__file__).parents[2]
    for part in ("cuda", "gpu"):
        for path in sorted((package / part).rglob("*.py")):
            total.update(path.read_bytes())
    return total.hexdigest()[:12]


def read(path: Path) -> Measured | None:
    """Read a file; None if it is absent, or damaged, which is logged."""
    try:
        kept = path.parent == folder()
        text = (read_file(path) if kept else path.read_bytes()).decode()
        import json  # only now: importing it takes time, and mostly there is no file

        content = json.loads(text)
        if content["format"] != FORMAT:
            raise ValueError(f"format {content['format']!r}, not {FORMAT}")
        if content["file"] != path.name:
            raise ValueError(f"it was {content['file']!r}")
        return Measured(str(content["gpu"]), {
            (kernel, key): _choice(record)
            for kernel, keys in content["choices"].items()
            for key, record in keys.items()})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("%s is passed over: %s: %s", path, type(error).__name__, error)
        return None


def _choice(record: Any) -> Choice:
    times = {text: float(time) for text, time in record["microseconds"].items()}
    if record["choice"] not in times:
        raise ValueError(f"no time for {record['choice']!r}")
    return Choice(record["choice"], times)


def _choices_of(path: Path, model: str) -> Choices:
    """Read the choices for `model`; a copy under another's name does not count."""
    found = read(path)
    if found is None:
        return {}
    if found.gpu != model:
        _log.warning("%s is passed over: it is for %r, not %r", path, found.gpu, model)
        return {}
    return found.choices


def _write(path: Path, measured: Measured) -> None:
    """Replace a file, at once for whoever reads it."""
    import json

    nested: dict[str, dict[str, Any]] = {}
    for (kernel, key), found in sorted(measured.choices.items()):
        nested.setdefault(kernel, {})[key] = {
            "choice": found.choice,
            "microseconds": {t: round(us, 3) for t, us in found.microseconds.items()}}
    text = json.dumps({"format": FORMAT, "file": path.name, "gpu": measured.gpu,
                       "choices": nested}, indent=1)
    replace_file(path, f"{text}\n".encode(), 0o644)


class Table:
    """The choices for one model, as this process knows them.

    Parameters
    ----------
    model
        The device's name.
    cuda
        Major version of CUDA that the driver speaks.
    where
        Folder for what is measured; None: nothing is kept.
    """

    def __init__(self, model: str, cuda: int, where: Path | None) -> None:
        self._model, self._where = model, where
        self._begin = f"{_file_name(model)}.cuda{cuda}."
        self._shipped = _choices_of(SHIPPED / f"{_file_name(model)}.json", model)
        self._kept: Choices = {}
        self.refresh()

    @property
    def _path(self) -> Path | None:
        """The file of what is measured."""
        if self._where is None:
            return None
        return self._where / f"{self._begin}{_kernels()}.json"

    def find(self, kernel: str, key: str) -> str | None:
        """The text of the choice, if there is one."""
        found = self._kept.get((kernel, key)) or self._shipped.get((kernel, key))
        return None if found is None else found.choice

    def refresh(self) -> None:
        """Read what other processes have kept since."""
        # Most users have measured nothing: then the kernels' sources need no digest.
        if any(name.startswith(self._begin) and name.endswith(".json")
               for name in _names(self._where)) and self._path:
            self._kept = {**self._kept, **_choices_of(self._path, self._model)}

    def keep(self, kernel: str, key: str, choice: Choice) -> None:
        """Remember, here and on disk; a folder that refuses is logged, no more."""
        self._kept = {**self._kept, (kernel, key): choice}
        path = self._path
        if path is None:
            return
        try:
            with locked(path.with_suffix(".lock")):
                found = _choices_of(path, self._model)
                self._kept = {**self._kept, **found, (kernel, key): choice}
                _write(path, Measured(self._model, self._kept))
        except OSError as error:
            _log.warning("cannot keep choices in %s: %s", path, error)


def _names(where: Path | None) -> list[str]:
    """The names of the files in a folder, if there is one."""
    try:
        return os.listdir(where) if where else []
    except OSError:
        return []


_tables: dict[tuple[str, int, Path | None], Table] = {}


def table(model: str, cuda: int) -> Table:
    """The choices for a model under a driver of this CUDA version."""
    where = None if config.cache_disable else folder()
    with _lock:
        found = _tables.get((model, cuda, where))
        if found is None:
            found = _tables[model, cuda, where] = Table(model, cuda, where)
        return found

"""The reference has every public name of every public module, once."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nbfused as nf
from nbfused.scalar.language.vocabulary import OPS
from tests.test_architecture import PROMISED

ROOT = Path(nf.__file__).parents[1]
PAGES = sorted((ROOT / "docs/reference").rglob("*.md"))
LIST = re.compile(r"^```\{reference\} (\S+)\n(.*?)^```$", re.M | re.S)
#: Modules whose ``__all__`` is public. `nbfused.public` has names of nbfused itself.
PUBLIC = sorted({"nbfused", "nbfused.public", "nbfused.autograd", "nbfused.config",
                 "nbfused.cuda", "nbfused.distributed", "nbfused.kernels", "nbfused.op",
                 "nbfused.ops", "nbfused.rocm", *PROMISED})
#: Classes that users do not name, but have objects of.
RETURNED = {("nbfused.kernels.fusing.fuse", "Fused"),
            ("nbfused.kernels.threads.rawkernel", "ThreadKernel")}

pytestmark = pytest.mark.skipif(not PAGES, reason="the documents are not installed")


def listed() -> list[tuple[str, str]]:
    """The module and the name of each entry of the reference."""
    return [(module, re.split(r"[(:]", line)[0].strip())
            for page in PAGES for module, lines in LIST.findall(page.read_text())
            for line in lines.splitlines() if line.strip()]


def in_the_table() -> set[str]:
    """The functions of the scalar language, if a page has their table."""
    shown = any("```{builtins}\n" in page.read_text() for page in PAGES)
    return {op.name for op in OPS.values() if op.python == f"nf.{op.name}"} & (
        {*OPS} if shown else set())


def identity(found: Any) -> Any:
    """What tells an object from others; numbers and texts may be anywhere."""
    return found if isinstance(found, (int, str)) else id(found)


def resolve(module: str, name: str) -> Any:
    """The object of an entry, or None."""
    try:
        return attrgetter(name)(import_module(module))
    except AttributeError:  # for the test of entries to name
        return None


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module):
    """Under this module, or under another one that has the same object."""
    shown = {identity(resolve(m, name)) for m, name in listed()}
    shown |= {id(OPS[name]) for name in in_the_table()}
    heads = {(m, name.partition(".")[0]) for m, name in listed()}
    found = import_module(module)
    assert not [name for name in found.__all__
                if identity(getattr(found, name)) not in shown
                and (module.removesuffix(".public"), name) not in heads
                and not isinstance(getattr(found, name), ModuleType)]


def test_modules_of_the_package_have_entries_of_their_own():
    """Such as ``nf.ops`` and ``nf.testing``: their names are listed."""
    modules = {f"nbfused.{name}" for name in nf.__all__
               if isinstance(getattr(nf, name), ModuleType)}
    assert modules
    assert modules <= {module for module, _ in listed()}


def test_entries_of_the_reference_are_public_names():
    assert not [f"{module}.{name}" for module, name in {*listed()} - RETURNED
                if module not in PUBLIC or name.partition(".")[0] not in {
                    *import_module(module).__all__,
                    *(nf.public.__all__ if module == "nbfused" else ())}
                or resolve(module, name) is None]


def test_no_entry_is_there_twice():
    assert not [name for name, count in Counter(listed()).items() if count > 1]

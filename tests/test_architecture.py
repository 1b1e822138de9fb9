"""The house as its documents describe it: files that exist, maps that are complete."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import nbfused

ROOT = Path(nbfused.__file__).parents[1]
PACKAGES = sorted(p.parent for p in (ROOT / "nbfused").rglob("__init__.py"))
DOCUMENTS = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md",
                               *sorted((ROOT / "docs").rglob("*.md"))) if path.exists()]
#: Folders that may hold more than `MOST` modules: each module is a family of ops.
LARGE = {"ops"}
MOST = 15
#: What measuring kernels makes.
MADE = {"nbfused/cuda/tuned"}


def modules(package: Path) -> list[str]:
    """Names of the modules and packages that a package holds."""
    inside = [p.stem for p in package.glob("*.py")]
    inside += [p.parent.name for p in package.glob("*/__init__.py")]
    return sorted(name for name in inside if not name.startswith("__"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_a_document_names_exist(path):
    named = set(re.findall(r"(?:nbfused|tests|benchmarks)/[\w/.]*\w", path.read_text()))
    assert not [name for name in named - MADE if not (ROOT / name).exists()]


def test_every_package_has_its_place_in_the_picture():
    if not (path := ROOT / "docs/architecture.md").exists():
        pytest.skip("the documents are not installed")
    shown = set(re.findall(r"`nbfused/(\w+)`", path.read_text()))
    assert shown == {p.name for p in PACKAGES if p.parent.name == "nbfused"}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_packages_are_small(package):
    assert len(list(package.glob("*.py"))) - 1 <= MOST or package.name in LARGE


@pytest.mark.parametrize("package", [p for p in PACKAGES[1:] if len(modules(p)) > 2],
                         ids=lambda p: str(p.relative_to(ROOT)))
def test_the_docstring_of_a_package_is_its_map(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    named = {word for words in re.findall(r"`([^`]+)`", text.replace("``", ""))
             for word in re.findall(r"\w+\*?", words)}
    starts = tuple(word[:-1] for word in named if word.endswith("*"))
    missing = [name for name in modules(package) if name not in named and not (
        starts and name.startswith(starts))]
    assert not missing


#: What plugins may import, by the names that have been given out.
PROMISED = {
    "nbfused.backend": "PROTOCOL_VERSION Backend Call Extents Launcher Native "
                       "NativeBackend NativeKernel NativeModule Signature Start "
                       "builder",
    "nbfused.arrays": "NUMPY Array DeviceArray Library byte_range describe dtype_of "
                      "host_view is_array library_of may_overlap to_numpy",
    "nbfused.specs": "COMBINES Combine Contract Map Out Raw Reduce Row Spec Stage "
                     "TypedContract TypedMap TypedRaw TypedReduce TypedRow View",
    "nbfused.cpu": "CpuBackend",
    "nbfused.errors": "DeviceError KernelTypeError NbFusedError ShapeError",
    "nbfused.cache": "clear digest get put stats",
    "nbfused.testing": "assert_matches_reference check_backward checks gradcheck",
}


@pytest.mark.parametrize("module", PROMISED)
def test_plugins_find_what_they_import(module):
    found = importlib.import_module(module)
    assert not [n for n in PROMISED[module].split() if not hasattr(found, n)]

"""Facts about the package that several files state: they are the same in all."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import nbfused as nf

ROOT = Path(nf.__file__).parents[1]
if not (ROOT / "pyproject.toml").exists():
    pytest.skip("an installed package has none of these files", allow_module_level=True)

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]


def text(path):
    if not (ROOT / path).exists():
        pytest.skip(f"{path} is not in an sdist")
    return (ROOT / path).read_text()


def listed(recipe, section):
    """Requirements below ``section:`` as ``name>=version``."""
    block = re.search(rf"^  {section}:\n((?:    - .*\n)+)", recipe, re.MULTILINE)
    assert block is not None
    return [line.strip(" -").replace(" ", "") for line in block[1].splitlines()]


def minimum():
    return PROJECT["requires-python"].removeprefix(">=")


def test_the_recipe_requires_what_the_project_does():
    recipe = text("conda/meta.yaml")
    assert re.search(r'version = "(.*)"', recipe)[1] == nf.__version__
    assert re.search(r'python_min = "(.*)"', recipe)[1] == minimum()
    assert listed(recipe, "run") == [
        "python>={{python_min}}", *PROJECT["dependencies"]]
    assert set(PYPROJECT["build-system"]["requires"]) < set(listed(recipe, "host"))
    for field in ("description", "license"):
        assert PROJECT[field] in recipe
    (name, entry), = PROJECT["scripts"].items()
    assert f"- {name} = {entry}\n" in recipe


def test_the_citation_is_of_this_version():
    citation = text("CITATION.cff")
    assert f"\nversion: {nf.__version__}\n" in citation
    assert f"\nlicense: {PROJECT['license']}\n" in citation
    assert PROJECT["authors"][0]["name"] in citation


@pytest.mark.parametrize("workflow", ["test", "release"])
def test_each_python_that_is_named_is_tested(workflow):
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", text(f".github/workflows/{workflow}.yml"))
    assert re.findall(r'"(.*?)"', matrix[1]) == named
    assert named[0] == minimum()


def test_the_release_is_attested_and_has_no_secret():
    release = text(".github/workflows/release.yml")
    assert "secrets." not in release
    for step in ("id-token: write", "attest-build-provenance", "attest-sbom",
                 "cyclonedx"):
        assert step in release

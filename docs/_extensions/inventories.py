"""Inventories of other projects, written from lists kept in the repository.

Sphinx reads what it may link to from an ``objects.inv`` of the other site.  Ours are
made of the lists in ``docs/inventories``, so that no build asks another host.
"""

from __future__ import annotations

import zlib
from pathlib import Path

__all__ = ["entries", "mapping", "write"]

HEADER = """# Sphinx inventory version 2
# Project: {project}
# Version: {version}
# The remainder of this file is compressed using zlib.
"""


def entries(source: Path) -> tuple[dict[str, str], list[str]]:
    """The heading's fields and the lines of a list: ``name role address``.

    The name may stand in the address as ``$``.
    """
    fields: dict[str, str] = {}
    lines: list[str] = []
    for line in source.read_text().splitlines():
        key, _, value = line.removeprefix("# ").partition(": ")
        if line.startswith("#"):
            fields[key] = value
        elif line:
            name, role, address = line.split()
            lines.append(f"{name} {role} 1 {address.replace('$', name)} -")
    return fields, lines


def write(source: Path, target: Path) -> str:
    """Write the inventory of a list, and return the site's address."""
    fields, lines = entries(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    body = zlib.compress("".join(f"{line}\n" for line in lines).encode(), 9)
    target.write_bytes(HEADER.format(**fields).encode() + body)
    return fields["address"]


def mapping(folder: Path, build: Path) -> dict[str, tuple[str, str]]:
    """`intersphinx_mapping` of the lists in a folder; their inventories are built."""
    found = {}
    for source in sorted(folder.glob("*.txt")):
        target = build / "inventories" / f"{source.stem}.inv"
        found[source.stem] = (write(source, target), str(target))
    return found

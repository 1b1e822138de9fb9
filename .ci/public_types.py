"""Check the completeness of the public API's types with pyright: ``make types``.

Every name that users import (of `PUBLIC`) must have a known type, with all that it
refers to. The share of known types in all modules may not fall below `SHARE`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

PUBLIC = re.compile(
    r"nbfused\.(\w+|(arrays|backend|cache|errors|ops|specs|testing)\.\w+)")
#: Of all names in all modules, most of which are internal.
SHARE = 0.88


def main() -> int:
    """Run pyright, and print what is unknown."""
    run = subprocess.run(
        ["pyright", "--verifytypes", "nbfused", "--ignoreexternal", "--outputjson"],
        stdout=subprocess.PIPE, text=True, check=False)
    report = json.loads(run.stdout)["typeCompleteness"]
    symbols = [s for s in report["symbols"] if PUBLIC.fullmatch(s["name"])]
    unknown = [s["name"] for s in symbols if not s["isTypeKnown"]]
    share = report["completenessScore"]
    print(f"{len(symbols) - len(unknown)} of {len(symbols)} public names have known "
          f"types; of all names in all modules {share:.1%}")
    print(*unknown, sep="\n", end="\n" if unknown else "")
    if share < SHARE:
        print(f"below {SHARE:.1%}: annotate what is new; pyright --verifytypes nbfused "
              "--ignoreexternal lists it")
    return int(bool(unknown) or not symbols or share < SHARE)


if __name__ == "__main__":
    sys.exit(main())

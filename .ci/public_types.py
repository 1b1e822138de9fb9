"""Check the completeness of the public API's types with pyright: ``make types``.

Every name that users import must have a known type, with all that it refers to: those
of nbfused itself and of its modules `PUBLIC`.  The share of known types in all modules
may not fall below `SHARE`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

PUBLIC = ("arrays", "autograd", "backend", "cache", "config", "cpu", "cuda", "errors",
          "op", "ops", "rocm", "specs", "testing")
NAME = re.compile(rf"nbfused\.(\w+|({'|'.join(PUBLIC)})\.\w+)")
#: Of all names in all modules, most of which are internal.
SHARE = 0.88


def main() -> int:
    """Run pyright, and print what is unknown."""
    run = subprocess.run(
        ["pyright", "--verifytypes", "nbfused", "--ignoreexternal", "--outputjson"],
        stdout=subprocess.PIPE, text=True, check=False)
    report = json.loads(run.stdout)["typeCompleteness"]
    symbols = [s for s in report["symbols"] if NAME.fullmatch(s["name"])]
    unknown = [s["name"] for s in symbols if not s["isTypeKnown"]]
    share = report["completenessScore"]
    print(f"{len(symbols) - len(unknown)} of {len(symbols)} public names have known "
          f"types (of nbfused and of its {', '.join(PUBLIC)}); of all names in all "
          f"modules, internal ones too, {share:.1%}")
    print(*unknown, sep="\n", end="\n" if unknown else "")
    if share < SHARE:
        print(f"below {SHARE:.1%}: annotate what is new; pyright --verifytypes nbfused "
              "--ignoreexternal lists it")
    return int(bool(unknown) or not symbols or share < SHARE)


if __name__ == "__main__":
    sys.exit(main())

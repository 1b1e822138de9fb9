"""What launchers remember: of so many keys at most, and kernels written once."""

from __future__ import annotations

import pytest

from nbfused.cuda.runtime.compile import Kernel
from nbfused.cuda.runtime.launch import Program
from nbfused.cuda.tuning.bounded_cache import BoundedCache
from nbfused.gpu.programs import Programs


def test_what_is_made_once():
    made = []
    known = BoundedCache()
    for _ in range(2):
        assert known.find("a", lambda: made.append(1)) is None  # None is a value
    assert made == [1]


def test_all_is_forgotten_before_there_is_too_much():
    known = BoundedCache(2)
    for key in "abcb":
        assert known.find(key, lambda key=key: key*2) == key*2
    assert known == {"c": "cc", "b": "bb"}


def test_what_cannot_be_made_is_not_kept():
    known = BoundedCache()

    def refuse():
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            known.find("a", refuse)
    assert not known


def test_kernels_are_written_when_they_are_asked_for():
    written = []

    def write(plan):
        written.append(plan)
        return Kernel(f"k{plan}", f"def k{plan}(n0):\n    pass\n", ("int64",), 32)

    programs = Programs(Program, write)
    assert not written
    first = programs[3]
    assert first.kernel.name == "k3"
    assert programs[3] is first
    assert programs[4] is not first
    assert written == [3, 4]

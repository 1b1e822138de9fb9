"""Compilers and traces let Python look for cycles less often, and restore it."""

from __future__ import annotations

import gc
import multiprocessing
import sys
import threading

import pytest

from nbfused.support.generated import fewer_collections
from tests.support.jobs import may_fork

USUAL = (300, 7, 9)


@pytest.fixture(autouse=True)
def usual():
    """A threshold of the test's own."""
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_the_last_block_restores_the_threshold():
    with fewer_collections():
        seldom = gc.get_threshold()
        assert seldom[0] > USUAL[0]
        with pytest.raises(ValueError), fewer_collections():  # noqa: PT011, PT012
            assert gc.get_threshold() == seldom
            raise ValueError
        assert gc.get_threshold() == seldom
    assert gc.get_threshold() == USUAL


def test_no_collections_stay_none():
    gc.set_threshold(0)
    with fewer_collections():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0


@pytest.mark.parametrize("own", [(0, 1, 1), (555, 5, 5)])
def test_what_a_program_sets_meanwhile_stays(own):
    with fewer_collections(), fewer_collections():
        gc.set_threshold(*own)
    assert gc.get_threshold() == own


def tell(answers):
    """Say how often a forked child looks for cycles, inside of a block and behind."""
    found = [gc.get_threshold()]
    with fewer_collections():
        found.append(gc.get_threshold())
    answers.put([*found, gc.get_threshold()])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@may_fork
def test_a_forked_child_has_no_blocks_of_other_threads():
    entered, left = threading.Event(), threading.Event()

    def compile_something():
        with fewer_collections():
            entered.set()
            left.wait()

    thread = threading.Thread(target=compile_something)
    thread.start()
    entered.wait()
    forks = multiprocessing.get_context("fork")
    answers = forks.SimpleQueue()
    child = forks.Process(target=tell, args=(answers,))
    child.start()
    first, inside, last = answers.get()
    child.join()
    left.set()
    thread.join()
    assert first == last == gc.get_threshold() == USUAL
    assert inside[0] > USUAL[0]

"""Threads of a simulated block that take turns, each until it waits for the others.

Numba's simulator lets them run at once and asks each all the time whether it waits,
which takes seven eighths of the time.  Here the order is another one in each turn, the
same in every run: where a barrier is missing, some thread is too early.
"""

from __future__ import annotations

import os
import random
import threading

import numpy as np
from numba.cuda.simulator import kernel

__all__ = ["take_turns"]

_ORDER = random.Random(0)


def taken():
    """A lock that whoever takes it waits for."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class Thread(kernel.BlockThread):
    """Runs from one release of `turn` to `syncthreads`, or to its end."""

    def __init__(self, f, block, grid_point, block_point, debug):
        super().__init__(f, block, grid_point, block_point, debug)
        self.turn, self.ended = taken(), False

    def run(self):
        self.turn.acquire()
        super().run()
        self.ended = True
        self._manager.back.release()

    def syncthreads(self):
        self._manager.back.release()
        self.turn.acquire()
        if self.abort:
            raise RuntimeError("another thread has failed")


class Block(kernel.BlockManager):
    """Runs the threads of a block; those that have ended are not waited for."""

    def run(self, grid_point, *args):
        self.back = taken()
        alive = [Thread(lambda: self._f(*args), self, grid_point, at, self._debug)
                 for at in np.ndindex(*self._block_dim)]
        for thread in alive:
            thread.start()
        while alive:
            _ORDER.shuffle(alive)
            for thread in alive:
                self._one(thread)
                if thread.exception:
                    self._give_up(alive)
                    raise thread.exception[0].with_traceback(thread.exception[1])
            alive = [thread for thread in alive if not thread.ended]

    def _one(self, thread):
        thread.turn.release()
        self.back.acquire()

    def _give_up(self, threads):
        for thread in threads:
            thread.abort = True
            if not thread.ended:
                self._one(thread)


def stay_on_one_processor():
    """Keep this process on one processor: one of its threads runs at a time.

    To wake the next one on another processor takes as long as the turns do.
    """
    if hasattr(os, "sched_setaffinity"):  # Linux
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[os.getpid() % len(processors)]})


def take_turns():
    """In place of what Numba's simulator does, in this process, for good."""
    stay_on_one_processor()
    kernel.BlockManager = Block

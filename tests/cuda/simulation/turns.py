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
        if self.exception:
            self._manager.back.release()
        else:
            self._manager.pass_on()

    def syncthreads(self):
        if not self.abort:
            self._manager.pass_on()
            self.turn.acquire()
        if self.abort:
            raise RuntimeError("another thread has failed")


class Block(kernel.BlockManager):
    """Runs the threads of a block; those that have ended are not waited for."""

    def run(self, grid_point, *args):
        self.back = taken()
        threads = [Thread(lambda: self._f(*args), self, grid_point, at, self._debug)
                   for at in np.ndindex(*self._block_dim)]
        for thread in threads:
            thread.start()
        self._alive, self._waiting = threads, []
        self.pass_on()
        self.back.acquire()
        for failed in [thread for thread in threads if thread.exception]:
            self._give_up(threads)
            raise failed.exception[0].with_traceback(failed.exception[1])

    def pass_on(self):
        """Give the next thread its turn; after the last one the block is left.

        By the thread whose turn ends: the way over `run` would take twice as long.
        """
        if not self._waiting:
            self._alive = [thread for thread in self._alive if not thread.ended]
            _ORDER.shuffle(self._alive)
            self._waiting = self._alive[::-1]
        (self._waiting.pop().turn if self._waiting else self.back).release()

    def _give_up(self, threads):
        for thread in threads:
            if not thread.ended:
                thread.abort = True
                thread.turn.release()
                self.back.acquire()


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

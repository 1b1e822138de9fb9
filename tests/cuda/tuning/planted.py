"""A launcher with plans, and a timer whose times are planted."""

from __future__ import annotations

from dataclasses import dataclass

from nbfused.backend import Call
from nbfused.cuda.tuning import choices
from nbfused.cuda.tuning.tuner import Tuner
from nbfused.errors import CompileError

MODEL = "NVIDIA Test 1g.10gb"
CALL = Call(shape=(1000,), pointers=(256, 512, 768), strides=((1,),)*3)
KEY = ((1000,), "float32")


@dataclass(frozen=True)
class Plan:
    columns: int
    stages: int = 4


PLANS = (Plan(128), Plan(256), Plan(64, 2))


class Times:
    """A timer whose microseconds are planted."""

    def __init__(self, planted):
        self.planted, self.count = planted, 0

    def microseconds(self, launch, plan, *rest):
        launch(plan, *rest)
        self.count += 1
        return self.planted[plan]


class Kernels:
    """A launcher: remembers what was compiled and launched."""

    def __init__(self, plans=PLANS, broken=()):
        self.plans, self.broken = plans, broken
        self.asked, self.compiled, self.launched = 0, [], []
        self.tuner = Tuner("kernel", self.candidates, self.program, self.launch)

    def candidates(self, call, device):
        self.asked += 1
        return self.plans

    def program(self, plan, device):
        if plan in self.broken:
            raise CompileError("too much shared memory")
        self.compiled.append(plan)

    def launch(self, plan, call, device):
        self.launched.append((plan, call))

    def __call__(self, device, call=CALL, key=KEY):
        return self.tuner(key, call, device, 1)


def later(monkeypatch):
    """As another process would begin."""
    monkeypatch.setattr(choices, "_tables", {})
    return Kernels()

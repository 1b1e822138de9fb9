"""Which backend a call goes to, and what is said when there is none."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nbfused.config import config
from nbfused.errors import (
    BackendNotAvailableError,
    DefinitionError,
    DeviceError,
    NbFusedWarning,
)
from nbfused.registry.backends import backends
from nbfused.registry.plugins import entry_points, make
from nbfused.registry.selection import Registry, split_names
from tests.refusal import refused


class Fake:
    """A backend that owns the devices of one kind."""

    protocol = 1

    def __init__(self, name="cpu", kind=None, why=None):
        self.name, self.kind, self.why = name, kind or name, why
        self.asked = self.waited = 0

    def available(self):
        self.asked += 1
        return self.why

    def owns(self, device):
        return device.partition(":")[0] == self.kind

    def devices(self):
        return ("cpu",) if self.kind == "cpu" else (f"{self.kind}:0",)

    def synchronize(self):
        self.waited += 1

    def build(self, spec, signature):
        raise NotImplementedError


class Plugin(Fake):
    def __init__(self):
        super().__init__("plugin", "cpu")


@pytest.fixture
def fakes():
    return {"cpu": Fake(), "cuda": Fake("cuda"),
            "rocm": Fake("rocm", why="no hipcc found")}


@pytest.fixture
def registry(fakes):
    return Registry(fakes, lambda: [("plugin", f"{__name__}:Plugin")])


def test_auto_gives_each_device_to_its_owner(registry, fakes):
    assert registry.backend_for("cpu") is fakes["cpu"]
    assert registry.backend_for("cuda:1") is fakes["cuda"]
    assert registry.backend_for("cpu") is fakes["cpu"]
    assert fakes["cpu"].asked == 1
    assert registry.default_device() == "cpu"


def test_auto_touches_no_driver_before_the_first_device_array(registry, fakes):
    registry.enable("auto")
    registry.backend_for("cpu")
    assert (fakes["cuda"].asked, fakes["rocm"].asked) == (0, 0)


def test_auto_says_why_a_device_has_no_owner(registry):
    with pytest.raises(DeviceError, match=r"x is on rocm:0.*not usable: no hipcc"):
        registry.backend_for("rocm:0", "x")
    with pytest.raises(DeviceError, match="array is on tpu:0, which no enabled"):
        registry.backend_for("tpu:0")


def test_a_name_enables_exactly_that_one(registry, fakes):
    registry.enable("cuda")
    assert registry.backend_for("cuda:0") is fakes["cuda"]
    assert registry.default_device() == "cuda:0"
    with pytest.raises(DeviceError) as caught:
        registry.backend_for("cpu", "x")
    for words in ("x is on cpu", "NBFUSED_BACKEND=cuda", "device='cuda:0'",
                  "NBFUSED_BACKEND=cuda,cpu"):
        assert words in str(caught.value)


def test_a_list_is_in_order_of_priority(registry, fakes):
    registry.enable("plugin, cpu")
    assert registry.backend_for("cpu").name == "plugin"
    registry.enable("cpu,plugin")
    assert registry.backend_for("cpu") is fakes["cpu"]
    registry.enable("auto")
    assert registry.backend_for("cpu") is fakes["cpu"]


def test_an_accelerator_is_the_first_usable_backend_besides_the_host_s(registry, fakes):
    assert registry.accelerator() is fakes["cuda"]
    registry.enable("cpu")
    assert registry.accelerator() is None
    registry.enable("auto")
    fakes["cuda"].why = "no device"
    assert registry.accelerator() is None
    fakes["rocm"].why = None
    assert registry.accelerator() is fakes["rocm"]


@pytest.mark.parametrize(("selection", "cause"), [
    ("nonsense", "no backend is called 'nonsense'"),
    ("cpu,nonsense", "no backend is called 'nonsense'"),
    ("rocm", "backend 'rocm' is not usable: no hipcc found")])
def test_what_cannot_be_enabled_names_the_cause_and_what_there_is(
        registry, selection, cause):
    with pytest.raises(BackendNotAvailableError) as caught:
        registry.enable(selection)
    assert isinstance(caught.value, ImportError)
    for words in (f"NBFUSED_BACKEND={selection}: ", cause, "cpu (usable)",
                  "plugin (usable)"):
        assert words in str(caught.value)


def test_a_device_that_only_plugins_know(registry):
    registry.register("npu", Fake("npu"))
    assert registry.backend_for("npu:0").name == "npu"


def test_use_restricts_and_is_undone(registry, fakes):
    with registry.use("plugin"):
        assert registry.backend_for("cpu").name == "plugin"
        assert registry.default_device() == "cpu"
        with pytest.raises(DeviceError, match="allows only plugin"):
            registry.backend_for("cuda:0")
        with registry.use("cuda,cpu"):
            assert registry.backend_for("cpu") is fakes["cpu"]
            assert registry.default_device() == "cuda:0"
        assert registry.backend_for("cpu").name == "plugin"
    assert registry.backend_for("cpu") is fakes["cpu"]
    with registry.use(Fake("mine", "cpu")):
        assert registry.backend_for("cpu").name == "mine"
    with pytest.raises(ZeroDivisionError), registry.use("plugin"):
        1 / 0  # noqa: B018
    assert registry.backend_for("cpu") is fakes["cpu"]


def test_use_refuses_what_cannot_be_used(registry):
    refused = ((("rocm",), "no hipcc"), (("nonsense",), "no backend is called"),
               ((), "no backend"), ((object(),), "version None"))
    for names, cause in refused:
        with pytest.raises(BackendNotAvailableError, match=cause):
            registry.use(*names).__enter__()


def test_use_does_not_reach_other_threads(registry, fakes):
    found = []
    with registry.use("plugin"):
        thread = threading.Thread(
            target=lambda: found.append(registry.backend_for("cpu")))
        thread.start()
        thread.join()
    assert found == [fakes["cpu"]]


def test_the_first_of_a_name_stays(registry, fakes):
    with pytest.warns(NbFusedWarning, match="second backend named 'cpu'"):
        registry.register("cpu", Plugin)
    assert registry.backend_for("cpu") is fakes["cpu"]
    clashing = Registry(fakes, lambda: [("cuda", "elsewhere:Cuda")])
    with pytest.warns(NbFusedWarning, match=r"\(elsewhere:Cuda\) is ignored"):
        assert clashing.names() == ("cpu", "cuda", "rocm")


def test_records(registry):
    found = registry.info()
    assert list(found) == ["cpu", "cuda", "rocm", "plugin"]
    assert found["cuda"].devices == ("cuda:0",)
    assert (found["rocm"].available, found["rocm"].why) == (False, "no hipcc found")
    assert [name for name, info in found.items() if info.enabled] == [
        "cpu", "cuda", "plugin"]
    assert repr(found).splitlines() == [
        "cpu     enabled (cpu)", "cuda    enabled (cuda:0)",
        "rocm    not available: no hipcc found", "plugin  enabled (cpu)"]
    registry.enable("cuda")
    assert "cpu     available, not selected (cpu)" in repr(registry.info())
    with registry.use("cpu"):
        assert [n for n, i in registry.info().items() if i.enabled] == ["cpu"]


def test_synchronize_waits_for_what_was_used_and_starts_nothing(registry, fakes):
    registry.synchronize()
    assert (fakes["cuda"].waited, fakes["cuda"].asked) == (0, 0)
    registry.info()  # also loads rocm, which cannot be used
    registry.synchronize()
    assert [fake.waited for fake in fakes.values()] == [1, 1, 0]


class Newer(Fake):
    protocol = 2


class Broken:
    def __init__(self):
        raise OSError("libwhatever.so is missing")


class Raising(Fake):
    def available(self):
        raise RuntimeError("driver too old")


@pytest.mark.parametrize(("source", "why"), [
    (Newer, "speaks version 2 of the backend protocol, this nbfused version 1"),
    (f"{__name__}:Newer", "install versions that match"),
    (Broken, "OSError: libwhatever.so is missing"),
    (Raising, "driver too old"),
    ("no_such_module_of_anyone:Backend", "no module no_such_module_of_anyone"),
    (f"{__name__}:Missing", "AttributeError"),
    ("nbfused.tpu:TpuBackend", "this version of nbfused has no tpu backend")])
def test_plugins_that_fail_do_not_stop_the_others(source, why, fakes):
    registry = Registry(fakes, lambda: [("bad", source)])
    found = registry.info()
    assert not found["bad"].available
    assert why in str(found["bad"].why)
    assert registry.backend_for("cpu") is fakes["cpu"]
    with pytest.raises(BackendNotAvailableError, match="'bad' is not usable"):
        registry.load("bad")


class Failing(Fake):
    def owns(self, device):
        raise RuntimeError("no idea")

    devices = owns


def test_plugins_that_fail_later_do_not_stop_the_others_either(fakes):
    registry = Registry({}, lambda: [("bad", lambda: Failing("bad")), ("good", Plugin)])
    assert registry.backend_for("cpu").name == "plugin"
    found = registry.info()
    assert found["good"].available
    assert found["bad"].why.startswith("bad.devices() failed: TypeError")
    with refused(DeviceError, "x is on tpu:0", "bad.owns() failed", "no idea"):
        registry.backend_for("tpu:0", "x")


@pytest.mark.parametrize("name", [None, 3, "", "a,b", " a", "auto"])
def test_names_that_could_not_be_asked_for(name, registry):
    with refused(DefinitionError, "register: 'name'", f"got {name!r}"):
        registry.register(name, Plugin)


def test_sources(fakes):
    assert make(fakes["cpu"]) is fakes["cpu"]
    for source in (Plugin, f"{__name__}:Plugin", lambda: Plugin()):
        assert make(source).name == "plugin"


def test_entry_points_are_found_unless_disabled(tmp_path, monkeypatch):

    info = tmp_path / "plug-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nbfused.backends]\ninterp = some_plugin:Backend\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert ("interp", "some_plugin:Backend") in entry_points()
    assert "some_plugin" not in sys.modules
    with config.override(disable_plugins=True):
        assert list(entry_points()) == []


def test_the_built_in_table():
    with config.override(hipcc="/nowhere/hipcc", rocm_emulate="0"):
        found = backends()
    assert list(found)[:3] == ["cpu", "cuda", "rocm"]
    assert "NBFUSED_HIPCC=/nowhere/hipcc" in found["rocm"].why


def test_lists():
    assert split_names(" cuda, cpu,,") == ("cuda", "cpu")


def test_importing_the_registry_imports_no_compiler_and_no_driver():
    code = ("import sys, nbfused.registry.backends, nbfused.arrays\n"
            "import nbfused.cache\n"
            "print([m for m in ('numba', 'cuda', 'torch', 'jax', 'cupy', 'llvmlite')"
            " if m in sys.modules])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                         check=True)
    assert run.stdout.strip() == "[]"

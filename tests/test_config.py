"""Environment variables and their mirror."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest

import nbfused as nf
from nbfused.config import Config, unknown
from nbfused.errors import NbFusedWarning, SettingError
from nbfused.registry import plugins
from nbfused.registry.plugins import warn_of_unknown
from tests.refusal import refused


def test_defaults():
    assert Config.read({}).as_dict() == Config().as_dict()
    empty = Config.read({"NBFUSED_DEBUG": "", "NBFUSED_BACKEND": " "})
    assert empty.as_dict() == Config().as_dict()


def test_every_variable_is_read():
    found = Config.read({
        "NBFUSED_AUTOTUNE": "1",
        "NBFUSED_BACKEND": "cuda,cpu", "NBFUSED_CACHE_DIR": "/tmp/x",
        "NBFUSED_CACHE_DISABLE": "1", "NBFUSED_CACHE_SIZE": "3M",
        "NBFUSED_CHECK_GRADS": "1", "NBFUSED_COMPILE_WORKERS": "5",
        "NBFUSED_CUDA_ARRAY_INTERFACE_SYNC": "0",
        "NBFUSED_DEBUG": "1", "NBFUSED_DETERMINISTIC": "1",
        "NBFUSED_DISABLE_PLUGINS": "1", "NBFUSED_DUMP_SOURCE": "dump",
        "NBFUSED_HIPCC": "/opt/hipcc", "NBFUSED_LOG_LEVEL": "debug",
        "NBFUSED_NUM_THREADS": "3", "NBFUSED_PTXAS": "driver",
        "NBFUSED_ROCM_ARCH": "gfx90a, gfx1030",
        "NBFUSED_ROCM_EMULATE": "nvidia", "NBFUSED_ROCM_MATRIX": "1"})
    assert list(found.as_dict().values()) == [
        "1", "cuda,cpu", "/tmp/x", True, 3 << 20, True, 5, False, True, True, True,
        "dump", "/opt/hipcc", "DEBUG", 3, "driver", "gfx90a, gfx1030", "nvidia", True]
    assert Config.read({"NBFUSED_CACHE_SIZE": "1000"}).cache_size == 1000
    assert Config.read({"NBFUSED_CACHE_SIZE": "3k"}).cache_size == 3 * 1024


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("DEBUG", "yes", "0 or 1"), ("NUM_THREADS", "0", "positive"),
    ("NUM_THREADS", "many", "positive"), ("NUM_THREADS", "999999", "up to 1024"),
    ("NUM_THREADS", "²", "positive"),
    ("CACHE_SIZE", "big", "bytes"), ("CACHE_SIZE", "１G", "bytes"),
    ("CACHE_SIZE", "G", "bytes"), ("LOG_LEVEL", "loud", "WARNING"),
    ("ROCM_ARCH", "gfx90a;gfx1030", "commas"), ("ROCM_EMULATE", "amd", "nvidia"),
    ("AUTOTUNE", "always", "readonly"), ("DETERMINISTIC", "yes", "0 or 1")])
def test_wrong_values_are_refused_by_name(name, value, expected):
    with refused(SettingError, f"NBFUSED_{name}={value!r}", expected, "unset it"):
        Config.read({f"NBFUSED_{name}": value})


@pytest.mark.parametrize(("name", "value", "expected"), [
    ("debug", "no", "True or False"), ("num_threads", "3", "a positive whole number"),
    ("num_threads", 0, "a positive whole number, or None"),
    ("num_threads", 1.5, "None"), ("cache_size", -1, "a number of bytes"),
    ("autotune", True, "'readonly'"), ("log_level", "loud", "'WARNING'"),
    ("rocm_arch", "gfx90a;gfx1030", "gfx90a"), ("cache_dir", 3, "a text, or None"),
    ("hipcc", False, "a text, or None"), ("cache_dir", "", "a text, or None"),
    ("num_threads", 10**9, "at most 1024"),
    ("rocm_emulate", 1, "'nvidia'")])
def test_wrong_values_are_not_assigned(name, value, expected):
    config = Config()
    before = config.as_dict()
    with refused(SettingError, f"config.{name} = {value!r}: expected", expected):
        setattr(config, name, value)
    with refused(SettingError, expected), config.override(**{name: value}):
        pass
    assert config.as_dict() == before


@pytest.mark.parametrize("name", ["cache_dir", "dump_source", "hipcc", "ptxas"])
def test_paths_are_kept_as_texts(name, tmp_path):
    config = Config()
    setattr(config, name, tmp_path)
    assert getattr(config, name) == str(tmp_path)


def test_the_backend_is_not_assigned():
    with refused(SettingError, "config.backend = 'cuda'", "at import", "use_backend"):
        nf.config.backend = "cuda"


def test_the_table_has_every_setting():
    # The package's attribute of that name is the settings, not the module.
    table = str(import_module("nbfused.config").__doc__)
    listed = re.findall(r"^([A-Z_]+) ", table, re.MULTILINE)
    assert [name.lower() for name in listed] == list(Config().as_dict())


def test_override_is_undone():
    config = Config()
    with config.override(debug=True, num_threads=2):
        assert (config.debug, config.num_threads) == (True, 2)
    assert config.as_dict() == Config().as_dict()
    with pytest.raises(ZeroDivisionError), config.override(debug=True):
        1 / 0  # noqa: B018
    assert config.as_dict() == Config().as_dict()
    with pytest.raises(AttributeError), config.override(debugging=True):
        pass
    with pytest.raises(AttributeError):
        config.debugging = True  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="debugging"):
        Config(debugging=True)


LOGGING = """
import logging, nbfused.cache
logging.getLogger("nbfused.cache").debug("a message")
"""


def test_the_level_of_messages_can_be_assigned():
    script = (f"import nbfused\nnbfused.config.log_level = 'debug'\n{LOGGING}"
              f"nbfused.config.log_level = None\n{LOGGING}")
    run = subprocess.run([sys.executable, "-c", script], capture_output=True,
                         text=True, check=True)
    assert run.stderr == "nbfused.cache: a message\n"


UNKNOWN = ["NBFUSED_debug", "NBFUSED_CACHEDIR", "NBFUSED_HOSTED_PATH"]


def test_unknown_variables_are_told_apart():
    others = ["NBFUSED_DEBUG", "NBFUSED_EMULATION_WAVE", "NBFUSED_TEST_BACKEND", "PATH"]
    assert unknown(dict.fromkeys([*UNKNOWN, *others], "1")) == UNKNOWN
    with pytest.warns(NbFusedWarning) as said:
        warn_of_unknown(UNKNOWN)
    assert [re.search("nearest one is ([A-Z_]*);", str(w.message))[1] for w in said[:2]
            ] == ["NBFUSED_DEBUG", "NBFUSED_CACHE_DIR"]


def test_variables_of_plugins_are_theirs(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda: [("hosted", "module:Class")])
    with pytest.warns(NbFusedWarning) as said:
        warn_of_unknown(UNKNOWN)
    assert len(said) == 2


def test_importing_warns_of_unknown_variables(monkeypatch):
    monkeypatch.setenv("NBFUSED_DETERMINISTC", "1")
    run = subprocess.run([sys.executable, "-c", "import nbfused"], capture_output=True,
                         text=True, check=True)
    assert run.stderr.count("NBFUSED_DETERMINISTC is no setting") == 1


@pytest.mark.parametrize(
    ("level", "shown"), [("DEBUG", True), ("INFO", False), (None, False)])
def test_messages_are_shown_only_where_asked_for(level, shown, monkeypatch):
    monkeypatch.delenv("NBFUSED_LOG_LEVEL", raising=False)
    if level:
        monkeypatch.setenv("NBFUSED_LOG_LEVEL", level)
    run = subprocess.run([sys.executable, "-c", LOGGING], capture_output=True,
                         text=True, check=True)
    assert run.stderr.strip() == ("nbfused.cache: a message" if shown else "")

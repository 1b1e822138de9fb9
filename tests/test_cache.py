"""The cache of compiled kernels."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from nbfused import cache
from nbfused.cache import keys as cache_keys
from nbfused.config import config
from nbfused.errors import NbFusedPerformanceWarning, SettingError
from tests.refusal import refused


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_counters", cache._Counters())
    with config.override(cache_dir=str(tmp_path / "kernels"), cache_disable=False):
        yield tmp_path / "kernels"


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("key", [
    cache.digest("a"), "a name", b"\x00\xff", "\udcff.py"])
@pytest.mark.parametrize("data", [b"", b"\x00machine code\xff" * 1000])
def test_what_was_put_is_found(key, data):
    assert cache.get(key) is None
    cache.put(key, data)
    assert cache.get(key) == data


def test_counts():
    key = cache.digest("kernel")
    cache.get(key)
    cache.put(key, b"12345")
    cache.get(key)
    cache.get(key)
    found = cache.stats()
    assert (found.hits, found.misses, found.compilations) == (2, 1, 1)
    assert found.entries == 1
    assert found.bytes == sum(path.stat().st_size for path in files(Path(found.folder)))


def test_the_folder_comes_from_the_setting_or_the_user(folder, monkeypatch):
    assert cache.folder() == folder
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    monkeypatch.setenv("HOME", "/home/me")
    with config.override(cache_dir=None):
        assert cache.folder().name == "nbfused"
        monkeypatch.setitem(sys.modules, "platformdirs", None)
        assert cache.folder() == Path("/somewhere/nbfused")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache.folder() == Path("/home/me/.cache/nbfused")
    with config.override(cache_dir="~/kernels"):
        assert cache.folder() == Path("/home/me/kernels")


def test_a_folder_of_nobody_is_refused():
    with config.override(cache_dir="~nobody-of-that-name/kernels"), refused(
            SettingError, "NBFUSED_CACHE_DIR='~nobody", "home", "without ~"):
        cache.folder()


def test_digests_tell_parts_apart():
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("ab", b"c"), ()]
    assert len({cache.digest(*p) for p in parts}) == len(parts)
    assert cache.digest("ab", "c") == cache.digest("ab", "c")
    assert len(cache.digest()) == 64
    assert cache.digest("\udcff.py") != cache.digest("\udcfe.py")  # of any file


def test_a_digest_depends_on_the_compilers(monkeypatch):
    before = cache.digest("source")
    for toolchain in (("nbfused 0.1.0", "numba 1"), ("nbfused 0.1.0", "numba 2")):
        monkeypatch.setattr(cache_keys, "_toolchain", lambda found=toolchain: found)
        assert cache.digest("source") != before
        before = cache.digest("source")


@pytest.mark.parametrize("damage", [
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"another format altogether" * 9)])
def test_a_damaged_file_counts_as_absent_and_is_replaced(damage, folder, caplog):
    cache.put("key", b"machine code")
    path, = files(folder)
    damage(path)
    assert cache.get("key") is None
    assert "damaged" in caplog.text
    cache.put("key", b"new code")
    assert cache.get("key") == b"new code"


def test_disabled(folder):
    cache.put("key", b"old")
    with config.override(cache_disable=True):
        assert cache.get("key") is None
        cache.put("other", b"new")
    assert cache.get("other") is None
    assert cache.stats().compilations == 2


def test_a_folder_that_cannot_be_written_is_tolerated(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with config.override(cache_dir=str(tmp_path / "file" / "kernels")):
        assert cache.get("key") is None
        with pytest.warns(NbFusedPerformanceWarning, match="NBFUSED_CACHE_DIR") as said:
            cache.put("key", b"code")
        cache.put("another", b"code")  # without another warning
        assert str(tmp_path / "file" / "kernels") in str(said[0].message)
        assert cache.get("key") is None
        assert cache.stats().entries == cache.clear() == 0
    assert "cannot store" in caplog.text


def test_a_read_only_folder_is_still_read(monkeypatch, caplog):
    def refuse(*paths, **options):
        raise PermissionError(13, "Permission denied")

    cache.put("key", b"code")
    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    assert cache.get("key") == b"code"
    with pytest.warns(NbFusedPerformanceWarning, match="Permission denied"):
        cache.put("other", b"code")
    assert cache.get("other") is None
    assert "Permission denied" in caplog.text


def test_failing_writes_leave_nothing_behind(folder, monkeypatch, caplog):
    def full(*paths):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(NbFusedPerformanceWarning, match="No space left"):
        cache.put("key", b"code")
    assert files(folder) == []
    assert "No space left" in caplog.text


def test_nobody_else_may_write_where_code_is_loaded_from(folder):
    cache.put("key", b"code")
    for path in (folder, *folder.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def age(key, seconds):
    past = time.time() - seconds
    os.utime(cache._path(key), (past, past))


def test_the_least_recently_used_entries_go_first(folder):
    with config.override(cache_size=10_000):
        for i in range(8):
            cache.put(f"key {i}", bytes(1000))
            age(f"key {i}", 1000 - i)
        cache.get("key 0")  # used just now
        for i in range(8, 12):
            cache.put(f"key {i}", bytes(1000))
    kept = [i for i in range(12) if cache.get(f"key {i}") is not None]
    assert 0 in kept
    assert 11 in kept
    assert 1 not in kept
    assert sum(path.stat().st_size for path in files(folder)) <= 10_000


def test_what_other_processes_added_counts_too(folder):
    cache.put("mine", b"x")
    for i in range(5):  # not through this process's counters
        name = cache.digest(str(i))
        (folder / name[:2]).mkdir(exist_ok=True)
        (folder / name[:2] / f"{name[2:]}.bin").write_bytes(bytes(1000))
    with config.override(cache_size=3000):
        cache._counters.size = None  # as in a process that starts now
        cache.put("last", b"x")
    assert cache.stats().bytes <= 3000


def test_clear_removes_our_files_only(folder):
    cache.put("a", b"1")
    cache.put("b", b"2")
    abandoned = cache._path("a").parent / "tmpabc.tmp"
    abandoned.write_bytes(b"half")
    keep = [folder / "notes.txt", folder / "ab" / "mine.bin"]
    for path in keep:
        path.parent.mkdir(exist_ok=True)
        path.write_text("not a kernel")
    assert cache.clear() == 2
    assert sorted(files(folder)) == sorted(keep)
    assert cache.get("a") is None


def test_threads():
    keys = [f"key {i}" for i in range(40)]

    def work():
        for key in keys:
            if cache.get(key) is None:
                cache.put(key, key.encode() * 100)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(cache.get(key) == key.encode() * 100 for key in keys)
    found = cache.stats()
    assert found.entries == 40
    assert found.hits + found.misses == 8 * 40 + 40


WRITER = """
from nbfused import cache
for turn in range(60):
    for key in ("a", "b"):
        found = cache.get(key)
        assert found in (None, key.encode() * 5000), "torn"
        cache.put(key, key.encode() * 5000)
"""


def test_processes(folder, monkeypatch):
    monkeypatch.setenv("NBFUSED_CACHE_DIR", str(folder))
    workers = [subprocess.Popen([sys.executable, "-c", WRITER], stderr=subprocess.PIPE)
               for _ in range(3)]
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors.decode()
    assert len(files(folder)) == 2


def test_a_second_process_compiles_nothing(folder, monkeypatch):
    monkeypatch.setenv("NBFUSED_CACHE_DIR", str(folder))
    build = ("from nbfused import cache\n"
             "key = cache.digest('source')\n"
             "if cache.get(key) is None: cache.put(key, b'code')\n"
             "print(cache.stats().compilations)\n")
    counts = [subprocess.run([sys.executable, "-c", build], capture_output=True,
                             text=True, check=True).stdout.strip() for _ in range(2)]
    assert counts == ["1", "0"]


# --- libraries


def test_a_library_is_a_file_that_begins_with_its_own_bytes():
    key, data = cache.digest("library"), b"\x7fELF and so on"
    assert cache.get_file(key) is None
    path = cache.put_file(key, data)
    assert path.read_bytes().startswith(data)
    assert cache.get_file(key) == path
    found = cache.stats()
    assert (found.hits, found.misses, found.compilations, found.entries) == (1, 1, 1, 1)
    assert cache.clear() == 1
    assert cache.get_file(key) is None


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: b"", lambda data: b"x" + data[1:]])
def test_a_damaged_library_counts_as_absent(damage, caplog):
    path = cache.put_file(cache.digest("library"), b"machine code")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get_file(cache.digest("library")) is None
    assert "damaged" in caplog.text
    assert not path.exists()


def test_a_library_that_does_not_do_is_discarded():
    cache.put_file(cache.digest("library"), b"machine code")
    cache.discard(cache.digest("library"))
    assert cache.get_file(cache.digest("library")) is None
    cache.discard(cache.digest("library"))  # another process was first


@pytest.mark.filterwarnings("ignore:compiled kernels")
@pytest.mark.parametrize("disabled", [False, True])
def test_a_library_can_be_opened_also_where_nothing_is_stored(
        monkeypatch, caplog, disabled):
    def refuse(*args):
        raise OSError("read-only file system")

    monkeypatch.setattr(cache, "write_sealed", refuse)
    with config.override(cache_disable=disabled):
        first, second = (cache.put_file("key", data) for data in (b"one", b"two"))
        assert (first.read_bytes(), second.read_bytes()) == (b"one", b"two")
        assert cache.get_file("key") is None
    assert ("read-only file system" in caplog.text) != disabled


def test_notes_are_kept_and_not_counted():
    assert cache.noted("key") is None
    cache.note("key", b"an index")
    assert cache.noted("key") == b"an index"
    assert cache.get("key") is None
    found = cache.stats()
    assert (found.hits, found.compilations, found.entries) == (0, 0, 0)
    assert cache.clear() == 0
    assert cache.noted("key") is None
    with config.override(cache_disable=True):
        cache.note("key", b"nothing")
        assert cache.noted("key") is None

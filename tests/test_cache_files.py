"""What stands in the cache's folder and is not what this user has put there."""

from __future__ import annotations

import grp
import os
import pwd
import random
import socket
import stat
import time
from types import SimpleNamespace

import numpy as np
import pytest

import nbfused as nf
from nbfused import cache
from nbfused.cache import files as cache_files
from nbfused.config import config
from nbfused.cpu.runtime import compile as compiling
from nbfused.errors import NbFusedPerformanceWarning, SettingError
from tests.refusal import refused

ROOT = os.geteuid() == 0
STRANGER = 12345


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_counters", cache._Counters())
    monkeypatch.setattr(cache, "_unusable", set())
    with config.override(cache_dir=str(tmp_path / "kernels"), cache_disable=False):
        yield tmp_path / "kernels"


def put_file(key, data):
    cache.put_file(key, data)


def get_file(key):
    found = cache.get_file(key)
    return None if found is None else found.read_bytes()[:-cache_files.SEAL]


#: How each kind of entry is stored and looked up, and its ending.
KINDS = {"artefact": (cache.put, cache.get, ".bin"),
         "note": (cache.note, cache.noted, ".note"),
         "library": (put_file, get_file, ".so")}
DATA = bytes(range(256))*3


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def test_two_swapped_entries_are_both_made_again(kind, caplog):
    """Each is whole, and its seal is right: under the other's name."""
    put, get, suffix = kind
    put("one", b"kernel one")
    put("two", b"kernel two")
    one, two = (cache._path(key, suffix) for key in ("one", "two"))
    before = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(before)
    assert (get("one"), get("two")) == (None, None)
    assert caplog.text.count("of another name") == 2
    put("one", b"kernel one")
    assert get("one") == b"kernel one"


def test_an_entry_of_another_kind_is_made_again():
    cache.note("key", b"a note")
    cache._path("key", ".note").rename(cache._path("key"))
    assert cache.get("key") is None


TEXT = """
def kernel(a, begin, end):
    f64_pointer(a[0])[0] = {constant}
"""


def test_swapped_kernels_give_their_own_numbers():
    """Swapped on disk, two kernels gave each other's results without a word."""
    out = np.zeros(1)
    keys = []
    for constant in (1.5, 2.5):
        text = TEXT.format(constant=constant)
        compiling.build(text)
        keys.append(cache._path(cache.digest(
            "cpu", text, compiling._revision(), *compiling.objects.host())))
    held = keys[0].read_bytes()
    keys[0].write_bytes(keys[1].read_bytes())
    keys[1].write_bytes(held)
    for constant in (1.5, 2.5):
        compiling.build(TEXT.format(constant=constant))(
            out.ctypes.data.to_bytes(8, "little"), 0, 1)
        assert out[0] == constant


# --- damage


def truncated(path, dice):
    path.write_bytes(path.read_bytes()[:dice.randrange(len(DATA))])


def flipped(path, dice):
    content = bytearray(path.read_bytes())
    content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content)


def longer(path, dice):
    path.write_bytes(path.read_bytes() + dice.randbytes(dice.randrange(1, 99)))


def foreign(path, dice):
    path.write_bytes(dice.randbytes(dice.randrange(1, 2000)))


def empty(path, dice):
    path.write_bytes(b"")


def of_the_last_version(path, dice):
    path.write_bytes(path.read_bytes().replace(b"nbfused2", b"nbfused1"))


def pipe(path, dice):
    path.unlink()
    os.mkfifo(path)


def directory(path, dice):
    path.unlink()
    path.mkdir()


def link(path, dice):
    """To what it was, elsewhere."""
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def dangling(path, dice):
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def bound_socket(path, dice):
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # their names may be 100 characters long, no more
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


DAMAGES = [truncated, flipped, longer, foreign, empty, of_the_last_version, pipe,
           directory, link, dangling, bound_socket]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda f: f.__name__)
def test_whatever_stands_in_its_place_counts_as_absent_and_is_replaced(kind, damage):
    put, get, suffix = kind
    dice = random.Random(damage.__name__)
    for turn in range(8):
        key = f"key {turn}"
        put(key, DATA)
        damage(cache._path(key, suffix), dice)
        assert get(key) is None
        put(key, DATA + b"new")
        assert get(key) == DATA + b"new"


def test_a_folder_with_something_in_it_stays(folder):
    cache.put("key", DATA)
    path = cache._path("key")
    directory(path, None)
    (path / "mine").write_text("not a kernel")
    assert cache.get("key") is None
    with pytest.warns(NbFusedPerformanceWarning, match="kept"):
        cache.put("key", DATA)
    assert (path / "mine").read_text() == "not a kernel"
    assert cache.stats().entries == cache.clear() == 0


@pytest.mark.parametrize("garbage", [
    b"", b"{", b"null", b"\0"*8, b"\xff"*64, (9).to_bytes(8, "little") + b'{"host":1}',
    (2).to_bytes(8, "little") + b"{}", b"\x7fELF" + bytes(60)])
def test_what_was_stored_whole_but_is_no_kernel_is_compiled_again(garbage, caplog):
    """LLVM ends a process that gives it half an object file."""
    text = TEXT.format(constant=3.25)
    key = cache.digest("cpu", text, compiling._revision(), *compiling.objects.host())
    cache.put(key, garbage)
    out = np.zeros(1)
    compiling.build(text)(out.ctypes.data.to_bytes(8, "little"), 0, 1)
    assert out[0] == 3.25
    assert "damaged" in caplog.text
    whole = cache.get(key)
    for end in (9, len(whole)//2, len(whole) - 1):
        cache.put(key, whole[:end])
        compiling.build(text)(out.ctypes.data.to_bytes(8, "little"), 0, 1)
        assert cache.get(key, compiling.objects.unpack) is not None


def test_what_a_reader_refuses_is_removed():
    cache.put("key", b"[1, 2")
    cache.note("key", b"\xff")
    assert cache.get("key", lambda data: 1/0) is None
    assert cache.get("key") is None
    assert cache.noted("key", bytes.decode) is None
    assert not cache._path("key", ".note").exists()


def test_a_lock_waits_for_no_pipe_and_follows_no_link(folder, tmp_path):
    cache.put("key", DATA)
    (tmp_path / "precious").write_text("content")
    for name in ("pipe", "link", "folder"):
        lock = folder / f"{name}.lock"
        {"pipe": os.mkfifo, "folder": os.mkdir,
         "link": lambda path: os.symlink(tmp_path / "precious", path)}[name](lock)
        with pytest.raises(cache_files.DamagedError), cache_files.locked(lock):
            pass
    with cache_files.locked(folder / "a.lock"):
        assert stat.S_IMODE((folder / "a.lock").stat().st_mode) == 0o600
    assert (tmp_path / "precious").read_text() == "content"


# --- other users


def give_away(path, monkeypatch):
    """Have a file belong to somebody else; who is not root becomes that."""
    if ROOT:
        os.chown(path, STRANGER, -1)
    else:
        own = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: own + 1)


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_what_belongs_to_another_user_is_not_run(kind, levels, monkeypatch):
    """The entry, the folders that it is in, the one that these are in."""
    put, get, suffix = kind
    put("key", DATA)
    path = cache._path("key", suffix)
    for _ in range(levels):
        path = path.parent
    give_away(path, monkeypatch)
    with pytest.warns(NbFusedPerformanceWarning, match="belongs to user") as said:
        assert get("key") is None
    assert "NBFUSED_CACHE_DIR" in str(said[0].message)
    assert get("key") is None  # without another warning
    assert path.exists()


@pytest.mark.parametrize(("levels", "mode"), [
    (0, 0o602), (1, 0o702), (2, 0o777), (3, 0o707)])
def test_what_others_may_write_to_is_not_run(kind, levels, mode):
    put, get, suffix = kind
    put("key", DATA)
    path = cache._path("key", suffix)
    for _ in range(levels):
        path = path.parent
    before = stat.S_IMODE(path.stat().st_mode)
    path.chmod(mode)
    try:
        with pytest.warns(NbFusedPerformanceWarning, match=f"chmod go-w {path}"):
            assert get("key") is None
    finally:
        path.chmod(before)
    assert get("key") == DATA


def test_nothing_is_stored_where_others_may_write(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(NbFusedPerformanceWarning, match=f"{folder} may be written"):
        cache.put("key", DATA)
    assert list(folder.rglob("*.bin")) == []


def test_kernels_run_where_the_folder_is_not_trusted(folder):
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(NbFusedPerformanceWarning):
        made = nf.elementwise(lambda x: x*8.0 + 0.5)(np.ones(3))
    assert made.tolist() == [8.5]*3


def test_a_folder_such_as_tmp_is_fine_on_the_way(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with config.override(cache_dir=str(tmp_path / "shared" / "kernels")):
        cache.put("key", DATA)
        assert cache.get("key") == DATA


def test_a_link_to_a_folder_is_as_good_as_the_folder(tmp_path, folder):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    cache.put("key", DATA)
    assert cache.get("key") == DATA
    (tmp_path / "elsewhere").chmod(0o777)
    with pytest.warns(NbFusedPerformanceWarning, match="elsewhere"):
        assert cache.get("key") is None


@pytest.mark.parametrize(("members", "group", "mode", "own"), [
    ([], "me", 0o775, True), (["me"], "me", 0o660, True), (["you"], "me", 0o770, False),
    ([], "staff", 0o775, False), ([], "me", 0o777, False)])
def test_a_group_of_the_user_alone_may_write(monkeypatch, members, group, mode, own):
    monkeypatch.setattr(pwd, "getpwuid", lambda number: SimpleNamespace(
        pw_gid=7, pw_name="me"))
    monkeypatch.setattr(grp, "getgrgid", lambda number: SimpleNamespace(
        gr_gid=number, gr_name=group, gr_mem=members))
    status = SimpleNamespace(st_uid=os.geteuid(), st_gid=7, st_mode=mode)
    assert cache_files._own_group(status) == own


# --- names of folders


def test_a_folder_with_too_long_a_name_stops_nothing(tmp_path):
    with config.override(cache_dir=str(tmp_path / ("long"*100))):
        with pytest.warns(NbFusedPerformanceWarning, match="File name too long"):
            assert cache.stats().entries == 0
        cache.put("key", DATA)
        cache.note("key", DATA)
        assert cache.get("key") is None
        assert cache.put_file("key", DATA).read_bytes() == DATA
        assert cache.clear() == 0
        assert cache.libraries() == []


def test_no_folder_has_a_nul_in_its_name():
    for name in ("cache_dir", "dump_source", "hipcc"):
        with refused(SettingError, f"config.{name}", "NUL"):
            setattr(config, name, "a\0b")


# --- the bound


@pytest.mark.parametrize("bound", [0, 1, 50 << 10])
def test_a_library_that_is_about_to_be_opened_stays(bound):
    """By its name: of rocm, whatever the bound is, and by whichever process."""
    with config.override(cache_size=bound):
        paths = [cache.put_file(f"key {k}", bytes(40 << 10)) for k in range(3)]
        assert all(path.exists() for path in paths)
        assert cache.get_file("key 0") == paths[0]
        past = time.time() - 2*cache._FRESH
        for path in paths:
            os.utime(path, (past, past))
        cache.get_file("key 1")  # looked up just now
        cache.put("another", b"code")
    assert [path.exists() for path in paths] == [False, True, bound > 80 << 10]

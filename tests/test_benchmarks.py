"""The benchmarks run: every asv class once, on small sizes."""

import importlib
import json
import logging
import os
import pkgutil
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import benchmarks
from benchmarks import per_sample, record
from benchmarks.__main__ import classes, main, runs
from benchmarks.bench_rocm import missing
from benchmarks.clock import AHEAD, CALLS, CudaClock, _spans
from benchmarks.peers import __main__ as peers
from benchmarks.peers import host, reference
from benchmarks.peers.inputs import inputs_of
from benchmarks.peers.libraries import Nbfused
from benchmarks.peers.measure import prepared
from benchmarks.peers.words import of_arrays, of_nbfused
from benchmarks.peers.workload import Workload, normal
from benchmarks.peers.workloads import workloads
from nbfused.config import config


def value(line):
    """The number before the unit."""
    return float(re.search(r" ([-+.\d]\S*) \D+$", line)[1])


@pytest.mark.variants
def test_every_benchmark_runs_and_measures_something(capsys):
    assert main(["--quick", "--match", "cpu|numpy"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines()
             if "is not installed" not in line]
    names = {line.partition(".")[0] for line in lines}
    peers = {"DaskRows", "HipAgainstNumba", "LaunchBesideTheirs"}
    assert names | peers == {case.__name__ for case in classes()} | peers
    # A difference of two times may be anything on a busy machine.
    assert all(value(line) > 0 for line in lines
               if "gradient_over_function" not in line)


@pytest.mark.cuda
def test_every_benchmark_runs_on_a_gpu(capsys):
    assert main(["--quick", "--match", "cuda"]) == 0
    assert "TrainStep.time_step" in capsys.readouterr().out


@pytest.mark.cuda
@pytest.mark.rocm
def test_hip_runs_against_numba(capsys):
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    assert main(["--quick", "--match", "HipAgainstNumba"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3*4
    assert all(value(line) > 0 for line in lines)


def test_what_cannot_run_here_says_why(capsys, monkeypatch):
    monkeypatch.setattr(config, "rocm_emulate", "1")
    assert main(["--quick", "--match", "HipAgainstNumba.*swish"]) == 0
    assert "skipped: " in capsys.readouterr().out


def test_match_selects():
    chosen = {case.__name__ for case, _ in runs(quick=True, wanted="Reduction")}
    assert chosen == {"Reduction"}


WORDS = ("--quick", "--peers", "numpy", "--only")


def test_the_table_of_peers_checks_what_it_times(tmp_path, caplog, monkeypatch):
    table = tmp_path / "table.json"
    words = ["--json", str(table), *WORDS]
    assert peers.main([*words, "l2norm|sum of|^matmul 24.* float32"]) == 0
    rows = json.loads(table.read_text())
    assert {"l2norm, axis 0", "sum of 0 M", "matmul 24^3"} <= {r["name"] for r in rows}
    assert all(r["seconds"]["nbfused"] > 0 and r["best"][0] == "numpy" for r in rows)
    monkeypatch.setitem(of_nbfused.FAMILIES, "sum", lambda x: x[0])
    with caplog.at_level(logging.WARNING):
        peers.main([*words, "sum of"])
    assert "nbfused sum of 0 M, float32: result 0 is off" in caplog.text
    assert json.loads(table.read_text())[0]["ratio"] is None


def test_tables_that_cannot_be_made_say_why_at_once(tmp_path, capsys, monkeypatch):
    with pytest.raises(SystemExit):
        peers.main([*WORDS, "l2norm", "--json", str(tmp_path / "missing" / "table")])
    assert "missing/table: there is no such folder" in capsys.readouterr().err
    for words, said in ((["--only", "nope"], "no row has such a name"),
                        (["--only", "("], "is no regular expression"),
                        (["--peers", "nope"], "expected cupy, jax")):
        with pytest.raises(SystemExit):
            peers.main(["--quick", "--peers", "numpy", *words])
        assert said in capsys.readouterr().err
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")  # which main sets
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert peers.main(["--device", "cuda"]) == 2
    assert "needs PyTorch, which is not installed" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (["a/b"], "expected a name"), ([".."], "expected a name"),
    (["m", "--commit", "no-such"], "git knows no such commit"),
    (["m", "--table", "no-such.json"], "expected what python -m benchmarks.peers")])
def test_records_that_cannot_be_made_say_why_at_once(words, said, capsys):
    with pytest.raises(SystemExit):
        record.main(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("match", ["nope", "("])
def test_a_match_of_nothing_is_said(match, capsys):
    with pytest.raises(SystemExit):
        main(["--match", match])
    assert "--match" in capsys.readouterr().err


def test_a_peer_that_fails_leaves_the_rest_of_the_table(capsys, caplog, monkeypatch):
    def families(name):
        raise RuntimeError("a peer's own trouble\nat length")

    monkeypatch.setattr(of_arrays, "families", families)
    monkeypatch.setattr(reference, "_by_numpy", None)
    pytest.importorskip("torch")
    with caplog.at_level(logging.WARNING):
        assert peers.main([*WORDS, "l2norm"]) == 0
    assert "numpy l2norm, axis 0, float32: cannot do it: a peer's own trouble" \
        in caplog.text
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("2 rows, ")


def test_the_quick_table_has_every_family():
    quick = {w.family for w in workloads("cpu", quick=True)}
    assert {w.family for d in ("cpu", "cuda") for w in workloads(d)} == quick
    assert quick == set(of_nbfused.FAMILIES) - set(of_nbfused.SAMPLED)


ONE_OF_EACH = {w.family + ", both ways"*w.both: w for w in workloads("cpu", quick=True)
               if w.dtype == "float32" or w.family in ("batched_permuted",
                                                       "cross_entropy")}


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_the_workloads_are_done_right(name):
    pytest.importorskip("torch")
    work = ONE_OF_EACH[name]
    arrays = inputs_of(work, "cpu")
    wanted = reference.Reference(work, arrays)
    call = prepared(Nbfused(), work, arrays, "cpu")
    assert wanted.fault(call()) is None
    wanted.wanted[0] = np.asarray(wanted.wanted[0]*1.1)
    assert "result 0 is off by" in wanted.fault(call())


def test_results_are_checked_as_they_can_be_stored():
    """Of float16's smallest numbers each is right, and only those beside it wrong."""
    torch = pytest.importorskip("torch")
    work = Workload("softmax", "softmax", normal((400_000, 3)), "float16", 0,
                    options={"axis": 0})
    x = torch.randn((400_000, 3), generator=torch.Generator().manual_seed(0)).half()
    wanted = reference.Reference(work, [x])
    right = np.exp(x.numpy().astype(float))
    right = (right/right.sum(0)).astype(np.float16)
    assert wanted.fault(right) is None
    assert wanted.fault(torch.from_numpy(right)) is None
    assert "off by" in wanted.fault(np.nextafter(right, np.float16(1)))
    assert "off by" in wanted.fault(torch.from_numpy(right)*1.02)


def test_a_sum_that_is_nearly_0_may_have_either_sign():
    """Relu's derivative is 0 or 1 there, and a gradient differs by a whole term."""
    pytest.importorskip("torch")
    from benchmarks.peers.words import of_torch

    shapes = (2, 3), (3, 50), (50,)
    work = Workload("linear", "linear", normal(*shapes), "float32", 0,
                    both=True, options={"activation": "relu"})
    x, weight, bias = of_torch.tensors(inputs_of(work, "cpu"))
    sums = x.double() @ weight.double() + bias.double()
    bias[7] -= sums[0, 7].float()
    wanted = reference.Reference(work, [x, weight, bias])
    x, weight, bias = x.double(), weight.double(), bias.double()
    for column, right in ((7, True), (8, False)):
        found = []
        for change in (-1e-6, 1e-6):
            moved = bias.clone()
            moved[column] = change - (x @ weight)[0, column]
            found.append(wanted.fault(of_torch.reference(
                work, [x, weight, moved])))
        assert (found == [None, None]) == right


def test_transposed_inputs_are_laid_out_so():
    (work,) = [w for w in workloads("cpu", quick=True) if w.dtype == "float16"
               and w.name == "matmul+bias+relu 24^3, B transposed"]
    _, weight, _ = inputs_of(work, "cpu")
    assert weight.strides == (2, 48)


def test_what_ran_between_two_flushes_is_one_call():
    def event(name, start, end, device="DeviceType.CUDA"):
        return SimpleNamespace(name=name, device_type=device,
                               time_range=SimpleNamespace(start=start, end=end))

    events = [event("Memset (Device)", 0, 60), event("gemm", 100, 130),
              event("cudaLaunchKernel", 90, 400, "DeviceType.CPU"),
              event("Memset (Device)", 132, 133), event("add", 135, 140),
              event("Memset (Device)", 200, 260), event("gemm", 300, 320),
              event("Memset (Device)", 400, 460)]
    assert list(_spans(events)) == pytest.approx([40e-6, 20e-6])


class TwoWays(CudaClock):
    """Events see 3 microseconds more of a kernel than CUPTI does."""

    def __init__(self):
        self._cuda = SimpleNamespace(synchronize=lambda: None)
        self.compared = 0

    def _one_kernel(self):
        pass

    def _between(self, call, calls, ahead):
        assert ahead >= AHEAD
        return [13e-6 if call == self._one_kernel else 53e-6]*calls

    def _profiled(self, call, calls):
        self.compared += call == self._one_kernel
        return [10e-6 if call == self._one_kernel else 50e-6]*calls


def test_what_cupti_times_is_measured_like_the_rest(caplog):
    clock = TwoWays()
    with caplog.at_level(logging.INFO, "benchmarks"):
        theirs = clock.samples(lambda: None, own_streams=True)
    assert theirs == pytest.approx([53e-6]*CALLS)
    assert theirs == pytest.approx(clock.samples(lambda: None))
    assert "gets 3.00 us more" in caplog.text
    once = clock.compared
    clock.samples(lambda: None, 0.5, own_streams=True)
    assert clock.compared == once > 0


def test_a_row_against_a_limit():
    measure = host.Measure("import", 1.0, {"nbfused": lambda: 0.1,
                                           "limit": lambda: 0.2, "cupy": lambda: 9.0})
    (row,) = host.rows([measure], ["nbfused", "torch"])
    assert row.best == ("limit", 0.2)
    assert row.ratio == pytest.approx(2)
    assert json.loads(json.dumps(row.record()))["share"] is None


def test_what_needs_a_library_is_where_asv_does_not_look():
    found = [m.name for m in pkgutil.walk_packages(benchmarks.__path__)]
    assert "record" in found
    assert not any("of_" in name for name in found)


def run_of_asv(folder, **results):
    """The file that asv leaves in `folder`."""
    path = folder / "0123abcd-existing-py_home_me_bin_python.json"
    path.write_text(json.dumps({
        "commit_hash": "0123abcdef", "env_name": "existing-py_home_me_bin_python",
        "python": "/home/me/bin/python", "params": {"python": "/home/me/bin/python"},
        "result_columns": ["result", "params", "version", "samples"],
        "results": results}))
    return path


def test_asv_finds_no_benchmark_twice():
    """A class that a module has imported counts as that module's own, too."""
    timed = re.compile("(time|track|peakmem|mem|timeraw)_")
    for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        if not module.name.startswith("benchmarks.bench_"):
            found = vars(importlib.import_module(module.name))
            assert not [name for name, x in found.items() if isinstance(x, type)
                        and not name.startswith("_") and any(map(timed.match, dir(x)))]


def test_runs_of_one_commit_are_kept_together(tmp_path):
    """Another benchmark is beside what is there, the same one takes its place."""
    record._write(tmp_path, {
        "commit_hash": "0123abcdef", "env_name": f"existing-py{record._PYTHON}",
        "result_columns": ["result", "params", "version"], "results": {"table": [1]}})
    for measured in (2, 3):
        record._clean(run_of_asv(tmp_path, cold=[measured]), "0123abcdef")
    (left,) = tmp_path.iterdir()
    found = json.loads(left.read_text())
    assert found["results"] == {"table": [1], "cold": [3]}
    assert found["result_columns"][-1] == "samples"


def test_recorded_results_name_no_folder_of_the_computer(tmp_path):
    record._clean(run_of_asv(tmp_path), "4567abcdef")
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("4567abcd-existing-py3.")
    assert "home" not in left.read_text()
    assert json.loads(left.read_text())["commit_hash"] == "4567abcdef"


def test_the_results_in_the_repository_name_no_folder():
    files = list(Path(benchmarks.__file__).parent.glob("results/**/*.json"))
    folder = re.compile(r"[\" ](/tmp|/home|/root)")
    assert not [f for f in files if folder.search(f.read_text())]


def test_a_table_is_kept_as_results(tmp_path, monkeypatch):
    """Times of what asv knows by the same name; what the table lacks is NaN."""
    known = json.loads((record.HERE/"results"/"benchmarks.json").read_text())
    monkeypatch.setattr(record, "HERE", tmp_path)
    monkeypatch.setattr(record, "_git", lambda *words: "1234567890")
    (tmp_path/"results").mkdir()
    (tmp_path/"results"/"benchmarks.json").write_text(json.dumps(known))
    table = tmp_path/"table.json"
    table.write_text(json.dumps([
        {"name": "swish 67.1 M", "dtype": "float32", "unit": "B", "work": 6e8,
         "seconds": {"nbfused": 2e-4, "torch": 1e-4}},
        {"name": "launch", "dtype": "float32", "unit": "", "work": None,
         "seconds": {"nbfused": 1e-6}}]))
    assert record.main(["gpu", "--table", str(table), "--python", "3.12"]) == 0
    kept = tmp_path/"results"/"gpu"/"12345678-existing-py3.12.json"
    found = json.loads(kept.read_text())
    (times, (names,), version), = found["results"].values()
    assert times[names.index("'cuda: swish 67.1 M, float32'")] == pytest.approx(1/3)
    assert sum(x == x for x in times) == 1
    assert len(times) == len(names)
    assert version == known["bench_workloads.Bytes.track_time"]["version"]
    entry = tmp_path/"results"/"gpu"/"machine.json"
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "num_cpu": "8"}))
    record.main(["gpu", "--table", str(table), "--python", "3.12"])
    assert json.loads(kept.read_text())["params"]["num_cpu"] == "8"  # the same machine


@pytest.mark.parametrize(("seen", "one"), [(None, "0"), ("2,3", "2"), ("1", "1")])
def test_the_table_is_of_one_gpu(monkeypatch, seen, one):
    """JAX makes another one current, where events would see nothing."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", seen or "")
    if seen is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    peers._one_gpu()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == one


@pytest.mark.parametrize("problem", per_sample.PROBLEMS, ids=lambda p: p.name)
def test_gradients_of_each_sample_are_right(problem):
    for name in ("vmap", "by hand"):
        assert per_sample.check(problem, per_sample.ways(problem)[name], 7) < 1e-5

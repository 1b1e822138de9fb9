"""Sequences of calls as graphs: what waits for what, addresses that move."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call, SequencedCall, SequencedExchange
from nbfused.cuda.graphs import captured, graph, workspaces
from nbfused.cuda.graphs import sequence as sequences
from nbfused.cuda.graphs.sequence import GraphSequence
from nbfused.cuda.graphs.waits import waits_of
from nbfused.cuda.runtime.notes import Address, noted


def call(*spans, outputs=1):
    return SequencedCall(None, Call((), (), ()), (), (), spans, outputs)


def test_addresses_say_where_they_come_from():
    a = Address(4096, 3, 64)
    for b in (a + 16, 16 + a):
        assert (int(b), b.index, b.offset) == (4112, 3, 80)
    assert type(a + a) is int
    assert type(a % 16) is int
    with noted() as notes:
        assert notes == []
        assert notes.memory is None


def _reaches(waits, k, j):
    return any(i == j or _reaches(waits, i, j) for i in waits[k])


@pytest.mark.parametrize("seed", range(20))
def test_calls_wait_for_those_that_share_memory_with_them(seed):
    """Every conflict is waited for, if only through others, and nothing twice."""
    rng = np.random.default_rng(seed)
    calls = [call(*[(int(i), int(low), int(low + size)) for i, low, size in zip(
        rng.integers(3, size=3), rng.integers(12, size=3), rng.integers(1, 6, size=3),
        strict=True)], outputs=int(rng.integers(1, 3))) for _ in range(12)]
    waits = list(waits_of(calls))
    for k, mine in enumerate(calls):
        for j, other in enumerate(calls[:k]):
            conflict = any(
                a[0] == b[0] and max(a[1], b[1]) < min(a[2], b[2])
                for x, y in ((mine, other), (other, mine))
                for a in x.spans[3 - x.outputs:] for b in y.spans)
            assert _reaches(waits, k, j) >= conflict
        for j in waits[k]:
            assert not any(_reaches(waits, i, j) for i in waits[k] if i != j)


def test_calls_that_share_nothing_wait_for_nothing():
    assert list(waits_of([call((0, 0, 8), (1, 0, 8)), call((0, 0, 8), (1, 8, 16)),
                        call((0, 0, 8), (2, 0, 8))])) == [[], [], []]


def test_calls_between_processes_wait_for_one_another():
    """Whatever else they share: every rank makes them in one order."""
    between = [SequencedExchange(None, ((k, 0, 8), (k, 0, 8)), set()) for k in range(3)]
    calls = [between[0], call((0, 0, 8), (3, 0, 8)), between[1], between[2],
             call((1, 0, 8), (3, 0, 8))]
    assert list(waits_of(calls)) == [[], [0], [0], [2], [2, 1]]


class Driver:
    """A driver's library that does nothing, and writes down what it was asked."""

    def __init__(self):
        self.calls, self.last = [], 0

    def __getattr__(self, name):
        def function(*args):
            self.calls.append((name, args))
            out = {"cuStreamEndCapture": 1}.get(name, 0)
            if name.startswith(("cuStreamCreate", "cuStreamEnd", "cuGraphAdd",
                                "cuGraphInstantiate", "cuGraphCreate")):
                self.last += 1
                args[out]._obj.value = self.last
            return 0

        return function

    def named(self, part):
        return [args for name, args in self.calls if part in name]


def test_captured_calls_are_nodes_after_those_that_they_wait_for(monkeypatch):
    driver = Driver()
    for module in (captured, graph):
        monkeypatch.setattr(module, "driver_library", lambda: driver)
    captured._stream.cache_clear()
    streams = []
    graphs = [captured.Captured(0, streams.append) for _ in range(3)]
    assert len(set(streams)) == len(driver.named("StreamCreate")) == 1
    assert [int(args[1].value) for args in driver.named("BeginCapture")] == [2]*3
    made = graph.Graph([captured.CapturedNode(one, after) for one, after in zip(
        graphs, ([], [0], [0, 1]), strict=True)])
    handles = [args[0]._obj.value for args in driver.named("AddChildGraphNode")]
    for args, one, after in zip(driver.named("AddChildGraphNode"), graphs,
                                ([], [0], [0, 1]), strict=True):
        assert [args[2][k] for k in range(args[3].value)] == [handles[k] for k in after]
        assert args[4] is one.graph
    assert [args[2].value for args in driver.named("Instantiate")] == [8]
    made.launch(5)
    assert len(driver.named("GraphLaunch")) == 1
    captured._stream.cache_clear()


def test_a_capture_that_fails_ends(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(captured, "driver_library", lambda: driver)
    captured._stream.cache_clear()

    def fail(stream):
        raise RuntimeError("no such thing in a graph")

    with pytest.raises(RuntimeError, match="no such thing"):
        captured.Captured(0, fail)
    assert len(driver.named("EndCapture")) == len(driver.named("BeginCapture")) == 1
    captured._stream.cache_clear()


def test_numbers_of_other_bits_are_others():
    nan = float("nan")
    same = [(1, 1), (0.5, 0.5), (nan, nan), (None, None)]
    others = [(0.0, -0.0), (nan, float("nan")), (1j, complex(0, 1)), (1, 2)]
    assert all(sequences._is_same(*pair) for pair in same)
    assert not any(sequences._is_same(*pair) for pair in others)


# --- on a GPU

pytestmark = pytest.mark.filterwarnings("ignore:fuse.*decorated again")


def _step(weights, x, rate):
    """Products, a row, reductions and maps; some do not depend on one another."""
    def loss(*parameters):
        hidden = nf.ops.linear(x, parameters[0], parameters[1], activation="gelu")
        return nf.ops.sum(nf.ops.softmax(hidden)*nf.ops.matmul(hidden, parameters[2]))

    found, gradients = nf.value_and_grad(loss, argnums=(0, 1, 2))(*weights)
    for weight, gradient in zip(weights, gradients, strict=True):
        weight -= rate*gradient
    return found


def _tensors(torch, seed, dtype="float32", width=48):
    rng = np.random.default_rng(seed)
    made = [torch.tensor(rng.normal(size=s)*0.2, dtype=getattr(torch, dtype),
                         device="cuda")
            for s in ((width, width), (width,), (width, width), (32, width))]
    return made[:3], made[3]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def graphs(monkeypatch):
    """Counts of the launches of graphs and of those that were refused."""
    counts = [0, 0]
    run = GraphSequence.__call__

    def counted(self, *given):
        made = run(self, *given)
        counts[not made] += 1
        return made

    monkeypatch.setattr(GraphSequence, "__call__", counted)
    return counts


def _close(torch, found, expected, dtype="float32"):
    tolerance = 2e-5 if dtype == "float32" else 3e-2
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.cuda
@pytest.mark.parametrize(("dtype", "width"), [
    ("float32", 48), ("float32", 1024), ("bfloat16", 64), ("bfloat16", 1024)])
def test_a_step_is_one_graph_and_equals_its_eager_run(dtype, width, torch, graphs):
    """Tensors, moments and batches at new addresses in some of the calls."""
    fused = nf.fuse(_step)
    mine, x = _tensors(torch, 0, dtype, width)
    theirs = [w.clone() for w in mine]
    for k in range(12):
        if k % 4 == 3:
            mine, x = [w.clone() for w in mine], x.clone()
        rate = 0.01/(k + 1)
        loss = fused(mine, x, rate)
        expected = _step(theirs, x, rate)
        _close(torch, [loss, *mine], [expected, *theirs], dtype)
    assert graphs == [10, 0]


@pytest.mark.cuda
def test_ten_thousand_replays_with_arguments_that_move(torch, graphs):
    fused = nf.fuse(lambda x, y, n: nf.ops.softmax(x*n + y).sum(0)
                    - nf.ops.sum(y, axis=0))
    sets = [[torch.rand(40, 33, device="cuda") for _ in range(2)] for _ in range(7)]
    rng, found, wanted = np.random.default_rng(0), [], []
    for k in range(10_000):
        (x, y), n = sets[rng.integers(7)], float(rng.normal())
        made = fused(x, y, n)
        if k % 97 == 0:
            found.append(made)
            wanted.append(torch.softmax(x*n + y, -1).sum(0) - y.sum(0))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-5)
    assert graphs == [9_998, 0]


@pytest.mark.cuda
def test_streams_and_threads_share_a_plan(torch, graphs):
    fused = nf.fuse(_step)
    shared, x = _tensors(torch, 1)
    for _ in range(3):
        fused([w.clone() for w in shared], x, 0.1)
    expected = [w.clone() for w in shared]
    for _ in range(30):
        _step(expected, x, 0.01)
    made, errors = [None]*6, []

    def work(k):
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.default_stream())
            with torch.cuda.stream(stream):
                own = [w.clone() for w in shared]
                for _ in range(30):
                    fused(own, x, 0.01)
                made[k] = own
            stream.synchronize()
        except BaseException as error:
            errors.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for own in made:
        _close(torch, own, expected)
    assert graphs[0] >= 180


@pytest.mark.cuda
def test_a_stream_that_is_captured_gets_the_launches(torch, graphs):
    fused = nf.fuse(_step)
    mine, x = _tensors(torch, 2)
    theirs = [w.clone() for w in mine]
    for _ in range(4):
        fused(mine, x, 0.01)
        _step(theirs, x, 0.01)
    torch.cuda.synchronize()
    before, graph = graphs[0], torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = fused(mine, x, 0.01)
    assert graphs[0] == before
    for _ in range(5):
        graph.replay()
        expected = _step(theirs, x, 0.01)
    torch.cuda.synchronize()
    _close(torch, [loss, *mine], [expected, *theirs])


@pytest.mark.cuda
def test_memory_is_given_back_when_the_function_dies(torch, monkeypatch):
    from nbfused.cuda.runtime.driver import Device

    dropped, drop = [], Device.drop
    monkeypatch.setattr(Device, "drop", lambda self, *given, **options: (
        dropped.append(given), drop(self, *given, **options)))
    fused = nf.fuse(lambda x: (nf.ops.sum(x), nf.ops.sum(x*x), nf.ops.softmax(x*2.0)))
    x = torch.rand(1 << 22, device="cuda")
    for _ in range(5):
        fused(x)
    plans = [p for p in fused._plans._states.values() if not isinstance(p, bool)]
    assert [len(p.sequence._instances) for p in plans] == [1]
    del plans, fused
    gc.collect()
    assert dropped


@pytest.mark.cuda
def test_large_workspaces_are_lent_for_each_run(torch, graphs, monkeypatch):
    """Sums over rows, whose parts each block leaves in memory, which moves."""
    from nbfused.cuda.runtime.driver import Device

    monkeypatch.setattr(workspaces, "_MOST_BYTES", 0)
    lent, lend = [], Device.workspace

    def watched(self, size, stream):
        lent.append(size)
        if len(lent) % 2:  # the next run's lies elsewhere
            kept.append(self.allocate(size, stream))
        return lend(self, size, stream)

    kept = []

    def function(x, w, scale, n):
        def loss(w, scale):
            normed = nf.ops.layer_norm(x, scale, scale)
            return nf.ops.sum((nf.ops.matmul(normed, nf.ops.transpose(w))*n)**2.0)

        value, (slope, slopes) = nf.value_and_grad(loss, argnums=(0, 1))(w, scale)
        return value, slope, slopes

    fused = nf.fuse(function)
    x = torch.randn(4096, 256, device="cuda", dtype=torch.bfloat16)
    w = torch.randn(100, 275, device="cuda", dtype=torch.bfloat16)[:, 3:259]
    scale = torch.rand(256, device="cuda", dtype=torch.bfloat16)
    for k in range(8):
        if k == 3:
            monkeypatch.setattr(Device, "workspace", watched)
        n = 0.5 + k
        expected = function(x, w, scale, n)
        for found, right in zip(fused(x, w, scale, n), expected, strict=True):
            torch.testing.assert_close(found, right, rtol=2e-2, atol=2e-2*float(
                right.abs().max()))
    assert graphs[0] >= 5
    assert graphs[1] == 0
    assert lent
    for address in kept:
        Device.drop(sequences.device(0), address, busy=True)


@pytest.mark.cuda
def test_what_is_added_to_zeros_is_part_of_the_graph(torch, graphs):
    def step(table, tokens, w):
        return nf.value_and_grad(lambda table: nf.ops.sum(nf.ops.tanh(
            nf.ops.matmul(nf.ops.take(table, tokens, axis=0), w))))(table)

    fused = nf.fuse(step)
    for k in range(6):
        table, w = torch.randn(50, 16, device="cuda"), torch.randn(16, 8, device="cuda")
        tokens = torch.randint(50, (30,), device="cuda")
        _close(torch, fused(table, tokens, w), step(table, tokens, w))
        assert graphs == [max(0, k - 1), 0]


@pytest.mark.cuda
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_the_sign_of_zero_is_a_number_s_own(zero, torch):
    fused = nf.fuse(lambda x, n: (x*n, nf.ops.sum(x*n), nf.ops.softmax(x) + n))
    x = torch.ones(5, device="cuda")
    for n in (1.0, 1.0, 1.0, -zero, zero):
        made = fused(x, n)[0]
    assert np.signbit(made.cpu().numpy()).tolist() == [bool(np.signbit(zero))]*5

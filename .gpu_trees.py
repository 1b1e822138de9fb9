"""What this branch changed, old beside new.  python .gpu_trees.py [part ...]"""
import gc, os, sys, time, traceback
from contextlib import ExitStack
from unittest.mock import patch
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np
import nbfused as nf
print("nbfused", nf.__file__, flush=True)
import torch
from benchmarks import programs as B
from benchmarks.programs import PROGRAMS, Program, RATE
from nbfused.cuda import CudaBackend
from nbfused.cuda.runtime import graph, sequence
from nbfused.kernels.fusing import constants
from nbfused.specs.fusion import partition
from nbfused.cuda.row import launcher as row_launcher
print(torch.__version__, torch.cuda.get_device_name(0), flush=True)

SMALL, LARGE = PROGRAMS["cuda"]

OLD = {
    "rows": [(partition, "join_rows", lambda launches, wanted, stores: list(launches)),
             (partition, "joins_row", lambda node: False),
             (constants.Constants, "inputs", lambda self, spec, values: (spec, tuple(values)))],
    "one block": [(row_launcher, "ALONE", 0)],
    "headers": [(CudaBackend, "headers", None)],
    "beside": [(sequence, "is_small", lambda launched, processors: False)],
    "graph start": [(graph.Graph, "start", lambda self, stream, addresses: None)],
}

def without(*names):
    st = ExitStack()
    for n in names:
        for t, k, v in OLD[n]:
            st.enter_context(patch.object(t, k, v))
    return st

def make(program):
    parameters, x, labels = B._arrays(program, "cuda")
    moments = [(p * 0, p * 0) for p in parameters]
    exec_ns = {}
    code = compile(open(B.__file__).read(), B.__file__, "exec")  # a function of its own: no warning, no plan of others
    import types
    module = types.ModuleType("programs_copy"); module.__file__ = B.__file__
    sys.modules["programs_copy"] = module
    exec(code, module.__dict__)
    step = nf.fuse(module._step)
    return step, (parameters, moments, x, labels)

def ready(program, n=B.CHECKED):
    step, arrays = make(program)
    start = time.perf_counter()
    losses = []
    for c in range(n):
        t = time.perf_counter()
        losses.append(float(step(*arrays, RATE, c + 1).float()))
        torch.cuda.synchronize()
        if c < 3: print(f"    call {c+1}: {time.perf_counter()-t:.2f} s", flush=True)
    return step, arrays, losses

def bench(step, arrays, n=300, turns=7):
    best, host = [], []
    c = 10
    for _ in range(turns):
        torch.cuda.synchronize(); s = time.perf_counter()
        for _ in range(n):
            c += 1; loss = step(*arrays, RATE, c)
        torch.cuda.synchronize(); best.append((time.perf_counter() - s) / n)
    for _ in range(turns):
        torch.cuda.synchronize(); s = time.perf_counter()
        for _ in range(20):
            c += 1; loss = step(*arrays, RATE, c)
        host.append((time.perf_counter() - s) / 20); torch.cuda.synchronize()
    return np.median(best) * 1e6, np.median(host) * 1e6

def plan_of(step):
    return step._readers[0]._last[1][1] if step._readers else None

def device_time(step):
    """The graph alone, launched again and again."""
    plan = plan_of(step)
    if plan is None or plan.sequence is None: return float("nan")
    (instance, *_) = plan.sequence._instances.values()
    g = instance._graph
    stream = torch.cuda.current_stream()
    import ctypes
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    found = []
    for _ in range(5):
        torch.cuda.synchronize(); a.record()
        for _ in range(200): g._launch(g._instance, ctypes.c_void_p(stream.cuda_stream))
        b.record(); torch.cuda.synchronize()
        found.append(a.elapsed_time(b) / 200 * 1e3)
    return np.median(found)

def small():
    expected = B._reference(SMALL)
    cases = [("new", ()), ("without graph start", ("graph start",)), ("without headers", ("headers",)),
             ("kernels not side by side", ("beside",)), ("without rows", ("rows",)), ("rows by several blocks", ("one block",)),
             ("as before", tuple(OLD))]
    for name, old in cases:
        try:
            with without(*old):
                step, arrays, losses = ready(SMALL)
                ok = np.allclose(losses, expected, rtol=1e-4, atol=1e-4)
                wall, host = bench(step, arrays)
                dev = device_time(step)
                n = len(step.explain(*arrays, RATE, 1))
                plan = plan_of(step)
                nodes = len(next(iter(plan.sequence._instances.values()))._graph._nodes)
                print(f"small {name:24} right {ok} launches {n} nodes {nodes} wall {wall:.1f} us  host {host:.1f}  graph alone {dev:.1f}", flush=True)
                if not ok: print(losses, expected)
                if name in ("new", "as before"): timeline(step, arrays)
                if name == "new": parts(step, arrays)
        except Exception:
            traceback.print_exc()

TILES = {"now": None, "deep": ((1, 1), (1, 2), 32, 4, 4, 0.3), "stages": ((1, 1), (1, 2), 16, 8, 4, 0.3),
         "one warp": ((1, 1), (1, 1), 32, 4, 8, 0.2), "one warp, shallow": ((1, 1), (1, 1), 16, 4, 8, 0.2)}

def tiles():
    """Other tiles of float32 products: the small one deeper, with more stages, narrower; each in a process of its own."""
    import subprocess
    for name in TILES:
        subprocess.run([sys.executable, os.path.abspath(__file__), "tile"], env={**os.environ, "TILE": name}, timeout=120)

def tile():
    from nbfused.cuda.contract import mma_launch as M
    name = os.environ["TILE"]
    if TILES[name]: M.SHAPES["fma"] = (*M.SHAPES["fma"][:-1], M.Shape(*TILES[name]))
    step, arrays, losses = ready(SMALL)
    ok = np.allclose(losses, B._reference(SMALL), rtol=1e-4, atol=1e-4)
    wall, host = bench(step, arrays)
    print(f"tiles {name:20} right {ok} wall {wall:.1f} host {host:.1f} graph alone {device_time(step):.1f}", flush=True)
    timeline(step, arrays)

def parts(step, arrays):
    """Host time of the parts of a call."""
    args = (*arrays, RATE, 5)
    out = step._scope.look(); reader = step._readers[0]
    def t(f, n=500):
        b = 1e9
        for _ in range(5):
            torch.cuda.synchronize(); s = time.perf_counter()
            for _ in range(n): f()
            b = min(b, (time.perf_counter() - s) / n)
        return b * 1e6
    leaves, layout, ptr = reader.read(args, {}, out.arrays)
    plan = reader.find(layout, out.keys)
    from dataclasses import replace
    seen = []
    quiet = replace(plan, sequence=lambda a, n, s: bool(seen.append((a, n)) or True)); quiet.run(leaves, ptr)
    A, N = seen[-1]
    quiet = replace(plan, sequence=lambda a, n, s: True)
    inst = next(iter(plan.sequence._instances.values()))
    print(f"    parts: look {t(step._scope.look):.1f} read {t(lambda: reader.read(args, {}, out.arrays)):.1f} "
          f"find {t(lambda: reader.find(layout, out.keys)):.1f} plan without launches {t(lambda: quiet.run(leaves, ptr)):.1f} "
          f"sequence, same numbers {t(lambda: plan.sequence(A, N, 0), 20):.1f} native {inst._start is not None}", flush=True)
    k = [0.0]
    def other():
        k[0] += 1e-7; plan.sequence(A, tuple(v + k[0] if isinstance(v, float) else v for v in N), 0)
    print(f"    sequence, other numbers {t(other, 20):.1f}; type of reader {type(reader.read)}", flush=True)

def timeline(step, arrays, count=5):
    """Kernels of one step: when each starts and how long it takes."""
    from torch.profiler import ProfilerActivity, profile
    for c in range(3): step(*arrays, RATE, 100 + c)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as prof:
        for c in range(count): step(*arrays, RATE, 200 + c)
        torch.cuda.synchronize()
    events = sorted((e for e in prof.events() if e.device_type.name == "CUDA"), key=lambda e: e.time_range.start)
    per = len(events) // count
    last = events[-per:]
    if not last: print("    no events"); return
    zero = last[0].time_range.start
    for e in last: print(f"      {e.time_range.start - zero:8.1f} +{e.time_range.end - e.time_range.start:7.1f}  {e.name[:70]}")
    print(f"    {per} kernels, {last[-1].time_range.end - zero:.1f} us from first to last", flush=True)

def clip():
    from benchmarks.programs import _loss
    def step_function(parameters, moments, x, labels, rate, count):
        value, grads = nf.value_and_grad(B._loss, argnums=tuple(range(2, 2 + len(parameters))))(x, labels, *parameters)
        norm = np.sqrt(sum((g * g).sum() for g in grads))
        factor = np.minimum(1.0, 1.0 / norm)
        for p, g, (m, v) in zip(parameters, grads, moments):
            nf.ops.adam_step(p, g * factor, m, v, lr=rate, step=count)
        return value
    for name, old in (("new", ()), ("as before", tuple(OLD))):
        with without(*old):
            f = nf.fuse(step_function, kernel_name="clip")
            parameters, x, labels = B._arrays(SMALL, "cuda")
            moments = [(p * 0, p * 0) for p in parameters]
            arrays = (parameters, moments, x, labels)
            losses = [float(f(*arrays, RATE, c + 1)) for c in range(6)]
            expected = clip_reference()
            ok = np.allclose(losses, expected, rtol=1e-4, atol=1e-4)
            wall, host = bench(f, arrays)
            print(f"clip {name} right {ok} launches {len(f.explain(*arrays, RATE, 1))} wall {wall:.1f} host {host:.1f} graph alone {device_time(f):.1f}", flush=True)

def clip_reference():
    parameters, x, labels = SMALL.numbers()
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
    losses = []
    for count in range(1, 7):
        loss, gradients = B._by_hand(parameters, x, labels)
        losses.append(loss)
        norm = np.sqrt(sum((g * g).sum() for g in gradients)); factor = min(1.0, 1.0 / norm)
        for p, g, (m, v) in zip(parameters, gradients, moments):
            g = g * factor
            m += 0.1 * (g - m); v += 0.001 * (g * g - v)
            p -= RATE * m / (1 - 0.9**count) / (np.sqrt(v / (1 - 0.999**count)) + 1e-8)
    return losses

def large():
    expected = B._reference(LARGE) if os.environ.get("REFERENCE") else None
    for name, old in (("new", ()), ("as before", tuple(OLD))):
        with without(*old):
            step, arrays, losses = ready(LARGE)
            print("   ", losses, flush=True)
            wall, host = bench(step, arrays, 30, 5)
            print(f"large {name} launches {len(step.explain(*arrays, RATE, 1))} wall {wall:.1f} host {host:.1f} graph alone {device_time(step):.1f}", flush=True)
            timeline(step, arrays, 3)

def moved():
    """10,000 replays with arguments that move between four sets of arrays, against the same by programs without plans."""
    rng = np.random.default_rng(0)
    step, (parameters, moments, x, labels) = make(SMALL)
    sets = [([p.clone() for p in parameters], [(m.clone(), v.clone()) for m, v in moments], x.clone(), labels.clone()) for _ in range(4)]
    for s in sets: step(*s, RATE, 1)
    import copy
    before = [copy.deepcopy(s) for s in sets]
    torch.cuda.synchronize()
    for c in range(2, 2502):
        for k in rng.permutation(4): step(*sets[k], RATE, c)
    torch.cuda.synchronize()
    first = sets[0]
    worst = max(float((a - b).abs().max()) for s in sets[1:] for a, b in zip(s[0], first[0]))
    print("moved: four sets of arrays, the same steps each: largest difference", worst, flush=True)
    assert worst == 0.0

def block():
    def block_of(x, g, b, w1, b1, w2, b2):
        h = nf.ops.layer_norm(x, g, b)
        h = nf.ops.linear(h, w1, b1, activation="gelu")
        return x + nf.ops.linear(h, w2, b2)
    def both_of(x, bar, *ps):
        y, pull = nf.vjp(block_of, x, *ps)
        return y, pull(bar)
    import torch.nn.functional as F
    def theirs(x, g, b, w1, b1, w2, b2):
        h = F.layer_norm(x, (x.shape[-1],), g, b)
        return x + F.gelu(h @ w1 + b1) @ w2 + b2
    N, C, H = 8192, 2048, 8192
    R = lambda *s: (torch.randn(*s, device="cuda") * 0.02).bfloat16()
    args = [R(N, C), R(C) + 1, R(C), R(C, H), R(H), R(H, C), R(C)]
    bar = R(N, C)
    f = nf.fuse(both_of, kernel_name="block")
    t = time.perf_counter(); f(args[0], bar, *args[1:]); torch.cuda.synchronize(); print(f"block: first call {time.perf_counter()-t:.1f} s", flush=True)
    for _ in range(3): y, gs = f(args[0], bar, *args[1:])
    leaves = [a.clone().requires_grad_() for a in args]
    def eager():
        for q in leaves: q.grad = None
        out = theirs(*leaves); out.backward(bar); return out
    out = eager()
    for a, b in zip((y, *gs), (out.detach(), *(q.grad for q in leaves))):
        d = ((a.float() - b.float()).norm() / b.float().norm()).item()
        print(f"    difference from torch {d:.4f}")
    compiled = torch.compile(theirs)
    def comp():
        for q in leaves: q.grad = None
        out = compiled(*leaves); out.backward(bar); return out
    ways = {"nbfused": lambda: f(args[0], bar, *args[1:]), "torch": eager}
    if not os.environ.get("NO_COMPILE"):
        try: comp(); ways["compile"] = comp
        except Exception as e: print("compile:", str(e)[:100])
    times = {k: [] for k in ways}
    for _ in range(7):
        for k, w in ways.items():
            torch.cuda.synchronize(); s = time.perf_counter()
            for _ in range(10): w()
            torch.cuda.synchronize(); times[k].append((time.perf_counter() - s) / 10)
    for k, v in times.items(): print(f"block {k:10} {np.median(v)*1e6:9.1f} us", flush=True)
    print(f.explain(args[0], bar, *args[1:]))

if __name__ == "__main__":
    for name in sys.argv[1:] or ("small", "moved", "clip", "tiles", "block", "large"):
        print("==", name, flush=True)
        t = time.perf_counter()
        try: globals()[name]()
        except Exception: traceback.print_exc()
        print(f"== {name} took {time.perf_counter()-t:.1f} s", flush=True)
        gc.collect(); torch.cuda.empty_cache()

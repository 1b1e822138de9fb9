"""Readers of arguments: whatever differs from the calls before is noticed."""

from __future__ import annotations

import enum
import threading
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.errors import KernelTypeError, OverlapError, RangeError, ReadOnlyError

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore:fuse.*decorated again")]

Pair = namedtuple("Pair", "a b")
Other = namedtuple("Other", "b a")


def _x(*shape, dtype="f4", seed=0):
    return (np.random.default_rng(seed).normal(size=shape) * 5).astype(dtype)


def _known(fused, *args, **kwargs):
    """Call until a generated function reads the arguments; check that it does."""
    for _ in range(4):
        fused(*args, **kwargs)
    assert _is_known(fused, *args, **kwargs)
    return fused


def _is_known(fused, *args, **kwargs):
    outside = fused._scope.look()
    reader, found = fused._read(args, kwargs, outside)
    return reader is not None and reader.find(found[1], outside.keys) is not None


def _same(fused, *args, **kwargs):
    """The fused function and the function give the same, a few calls in a row."""
    for _ in range(4):
        found, expected = fused(*args, **kwargs), fused.function(*args, **kwargs)
        assert np.asarray(found).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def _sum(items):
    total = items[0] * 2
    for k, x in enumerate(items[1:]):
        total = total + x * (k + 3)
    return total


@pytest.mark.parametrize("replaced", [
    _x(4, 3, seed=1), _x(3), _x(1, 3), _x(4, 3, dtype="f8"), _x(4, 3, dtype="i4"),
    _x(3, 4).T, _x(8, 3)[::2], np.broadcast_to(_x(3), (4, 3)), 2.5, 3, True,
    np.float64(1.5), _x(4, 3)[:, ::-1],
    _x(13).view("u1")[1:49].view("f4").reshape(4, 3),
])
def test_a_list_in_which_an_item_is_replaced(replaced):
    items = [_x(4, 3), _x(4, 3, seed=2), _x(4, 3, seed=3)]
    fused = _known(nf.fuse(_sum), items)
    items[1] = replaced
    if getattr(getattr(replaced, "flags", None), "aligned", True):
        _same(fused, items)
    else:
        with pytest.raises(KernelTypeError):
            fused(items)
    items[1] = _x(4, 3, seed=5)
    _same(fused, items)
    assert _is_known(fused, items)


def test_a_list_that_grows_and_shrinks():
    items = [_x(4), _x(4, seed=1)]
    fused = _known(nf.fuse(_sum), items)
    items.append(_x(4, seed=2))
    _same(fused, items)
    del items[1:]
    _same(fused, items)
    _same(fused, tuple(items))
    _same(fused, [_x(4), _x(4)])


def test_arrays_that_are_resized_reshaped_and_retyped_in_place():
    fused = nf.fuse(lambda x, y: (x * 2).sum() + (y.T + 1).sum(0).max())
    x, y = _x(6, 4), _x(3, 3)
    _known(fused, x, y)
    x.resize((2, 4), refcheck=False)
    _same(fused, x, y)
    x.shape = 8
    _same(fused, x, y)
    y.dtype = "i4"
    _same(fused, x, y)
    y.shape = (1, 9)
    _same(fused, x, y)


def test_an_array_in_the_place_of_one_that_is_gone():
    fused = nf.fuse(lambda x: x * 2 + 1)
    _known(fused, _x(5, 3))
    for shape, dtype in [((3, 5), "f4"), ((15,), "f4"), ((5, 3), "i4"), ((5, 3), "f4")]:
        _same(fused, _x(*shape, dtype=dtype))


def test_other_byte_orders_and_types_of_one_size_are_noticed():
    fused = _known(nf.fuse(lambda x: x * 2), _x(4))
    for dtype in ("i4", "u4", "i8", "c8"):
        _same(fused, np.arange(4).astype(dtype))
    with pytest.raises(KernelTypeError):
        fused(_x(4).astype(">f4"))


def test_keys_of_a_dictionary_that_are_reordered_and_renamed():
    def first(items):
        a, *rest = items.values()
        return sum(rest, a * len(next(iter(items))))

    x, y = _x(4), _x(4, seed=1)
    fused = _known(nf.fuse(first), {"x": x, "long": y})
    for items in ({"long": y, "x": x}, {"x": y, "long": x}, {"xyz": x, "long": y},
                  {"x": x}, {"x": x, "long": y, "z": x}):
        _same(fused, items)
    _same(fused, OrderedDict(long=y, x=x))


def test_keys_that_are_equal_and_not_the_same():
    fused = nf.fuse(lambda items: items[1] * (2 if type(next(iter(items))) is int
                                              else 3))
    x = _x(4)
    _known(fused, {1: x})
    np.testing.assert_array_equal(fused({True: x}), x * 3)
    np.testing.assert_array_equal(fused({1: x}), x * 2)


def test_named_tuples_of_other_classes():
    def difference(pair):
        return pair.a - 2 * pair.b if hasattr(pair, "a") else pair[0] * pair[1]

    x, y = _x(4), _x(4, seed=1)
    fused = _known(nf.fuse(difference), Pair(x, y))
    for pair in (Other(x, y), (x, y), [x, y], Pair(y, x), Pair(x, 2.0)):
        _same(fused, pair)


def test_containers_that_say_themselves_what_they_hold_are_not_known():
    class Mine(list):
        def __iter__(self):
            return reversed([self[k] for k in range(len(self))])

    fused, items = nf.fuse(_sum), [_x(4), _x(4, seed=1)]
    _known(fused, items)
    for _ in range(6):
        fused(Mine(items))
    assert not _is_known(fused, Mine(items))


NUMBERS = [3, True, 2.5, np.float32(2), np.int8(2), np.bool_(True), 2 + 1j, 2**40]


@pytest.mark.parametrize("first", NUMBERS[:4])
def test_a_number_of_another_type(first):
    fused = _known(nf.fuse(lambda x, n: x * n + n), _x(4), first)
    for n in NUMBERS:
        _same(fused, _x(4), n)
    with pytest.raises(RangeError):
        fused(_x(4), 2**70)


def test_members_of_enumerations_are_constant():
    class Mode(enum.IntEnum):
        A = 1
        B = 2

    fused = nf.fuse(lambda x, mode: x * 2 if mode is Mode.A else x * 3)
    x = _x(4)
    _known(fused, x, Mode.A)
    np.testing.assert_array_equal(fused(x, Mode.B), x * 3)
    np.testing.assert_array_equal(fused(x, 1), x * 3)
    np.testing.assert_array_equal(fused(x, Mode.A), x * 2)


def test_numbers_computed_on_the_host_that_change_their_type():
    _same(_known(nf.fuse(lambda x, n: x * 2 ** n), _x(4), 3), _x(4), 2)
    fused = _known(nf.fuse(lambda x, n: x * 2 ** n), _x(4), 3)
    np.testing.assert_allclose(fused(_x(4), -1), _x(4) / 2)  # an int, then a float
    _same(fused, _x(4), 3)


def test_subclasses_of_arrays():
    class Notes(np.ndarray):
        pass

    class Unit(np.ndarray):
        def __array_ufunc__(self, *args, **kwargs):
            raise AssertionError

    fused = _known(nf.fuse(lambda x: x * 2), _x(4))
    np.testing.assert_array_equal(fused(_x(4).view(Notes)), _x(4) * 2)
    with pytest.raises(KernelTypeError):
        fused(_x(4).view(Unit))
    with pytest.raises(KernelTypeError):
        fused(np.ma.masked_array(_x(4)))


def test_variables_that_come_to_require_a_gradient():
    x = nf.Variable(_x(4))
    fused = _known(nf.fuse(lambda x: (x * x).sum()), x)
    x.requires_grad = True
    fused(x).backward()
    np.testing.assert_allclose(x.grad, 2 * _x(4))
    with nf.no_grad():
        assert not fused(x).requires_grad
        assert _is_known(fused, x)
    x.requires_grad = False
    assert not fused(x).requires_grad
    assert isinstance(fused(x.data), np.generic | np.ndarray)


def test_a_variable_that_is_given_other_data():
    x = nf.Variable(_x(4))
    fused = _known(nf.fuse(lambda x: x * 2), x)
    x.data = _x(5)
    np.testing.assert_array_equal(fused(x).data, _x(5) * 2)
    x.data = _x(4, dtype="i4")
    np.testing.assert_array_equal(fused(x).data, _x(4, dtype="i4") * 2)


def test_known_arguments_are_traced_inside_of_other_functions():
    inner = _known(nf.fuse(lambda x: x * 2), _x(4))
    outer = nf.fuse(lambda x: inner(x) + 1)
    for _ in range(4):
        np.testing.assert_array_equal(outer(_x(4)), _x(4) * 2 + 1)
    assert len(outer.explain(_x(4))) == 1
    np.testing.assert_array_equal(
        nf.grad(lambda x: inner(x).sum())(_x(4)), np.full(4, 2, "f4"))


def test_writes_are_noted_for_the_tape():
    x = nf.Variable(_x(4), requires_grad=True)
    update = nf.fuse(lambda y: y.__iadd__(1))
    other = _x(4)
    _known(update, other)
    saved = _x(4)
    loss = (x * nf.Variable(saved)).sum()
    update(saved)
    with pytest.raises(nf.errors.InplaceModificationError):
        loss.backward()


def test_constants_and_globals_that_change():
    scale = 2.0

    def function(x, mode, shape=(2, 2), flag=None):
        y = x * scale
        y = y * 3 if mode == "triple" else y
        y = y + 1 if flag else y
        return y.reshape(shape)

    x = _x(4)
    fused = _known(nf.fuse(function), x, "triple")
    _same(fused, x, "double")
    _same(fused, x, "triple", (4, 1))
    _same(fused, x, "triple", flag="yes")
    _same(fused, mode="triple", x=x)
    scale = 5.0
    _same(fused, x, "triple")


def test_lists_of_constants_may_change():
    fused = nf.fuse(lambda x, shape: (x * 2).reshape(shape).sum(0) + 1)
    shape = [2, 2]
    for _ in range(4):
        assert fused(_x(4), shape).shape == (2,)
    shape[:] = 4, 1
    assert fused(_x(4), shape).shape == (1,)


def test_arguments_by_name_in_any_order():
    fused = nf.fuse(lambda x, y, n=1: x * 2 + y * n)
    x, y = _x(4), _x(4, seed=1)
    _known(fused, x, n=3, y=y)
    _same(fused, x, y=y, n=4)
    _same(fused, x, n=y, y=3)
    _same(fused, x, y)
    _same(fused, y=x, n=2, x=y)
    with pytest.raises(KernelTypeError):
        fused(x, y, 3, n=3)
    with pytest.raises(KernelTypeError):
        fused(x, n=3, z=y)


def test_arguments_that_come_to_overlap_or_to_be_read_only():
    def shift(x, y):
        x += y

    memory = _x(12)
    fused = _known(nf.fuse(shift), _x(12)[:8], _x(12)[4:])
    before = memory.copy()
    assert _is_known(fused, memory[:8], memory[4:])
    with pytest.raises(OverlapError):
        fused(memory[:8], memory[4:])
    fixed = _x(12)[:8]
    fixed.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        fused(fixed, _x(12)[4:])
    np.testing.assert_array_equal(memory, before)
    np.testing.assert_array_equal(fixed, _x(12)[:8])


def test_labels_are_checked_at_each_call():
    fused = nf.fuse(lambda x, y: nf.ops.cross_entropy(x, y))
    x, y = _x(4, 3), np.array([0, 1, 2, 1])
    _known(fused, x, y)
    y[2] = 3
    with pytest.raises(RangeError):
        fused(x, y)


def test_settings_are_part_of_the_key():
    fused = _known(nf.fuse(lambda x: x * 2), _x(4))
    with config.override(deterministic=not config.deterministic):
        assert not _is_known(fused, _x(4))
        _same(fused, _x(4))
    assert _is_known(fused, _x(4))


def test_layouts_of_one_structure_take_turns():
    fused = nf.fuse(lambda x, y: x @ y + 1)
    shapes = [((4, 3), (3, 5)), ((2, 3), (3, 5)), ((4, 3), (3, 1))]
    for turn in range(6):
        for a, b in shapes:
            x, y = _x(*a, seed=turn), _x(*b, seed=turn)
            np.testing.assert_allclose(fused(x, y), x @ y + 1, rtol=1e-4, atol=1e-5)
            assert _is_known(fused, x, y) == (turn > 1)
    assert len(fused._readers) == 1


def test_structures_that_never_come_again_are_not_kept():
    fused = nf.fuse(lambda x, key: x * 2)
    for k in range(60):
        fused(_x(4), f"key{k % 15}")
    assert len(fused._readers) <= 8
    fused.clear_cache()
    assert not fused._readers
    _same(fused, _x(4), "key")


def test_threads_share_a_reader_and_a_plan():
    @nf.fuse
    def step(items, n):
        items[0] += items[1] * n
        return items[0].sum(), items[0] * 2

    _known(step, [_x(50), _x(50)], 2.0)
    wrong = []

    def work(seed):
        x, y = _x(50, seed=seed), _x(50, seed=seed + 100)
        for n in range(200):
            expected = x + y * np.float32(n)
            total, double = step([x, y], float(n))
            if not (np.array_equal(x, expected) and np.array_equal(double, x * 2)
                    and np.isclose(total, x.sum(dtype="f8"), rtol=1e-3, atol=1e-2)):
                wrong.append((seed, n))
            x -= y * np.float32(n)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_tensors_that_change_between_calls():
    torch = pytest.importorskip("torch")
    fused = nf.fuse(lambda x, y: x * 2 + y)
    x, y = torch.arange(6.0), torch.ones(6)
    _known(fused, x, y)
    x.resize_(2, 3)
    assert fused(x, torch.ones(2, 3)).shape == (2, 3)
    x.set_(torch.full((6,), 5.0))
    assert fused(x, y).tolist() == [11.0] * 6
    assert _is_known(fused, x, y)
    x.requires_grad_()
    fused(x, y).sum().backward()
    assert x.grad.tolist() == [2.0] * 6
    y.data = torch.ones(6, dtype=torch.float64)
    assert fused(x.detach(), y).dtype == torch.float64

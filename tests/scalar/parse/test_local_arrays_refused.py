"""What local arrays, constants and inner functions cannot be, each refused by name."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import ScalarSyntaxError
from nbfused.op import func
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.source.static import literal, local, unroll


def too_large(x):
    v = local(65)
    return v[0]


def too_large_for_a_variable(x):
    v = [0 for _ in range(65)]
    return v[x]


def out_of_range(x):
    v = local(3)
    v[3] = x
    return v[0]


def out_of_range_below(x):
    return [x, x][-3]


def dynamic_size(x):
    v = local(x)
    return v[0]


def zero_size(x):
    return len(local(0))


def fractional_index(x):
    v = [x, x]
    return v[0.5]


def tuple_changed(x):
    v = (x, x)
    v[0] = 1
    return v


def two_names(x):
    v = [x, x]
    w = v
    v[0] = 1
    return w[0]


def two_names_by_branch(x):
    v, w = [x, x], [1, 2]
    if x > 0:
        w = v
    v[0] = 3
    return w[0]


def two_names_in_a_loop(x):
    v = [x, x]
    w = v
    for k in range(2):
        v[k] = 0
    return w[0]


def a_row_by_name(x):
    m = local((2, 2))
    row = m[0]
    row[1] = x
    return m[0, 1]


@func
def changes(v):
    v[0] = 1


def changed_by_a_call(x):
    v = [x, x]
    changes(v)
    return v[0]


def changed_from_inside(x):
    v = [x, x]

    def change():
        v[0] = 1

    change()
    return v[0]


def unequal_shapes(x):
    v = [x, x]
    v[1] = (x, x)
    return v[0]


def not_unrolled(x):
    for _ in unroll(range(x)):
        x += 1
    return x


def unrolled_too_often(x):
    for _ in unroll(range(100_000)):
        x += 1
    return x


def zeros(x):
    v = np.zeros(3)
    return v[0]


def prints(x):
    print(x)
    return x


def array_method(x):
    v = [x]
    v.append(x)
    return v[0]


def one_row_twice(x):
    v = [[0.0] * 2] * 2
    v[0][0] = x
    return v[1][0]


def one_row_twice_in_a_loop(x):
    v = [[0.0, 1.0], [2.0, 3.0]]
    v[1] = v[0]
    for k in range(2):
        v[0][k] += x
    return v[1][0]


def a_row_that_is_placed(x):
    row, v = [0.0, 1.0], [[2.0, 3.0], [4.0, 5.0]]
    v[0] = row
    row[0] = x
    return v[0][0]


def an_array_that_is_chosen(x):
    v = [x, 2.0]
    w = v if x > 1 else [3.0, 4.0]
    w[0] = 9.0
    return v[0]


def recursive_inside(x):
    def again(a):
        return again(a)

    return again(x)


def chosen_function(x):
    f = abs if x > 0 else nf.exp
    return f(x)


def not_known(x):
    return x * literal(x)


REFUSED = [
    (too_large, "65 elements is too large, at most 64"),
    (too_large_for_a_variable, "65 elements cannot be indexed by a variable"),
    (out_of_range, "index 3 is out of range: there are 3"),
    (out_of_range_below, "index -3 is out of range"),
    (dynamic_size, "an extent must be an integer that is known"),
    (zero_size, "1 or more"), (fractional_index, "must be an integer"),
    (tuple_changed, "a tuple cannot be changed"),
    (two_names, "'v' and 'w' are the same local array"),
    (two_names_by_branch, "are the same local array"),
    (two_names_in_a_loop, "are the same local array"),
    (a_row_by_name, "are the same local array"),
    (one_row_twice, "'v' has one local array or struct in two places"),
    (one_row_twice_in_a_loop, "'v' has one local array or struct in two places"),
    (a_row_that_is_placed, "'row' and 'v' are the same local array"),
    (an_array_that_is_chosen, "a tuple cannot be changed, nor a local array"),
    (changed_by_a_call, "belongs to the caller"),
    (changed_from_inside, "belongs to the caller"),
    (unequal_shapes, "differ in shape"),
    (not_unrolled, "bounds of this range must be known"),
    (unrolled_too_often, "100000 iterations are too many"),
    (zeros, r"nf\.local"), (prints, r"print\(\) is not part .* store"),
    (array_method, "a tuple here, .* has no method 'append'"),
    (recursive_inside, "again calls itself"),
    (chosen_function, "a function that depends on a branch"),
    (not_known, r"nf\.literal\(\) takes a number that is known"),
]


@pytest.mark.parametrize(("pyfunc", "message"), REFUSED, ids=lambda c: getattr(
    c, "__name__", ""))
def test_refused(pyfunc, message):
    with pytest.raises(ScalarSyntaxError, match=message) as caught:
        parse(pyfunc)
    assert caught.value.filename == __file__

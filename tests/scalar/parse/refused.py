"""Functions outside the scalar language, with a part of what is said about each."""

from __future__ import annotations

import math

import numpy as np

from nbfused.op import func
from nbfused.scalar.language import names as nf

TABLE = {"a": 1}
EMPTY = None
SCALE = 2


def one(x):
    return x


def effect(x):
    nf.atomic_add(x, 0, 1)


def recursive(x):
    return recursive(x - 1) if x > 0 else 0


@func
def recursive_func(x):
    return recursive_func(x)


def text_constant(x):
    return "x"


def comprehension(x):
    return sum(k for k in range(3) if k > x)


def walrus(x):
    return (y := x) + y


def with_statement(x):
    with open(x):
        return x


def an_assertion(x):
    assert x > 0
    return x


def an_import(x):
    import math

    return math.exp(x)


def raising(x):
    raise ValueError


def delete(x):
    del x


def for_over_number(x):
    for k in x:
        x += k
    return x


def float_range(x):
    for _ in range(2.5):
        x += 1
    return x


def zero_step(x):
    for _ in range(0, 3, 0):
        x += 1
    return x


def no_bounds(x):
    for _ in range():
        x += 1
    return x


def loop_else(x):
    for _ in range(3):
        x += 1
    else:
        x = 0
    return x


def attribute_store(x):
    x.y = 1


def slices(x):
    return x[1:]


def index_of_number(x):
    return SCALE[x]


def tuple_index(x):
    return (x, x)[2]


def unknown_attribute(x):
    return x.shape


def unknown_module_attribute(x):
    return math.nothing(x)


def misspelt(x):
    return nf.sigmod(x)


class Library:
    """Another library, with a function of a name that nbfused has."""

    sigmoid = np.vectorize(math.exp)


def function_of_a_library(x):
    return Library.sigmoid(x)


def method_of_an_array(x):
    return x.exp()


def undefined(x):
    return y + x  # noqa: F821


def one_path(x):
    if x > 0:
        z = x
    return z


def only_in_loop(x):
    for i in range(3):
        z = i
    return z


def before_assignment(x):
    y = math.exp(y)  # noqa: F821
    return y


def loop_variable(x):
    for i in range(3):  # noqa: B007
        x += 1
    return i


def deleted_import(x):
    math = x
    return math.exp(x)


def missing_return(x):
    if x > 0:
        return x


def bare_return(x):
    if x > 0:
        return
    return x


def lengths(x):
    if x > 0:
        return x, x
    return x, x, x


def tuple_or_number(x):
    return (x, x) if x > 0 else x


def local_tuple_or_number(x):
    if x > 0:  # noqa: SIM108
        t = (x, x)
    else:
        t = x
    return t


def loop_changes_tuple(x):
    t = (x, x)
    for _ in range(3):
        t = (x, x, x)
    return t[0]


def nested_return(x):
    return x, (x, x)


def unpack(x):
    a, b = x, x, x
    return a + b


def unpack_number(x):
    a, b = x
    return a + b


def starred(x):
    a, *b = x, x
    return a + b


def tuple_arithmetic(x):
    return (x, x) + 1


def effect_as_value(x):
    return effect(x) + 1


def assign_effect(x):
    y = effect(x)
    return y


def call_a_number(x):
    return x(1)


def call_a_print(x):
    print(x)
    return x


def call_a_result(x):
    return one(x)(x)


def star_args(x):
    return max(*x)


def too_many(x):
    return one(x, x)


def too_few(x):
    return one()


def unknown_keyword(x):
    return one(z=x)


def keyword_of_operation(x):
    return nf.exp(a=x)


def too_many_for_operation(x):
    return math.exp(x, x)


def too_few_for_max(x):
    return max(x)


def bad_default(x, y=None):
    return x


def uses_bad_default(x):
    return bad_default(x)


def a_global(x):
    return x + TABLE


def none(x):
    return x + EMPTY


def a_function_as_value(x):
    return x + one


def is_operator(x):
    return x is EMPTY


def matmul(x):
    return x @ x


def variadic(*args):
    return 1


def rounding(x):
    return round(x, -2)


def reduction(x):
    return np.sum(x)


CASES = [
    (text_constant, "'x' is not a number"),
    (comprehension, "one for and no if"), (walrus, ":="),
    (with_statement, "with"), (an_assertion, "assert"), (an_import, "import"),
    (raising, "raise"), (delete, "del"),
    (for_over_number, "range.* or a tuple, got a number"),
    (float_range, "integers"), (zero_step, "step of range.* is 0"),
    (no_bounds, "1 to 3 integers, got 0"), (loop_else, "else after a loop"),
    (attribute_store, "only names"), (slices, "slices"),
    (index_of_number, "a number cannot be indexed"),
    (tuple_index, "index 2 is out of range: there are 2"),
    (unknown_attribute, "number of axes is not known"),
    (unknown_module_attribute, "'math' has no attribute 'nothing'"),
    (misspelt, "'nf' has no attribute 'sigmod'; did you mean 'sigmoid'"),
    (function_of_a_library, r"not part of the scalar language; write nf.sigmoid\(x\)"),
    (method_of_an_array, r"no method 'exp'; write nf.exp\(x\)"),
    (undefined, "name 'y' is not defined"), (one_path, "'z' is not assigned on every"),
    (only_in_loop, "'z' is not assigned on every"),
    (before_assignment, "'y' is not assigned on every"),
    (loop_variable, "'i' is not assigned on every"),
    (deleted_import, "'math' is a number"), (missing_return, "some paths return"),
    (bare_return, "some paths return"), (lengths, "a tuple of 2 and as a tuple of 3"),
    (tuple_or_number, "a tuple of 2 and as one number"),
    (local_tuple_or_number, "'t' as a tuple of 2 and as one number"),
    (loop_changes_tuple, "'t' as a tuple of 2 and as a tuple of 3"),
    (nested_return, "flat"), (unpack, "a tuple of 3 into 2"),
    (unpack_number, "a number into 2"), (starred, "only names"),
    (tuple_arithmetic, "got a tuple"), (effect_as_value, "call without a result"),
    (assign_effect, "gives no result"), (call_a_number, "'x' is a number here"),
    (call_a_print, r"print\(\) is not part"), (call_a_result, "only a function's name"),
    (star_args, "a tuple, got a number"), (too_many, r"one\(\): too many positional"),
    (too_few, r"one\(\): missing a required argument: 'x'"),
    (unknown_keyword, "missing a required|unexpected keyword"),
    (keyword_of_operation, "no keywords"),
    (too_many_for_operation, r"exp takes 1 argument\(s\), got 2"),
    (too_few_for_max, "a tuple, got a number"),
    (uses_bad_default, "'default of y' is a NoneType"),
    (a_global, "'TABLE' is a dict"), (none, "'EMPTY' is a NoneType"),
    (a_function_as_value, "got a function"), (is_operator, "is is not part"),
    (matmul, "operator @"), (variadic, r"\*args"), (rounding, "got -2; write round"),
    (reduction, r"np.sum\(\) is not part"), (recursive, "calls itself"),
    (recursive_func.pyfunc, "calls itself"),
]

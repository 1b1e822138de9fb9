"""Finding definitions by position."""

from __future__ import annotations

import ast
import functools
import importlib.util
import math
import os
import subprocess
import sys
import time
from types import FunctionType

import numpy as np
import pytest

from nbfused.errors import ScalarSyntaxError
from nbfused.ops import reductions
from nbfused.scalar.source import definitions as source
from nbfused.scalar.source.definitions import Source, definition, namespace, parameters

IDENTITY = functools.partial(lambda f, *_: f)
several = [lambda x: x, lambda x: x + 1, lambda y: y]
branching = [lambda x: x if x > 1 else (0), lambda x: ((x) and 2) or 3, lambda x: x
             if (lambda x: x or 1)(x) else -x]
spread = IDENTITY(
    lambda x:
    x * 2
)
nested = IDENTITY(lambda x: (lambda x: x)(x) + 1)


def decorated(*names):
    return lambda f: f


@decorated("a",
           "b")
@decorated()
def marked(x):
    return x


def outer(shift):
    if shift:
        def inner(x):
            return x + shift
    else:
        def inner(x):
            return x
    return inner


def text_of(pyfunc):
    return ast.unparse(definition(pyfunc).node)


def test_lambdas_on_one_line():
    assert [text_of(f) for f in several] == [
        "lambda x: x", "lambda x: x + 1", "lambda y: y"]


def test_lambdas_on_one_line_whose_bodies_branch():
    assert [text_of(f) for f in branching] == [
        "lambda x: x if x > 1 else 0", "lambda x: x and 2 or 3",
        "lambda x: x if (lambda x: x or 1)(x) else -x"]


def test_lambdas_on_one_line_without_columns(tmp_path):
    path = tmp_path / "columns.py"
    path.write_text("f, g = (lambda x: x), (lambda x: x + 1)\n")
    code = subprocess.run(
        [sys.executable, "-X", "no_debug_ranges", "-c",
         "import sys; sys.path.insert(0, sys.argv[1]); import columns\n"
         "from nbfused.scalar.source.definitions import definition\n"
         "try: definition(columns.f)\n"
         "except OSError: print('none')", str(tmp_path)],
        capture_output=True, text=True, timeout=60)
    assert code.stdout == "none\n", code.stderr


def test_lambdas_over_lines_and_in_one_another():
    assert text_of(spread) == "lambda x: x * 2"
    assert text_of(nested) == "lambda x: (lambda x: x)(x) + 1"


def test_definitions():
    assert "return x" in text_of(marked)
    assert text_of(outer(2)).endswith("return x + shift")
    assert text_of(outer(0)).endswith("return x")
    assert definition(marked).name == "marked"
    assert definition(several[0]).name == "lambda_"
    assert definition(marked).source.file == __file__


def unusual(x):
    if x:
        y = """
several lines of text
"""
        return len(y
)
    return 1
    def never(x):
        return x


class Holder:
    # a comment
    @decorated(lambda x: x)
    def method(self, x):
        return [
            x,
        ]

    def other(self): return self


def written():
    """Functions of this file and of a file of ops."""
    found = [marked, outer, outer(1), outer(0), unusual, Holder.method, Holder.other]
    return [*found, *(f for f in vars(reductions).values()
                      if isinstance(f, FunctionType))]


@pytest.mark.parametrize("pyfunc", written(), ids=lambda f: f.__qualname__)
def test_own_lines_are_as_good_as_the_file(pyfunc, monkeypatch):
    """The tree is the same, and so is the place of everything in it."""
    own = definition(pyfunc).node
    monkeypatch.setattr(source, "_own_lines", lambda lines, code: "")
    assert ast.dump(own, include_attributes=True) == ast.dump(
        definition(pyfunc).node, include_attributes=True)


def test_only_its_own_lines_are_parsed(monkeypatch):
    parsed = []
    monkeypatch.setattr(
        source, "_tree", lambda text: parsed.append(text) or ast.parse(text))
    for f in (marked, outer(2), Holder.method, unusual):
        parsed.clear()
        definition(f)
        assert len(parsed) == 1
        assert "test_only" not in parsed[0]


def test_no_source():
    scope: dict = {}
    exec("def f(x): return x", scope)
    with pytest.raises(OSError, match="no source of f"):
        definition(scope["f"])
    with pytest.raises(TypeError):
        definition(math.exp)


def test_a_name_borrowed_from_another_file():
    scope: dict = {}
    exec(compile("def f(x):\n  return x", __file__, "exec"), scope)
    with pytest.raises(OSError, match="no source"):
        definition(scope["f"])


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_a_file_that_changed_since(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def f(x):\n    return x\n")
    module = load(path)
    path.write_text("\n\ndef f(x):\n    return x + 1  # later\n")
    with pytest.raises(OSError, match="no source"):
        definition(module.f)


def test_non_ascii_text(tmp_path):
    path = tmp_path / "greek.py"
    path.write_text("α = 1; f = lambda x: x; g, é = (lambda x: x*α), (lambda x: 'é')\n",
                    encoding="utf-8")
    module = load(path)
    assert text_of(module.g) == "lambda x: x * α"
    assert text_of(module.f) == "lambda x: x"


def test_namespace():
    seen = namespace(outer(5))
    assert seen["shift"] == 5
    assert seen["math"] is math
    assert seen["abs"] is abs
    assert "inner" not in seen


def test_a_name_that_has_no_value_yet():
    def early():
        def uses():
            return later

        names = dict(namespace(uses))
        later = 1
        return names, later

    assert "later" not in early()[0]


def test_parameters():
    node = ast.parse("def f(a, /, b, *, c, **d): pass").body[0]
    assert parameters(node) == ["a", "b", "c"]


def test_errors_point_into_the_text():
    source = Source("there.py", "a = 1\n    b = c\n")
    error = source.error(ast.Name("c", lineno=2, col_offset=8), "message")
    assert (error.filename, error.lineno, error.text) == ("there.py", 2, "b = c")
    assert error.text[error.offset - 1] == "c"
    assert "message\n    b = c" in str(error)
    assert source.error(9, "message").text == ""


def test_a_file_that_was_edited_after_its_import(tmp_path):
    path = tmp_path / "edited.py"
    path.write_text("def f(x):\n    return x + 1.0\n\ndef g(x):\n    return x\n")
    spec = importlib.util.spec_from_file_location("edited", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert definition(module.f).name == "f"
    path.write_text("def f(x):\n    return x + 7.0\n\ndef g(x):\n    return x\n")
    os.utime(path, (time.time() + 5,) * 2)
    with pytest.raises(ScalarSyntaxError, match="the text of f has changed since"):
        definition(module.f)
    assert definition(module.g).name == "g"
    module = importlib.util.module_from_spec(spec)
    exec(compile(path.read_text(), path, "exec"), vars(module))
    assert "7.0" in definition(module.f).source.text


def test_a_file_that_is_compiled_in_parts(tmp_path):
    """Python 3.11 calls ``module.function`` otherwise where it sees the import."""
    path = tmp_path / "parts.py"
    parts = ["import math\n", "\ndef f(x):\n    while x > 1.0:\n"
             "        x = math.log(x)\n    return math.exp(x)\n"]
    path.write_text("".join(parts))
    os.utime(path, (time.time() + 5,) * 2)
    names, lines = {}, 0
    for part in parts:
        exec(compile("\n"*lines + part, path, "exec"), names)
        lines += part.count("\n")
    assert definition(names["f"]).name == "f"
    path.write_text("".join(parts).replace("exp", "log"))
    os.utime(path, (time.time() + 6,) * 2)
    with pytest.raises(ScalarSyntaxError, match="the text of f has changed since"):
        definition(names["f"])


def test_a_stage_that_reads_an_earlier_one_in_a_new_file(tmp_path):
    """Compiled alone, it has the name as a global, and as a free one in the file."""
    path = tmp_path / "stages.py"
    path.write_text('''import nbfused as nf

@nf.row
def largest(x):
    @nf.stage("welford")
    def moments(x):
        return x

    @nf.stage("max")
    def distance(x):
        mean, variance = moments
        return abs(x - mean)

    return distance
''')
    os.utime(path, (time.time() + 5,) * 2)
    names = {}
    exec(compile(path.read_text(), path, "exec"), names)
    assert names["largest"](np.array([[1.0, 2.0, 6.0]])).tolist() == [3.0]

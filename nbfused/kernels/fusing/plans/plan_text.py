"""The generated function that runs a plan: what Python does for a call of it.

Looking up each value in a dictionary, and asking again what is the same in every call,
takes longer than the launches of a small plan:
benchmarks/notes/host.md#plans-of-fused-functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....autograd import Variable, apply
from ....autograd.versions import note_writes_of
from ....dispatch.allocation import OUT_OF_MEMORY
from ....scalar.typing.promotion import Weak
from ....scalar.typing.python_numbers import number_type, plain_number
from ....specs.fusion.graph import Value
from ....support.generated import define
from ....support.trees import children
from ..program import TraceInvalid

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["ALIGN", "Run", "aligned", "compile_run"]

#: Bytes by which arrays in the arena are aligned: as GPU libraries' allocators do.
ALIGN = 256

#: ``run(arguments, pointers)``: what the program returns, in a tuple; None if the
#: program itself has to run, as arguments overlap or memory is short.
Run = Callable[[Sequence[Any], tuple[int, ...]], tuple[Any] | None]

_TEXT = """\
def run(arguments, pointers):
    {arguments} = arguments
{constants}
    if pointers != apart[0]:  # most calls are like the last one
        for out, other, low, high, _ in overlaps:
            if low < pointers[other] - pointers[out] < high:
                return None
        apart[0] = pointers
    try:
{allocate}
    except OUT_OF_MEMORY:
        return None
{addresses}
    if ({places} 0) & 15:
        return None
{numbers}
    if not launch((*pointers, {given}), ({passed})):
        return None
{after}
    return {outputs},
"""


def aligned(address: int) -> int:
    """The address at which an arena begins in memory from an address on."""
    return -(-address // ALIGN)*ALIGN


def compile_run(plan: Plan) -> Run:
    """Generate the function."""
    text = _Text(plan)
    source = text.source()
    names = {**text.names, "apart": plan.apart, "overlaps": plan.overlaps,
             "OUT_OF_MEMORY": OUT_OF_MEMORY, "launch": plan.launch,
             "pointer": plan.library.pointer, "finish": plan.library.finish,
             "new_arena": plan.new_arena, "aligned": aligned,
             "number_type": number_type,
             "TraceInvalid": TraceInvalid, "plain_number": plain_number,
             "at": Variable.at, "apply": apply}
    define(source, "plan", names)
    made: Run = names["run"]
    return made


class _Text:
    """The text of a plan's function, and what it names besides its own variables.

    Attributes
    ----------
    values
        The variable of each value that is there.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names: dict[str, Any] = {}
        self.values = {v: f"x{k}" for k, v in enumerate(
            (*plan.arguments, *(v for v, *_ in plan.constants)))}

    def source(self) -> str:
        """The whole text."""
        plan = self.plan
        arguments = _listed([self.values[v] for v in plan.arguments])
        results = [f"r{k}" for k in range(len(plan.results))]
        allocate = [f"{r} = {self._name(one.make)}()"
                    for r, one in zip(results, plan.results, strict=True)]
        addresses = [f"{r}_at = pointer({r})" for r in results]
        places = [f"{r}_at" for r in results]
        if plan.new_arena is not None and not plan.keeps_arena:
            allocate.append("arena = new_arena()")
            addresses.append("arena_at = aligned(pointer(arena))")
            places.append("arena_at")
        held = [f"{self.values[v]} = {self._name(x)}" for v, x, _ in plan.constants]
        if held:
            known = self._name(tuple([at for *_, at in plan.constants]))
            held.append(f"pointers += {known}")
        numbers = self._numbers()
        passed = _listed([self._passed(*one) for one in plan.passed])
        after = self._after(results)
        return _TEXT.format(
            arguments=arguments or "()", constants=_lines(held),
            allocate=_lines(allocate or ["pass"], 2),
            addresses=_lines(addresses), places=" | ".join([*places, ""]),
            numbers=_lines(numbers), given=_listed(places), passed=passed,
            after=_lines(after), outputs=self._tree(plan.outputs))

    def _numbers(self) -> list[str]:
        """Lines that compute the numbers on the host and check them, then arrays."""
        lines = []
        for k, number in enumerate(self.plan.numbers):
            name = self.values[number.value] = f"n{k}"
            args = [self._value(a) for a in number.args]
            traced = number.value.type
            lines.append(f"{name} = {self._name(number.function)}({', '.join(args)})")
            python = f"type({name}) is not {traced.kind} and " \
                if isinstance(traced, Weak) else ""
            lines.append(f"if {python}number_type({name}) != {self._name(traced)}: "
                         "raise TraceInvalid")
        return lines + [f"{self._name(check)}({self.values[value]})"
                        for check, value in self.plan.checks]

    def _passed(self, value: Value, form: Callable[[Any], Any]) -> str:
        """A number as launches take it."""
        x = self.values[value]
        return f"({x} if type({x}) is float else plain_number({x}))" \
            if form is plain_number else f"{self._name(form)}({x})"

    def _after(self, results: Sequence[str]) -> list[str]:
        """Lines that follow the launches."""
        plan, lines = self.plan, []
        if plan.stored:
            data = [self.values[v] + "._value" * (v in plan.variables)
                    for v in plan.stored]
            note = self._name(note_writes_of(plan.stored_types))
            lines = [f"{note}([{', '.join(data)}])"]
        for r, one in zip(results, plan.results, strict=True):
            array = f"finish({r})"
            lines.append(f"{r} = " + (f"at({array}, None)" if one.wrapped else array))
            self.values[one.value] = r
        for k, view in enumerate(plan.views):
            made = [f"v{k}_{j}" for j in range(len(view.outputs))]
            inputs = [self._value(x) for x in view.inputs]
            lines.append(f"{_listed(made)} = apply({self._name(view.spec)}, "
                         f"[{', '.join(inputs)}], dtypes={self._name(view.asked)})")
            self.values.update(zip(view.outputs, made, strict=True))
        return lines

    def _tree(self, tree: Any) -> str:
        """An expression for the outputs."""
        branch = None if isinstance(tree, Value) else children(tree)
        if branch is None:
            return self._value(tree)
        items = [self._tree(x) for x in branch.items]
        if type(tree) is dict:
            keys = map(self._name, branch.keys)
            pairs = (f"{k}: {x}" for k, x in zip(keys, items, strict=True))
            return f"{{{', '.join(pairs)}}}"
        listed = f"[{', '.join(items)}]"
        return listed if type(tree) is list else \
            f"{self._name(branch.rebuild)}({listed})"

    def _value(self, x: Any) -> str:
        return self.values[x] if isinstance(x, Value) else self._name(x)

    def _name(self, x: Any) -> str:
        """A name of an object that the text mentions."""
        name = f"k{len(self.names)}"
        self.names[name] = x
        return name


def _listed(names: Sequence[str]) -> str:
    return "".join(f"{name}, " for name in names).rstrip()


def _lines(lines: Sequence[str], depth: int = 1) -> str:
    return "\n".join("    " * depth + line for line in lines)

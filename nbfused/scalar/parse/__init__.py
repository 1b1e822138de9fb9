"""From Python syntax to the intermediate representation: functions by node type.

`functions` parses a whole function; it joins the tables that the other modules have,
from a type of node to the function that parses it.  All take a `scope.Scope`: the
variables of one function and where its statements go.

- Statements: `statements`, `loops` and the hints around them, `branches`; `jumps` first
  removes jumps out of blocks.
- Expressions: `names`, `elements`, `expressions` (operators), `sequences`, `calls`;
  `composite` has parts of arrays, structs and vectors.
- Calls: `closures` are functions as values, `inlining` writes functions into others,
  `forms` and `builtin_forms` are the calls that take more than numbers.
"""

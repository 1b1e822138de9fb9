"""Sources of scalar functions, and the meanings of the names in them.

- `definitions` finds the text and the tree of a Python function; `trace` runs one
  without a text on symbols.
- `resolve`: operations and functions by Python object; `static`: what is known when a
  function is parsed; `structure`: values that are no single number; `buffers`:
  thread-local memory.
- `phrases`: words of messages.
"""

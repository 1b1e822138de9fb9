"""The machine code of direct calls, and the words that it reads.

A function has words of its own, and each of its entries has: how many there are of
something, and where they begin in it.
"""

from __future__ import annotations

from .functions import INTERPRETER
from .headers import FLAGS
from .schedule import LINE

__all__ = ["ENTRY", "HEAD", "POINTERS", "WORDS", "text"]

#: Most words and pointers of an entry.
WORDS, POINTERS = 512, 32

#: The function's own words: first those of `interpreter`, then these.
HEAD = (*INTERPRETER, "empty", "zeros", "none", "array_type", "int_type", "stamp",
        "variable0", "variable1")
#: An entry's words: how many there are of what, and where it begins.  The last
#: question about each tensor is asked only where `quiet` does not give `silence`.
ENTRY = ("stamp", "arguments", "layouts", "words", "words_at", "fills", "fills_at",
         "parts", "parts_at", "pairs", "pairs_at", "ranges", "ranges_at", "results",
         "results_at", "room",
         "control", "control_words", "tensors", "tensors_at", "asked", "asked_at",
         "each", "each_at", "quiet", "silence")
_H = {name: f"head[{k}]" for k, name in enumerate(HEAD)}
_E = {name: f"r[{k}]" for k, name in enumerate(ENTRY)}

#: A tuple's items begin at word 3, a bytes object's bytes at word 4; a list has its
#: length in word 2 and the address of its items in word 3.  Of an argument: -1 is an
#: array of NumPy, 1 a number of 64 bits, 2 an integer, 3 an array that a function of
#: DLPack describes (``DLTensor``: address, device, rank and dtype, extents, strides,
#: offset), 4 a float32, 5 an int32.
_TEXT = """\
# Direct call
def kernel(a, begin, end):
    head = i64_pointer(a[3] + 32)
    entries = i64_pointer(a[4])
    items = i64_pointer(entries[3])
    args = i64_pointer(begin)
    v = i64_local(8)
    p = i64_local({pointers})
    n = i64_local({pointers})
    w = i64_local({words})
    made = i64_local({pointers})
    t = i64_local(8)
    usual = True
    for k in range(2):
        v[0] = 0
        called({h[variable]}, head[{first_variable} + k], 0, address(v), 0)
        usual = usual and v[0] == {h[none]}
        called({h[decrement]}, v[0], 0, 0, 0)
    count = entries[2] if usual else 0
    stamp = i64_pointer({h[stamp]})[0]
    e = 0
    fits = False
    while e < count and not fits:
        r = i64_pointer(i64_pointer(items[e])[3] + 32)
        fits = {e[stamp]} == stamp and {e[arguments]} == end
        q = {e[layouts]}
        k = 0
        while k < end and fits:
            x = i64_pointer(args[k])
            if r[q] < 0:
                fits = x[1] == {h[array_type]}
                if fits:
                    rank = r[q + 2] & 0xff
                    word = (x[3] & 0xffffffff) | (x[2] & 15) << 8
                    word |= (x[8] & {flags}) << 16
                    fits = word == r[q + 2] and \\
                        i64_pointer(x[7] + 24)[0] == r[q + 3]
                    if fits:
                        extents = i64_pointer(x[4])
                        strides = i64_pointer(x[5])
                        for d in range(rank):
                            fits = fits and extents[d] == r[q + 4 + d] and \\
                                strides[d] == r[q + 4 + rank + d]
                    p[r[q + 1]] = x[2]
                    q += 4 + 2*rank
            elif r[q] == 1:
                fits = x[1] == r[q + 2]
                if fits:
                    n[r[q + 1]] = x[2]
                q += 3
            elif r[q] == 3:
                rank = r[q + 5] & 0xffffffff
                fits = x[1] == r[q + 2]
                if fits:
                    fits = called(r[q + 3], args[k], address(t), 0, 0) \\
                        & 0xffffffff == 0
                    if fits:
                        place = t[0] + t[5]
                        fits = t[1] == r[q + 4] and t[2] == r[q + 5] and \\
                            place & 15 == r[q + 6] and place != 0
                        if fits:
                            extents = i64_pointer(t[3])
                            strides = i64_pointer(t[4])
                            for d in range(rank):
                                fits = fits and extents[d] == r[q + 7 + d] and \\
                                    strides[d] == r[q + 7 + rank + d]
                        p[r[q + 1]] = place
                    else:
                        called({h[clear]}, 0, 0, 0, 0)
                q += 7 + 2*rank
            elif r[q] == 4:
                fits = x[1] == r[q + 2]
                if fits:
                    f64_pointer(address(n))[r[q + 1]] = \
                        f64(f32_pointer(args[k] + 16)[0])
                q += 3
            elif r[q] == 5:
                fits = x[1] == r[q + 2]
                if fits:
                    n[r[q + 1]] = i64(i32_pointer(args[k] + 16)[0])
                q += 3
            else:
                fits = x[1] == {h[int_type]}
                if fits:
                    v[1] = 0
                    n[r[q + 1]] = called({h[integer]}, args[k], address(v) + 8, 0, 0)
                    fits = (v[1] & 0xffffffff) == 0
                q += 2
            k += 1
        e += 1
    if not fits:
        return called({h[vectorcall]}, a[5], begin, end, 0)
    entry = items[e - 1]
    called({h[increment]}, entry, 0, 0, 0)  # allocation may run code that drops it
    r = i64_pointer(i64_pointer(entry)[3] + 32)
    tensors = {e[tensors]}
    if tensors > 0:
        q = {e[asked_at]}
        for k in range({e[asked]}):
            if fits:
                answer = called({h[call]}, r[q], 0, 0, 0)
                fits = answer == r[q + 1]
                called({h[decrement]}, answer, 0, 0, 0)
            q += 2
        each = {e[each]}
        if fits:
            answer = called({h[call]}, {e[quiet]}, 0, 0, 0)
            each -= 1 if answer == {e[silence]} else 0
            fits = answer != 0
            called({h[decrement]}, answer, 0, 0, 0)
        q = {e[tensors_at]}
        for k in range(tensors):
            for j in range(each):
                if fits:
                    one = {e[each_at]} + 2*j
                    answer = called({h[call_with]}, r[one], args[r[q + k]], 0, 0)
                    fits = answer == r[one + 1]
                    called({h[decrement]}, answer, 0, 0, 0)
        if not fits:
            called({h[clear]}, 0, 0, 0, 0)  # one of them may have failed
    q = {e[pairs_at]}
    for k in range({e[pairs]}):
        distance = p[r[q + 1]] - p[r[q]]
        if r[q + 2] < distance and distance < r[q + 3] and \\
                not (r[q + 4] != 0 and distance == 0):
            fits = False
        q += 5
    q = {e[ranges_at]}
    for k in range({e[ranges]}):
        if fits:
            place, step, low, high = p[r[q]], r[q + 3], r[q + 4], r[q + 5]
            outside = 0
            if r[q + 1] == 8:
                whole = i64_pointer(place)
                for j in range(r[q + 2]):
                    outside |= (whole[step*j] < low) | (whole[step*j] >= high)
            else:
                short = i32_pointer(place)
                for j in range(r[q + 2]):
                    outside |= (short[step*j] < low) | (short[step*j] >= high)
            fits = outside == 0
        q += 6
    q = {e[results_at]}
    done = 0
    for k in range({e[results]}):
        made[k] = 0
        if r[q] >= 0 and fits:
            if r[q + 2] < 0:
                made[k] = called({h[call]}, r[q + 1], 0, 0, 0)
            else:
                called({h[increment]}, r[q + 1], 0, 0, 0)
                make = {h[zeros]} if r[q + 3] & 2 else {h[empty]}
                made[k] = called(make, r[q + 2], address(r) + 8*(q + 4), r[q + 1],
                                 r[q + 3] & 1)
            fits = made[k] != 0
            if fits and r[q + 2] < 0:
                fits = called(r[q + 3], made[k], address(t), 0, 0) & 0xffffffff == 0
                p[r[q]] = t[0] + t[5]
            elif fits:
                p[r[q]] = i64_pointer(made[k])[2]
            if fits:
                fits = p[r[q]] & 15 == 0
            else:
                called({h[clear]}, 0, 0, 0, 0)
        q += 4 + max(r[q + 2], 0)
        done = k + 1
    given = 0
    memory = 0
    room = {e[room]}
    if fits:
        given = called({h[tuple]}, {e[results]}, 0, 0, 0)
        if given == 0:
            called({h[clear]}, 0, 0, 0, 0)
            fits = False
    if fits and room > 0:
        memory = called({h[allocate]}, room + 64, 0, 0, 0)
        if memory == 0:
            called({h[decrement]}, given, 0, 0, 0)
            fits = False
    if not fits:
        for k in range(done):
            if made[k] != 0:
                called({h[decrement]}, made[k], 0, 0, 0)
        called({h[decrement]}, entry, 0, 0, 0)
        return called({h[vectorcall]}, a[5], begin, end, 0)
    results = i64_pointer(given + 24)
    for k in range(done):
        if made[k] == 0:
            made[k] = {h[none]}
            called({h[increment]}, {h[none]}, 0, 0, 0)
        results[k] = made[k]
    q = {e[words_at]}
    for k in range({e[words]}):
        w[k] = r[q + k]
    base = memory + 63 & -64
    if memory != 0:
        control = i64_pointer(base + {e[control]})
        for k in range({e[control_words]}):
            control[k] = 0
    q = {e[fills_at]}
    for k in range({e[fills]}):
        if r[q + 1] == 0:
            w[r[q]] = p[r[q + 2]] + r[q + 3]
        elif r[q + 1] == 1:
            w[r[q]] = n[r[q + 2]]
        elif r[q + 1] == 3:
            w[r[q]] = (-p[r[q + 2]] & {line} - 1) >> r[q + 3]
        else:
            w[r[q]] = base + r[q + 3]
        q += 4
    state = called({h[release]}, 0, 0, 0, 0)
    q = {e[parts_at]}
    ready = True
    for k in range({e[parts]}):
        if ready:
            answer = called(r[q], address(w) + 8*r[q + 1], 0, r[q + 2], 0)
            ready = r[q + 3] == 0 or answer == 0
        q += 4
    called({h[acquire]}, state, 0, 0, 0)
    if memory != 0:
        called({h[free]}, memory, 0, 0, 0)
    called({h[decrement]}, entry, 0, 0, 0)
    if not ready:
        called({h[decrement]}, given, 0, 0, 0)
        return called({h[vectorcall]}, a[5], begin, end, 0)
    return given
"""


def text() -> str:
    """The text of the machine code."""
    return _TEXT.format(h=_H, e=_E, pointers=POINTERS, words=WORDS, flags=FLAGS,
                        line=LINE, first_variable=HEAD.index("variable0"))

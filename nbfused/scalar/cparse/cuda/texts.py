"""Functions of CUDA's that C has better words for than a formula, written in C."""

from __future__ import annotations

import re

__all__ = ["CUDA_FUNCTIONS", "CUDA_TEXT", "vector_types"]

#: A power of two whose exponent is in double's range, by its bits.
_POWER = "__longlong_as_double((long long)({n} + 1023) << 52)"

#: Name → the result and the parameters after `x`, of type T, and the body.  What is
#: read of the bits of a number counts as a constant: exponents have no derivative.
_FUNCTIONS = {
    "sincos": ("void", "T* s, T* c", "*s = sin(x); *c = cos(x);"),
    "sincospi": ("void", "T* s, T* c", "*s = sinpi(x); *c = cospi(x);"),
    "modf": ("T", "T* whole", """
        *whole = trunc(x);
        return isinf(x) ? copysign((T)0, x) : fmod(x, (T)1);"""),
    "frexp": ("T", "int* exponent", f"""
        double y = x;
        int k = 0;
        if (fabs(y) < 2.2250738585072014e-308 && y != 0) {{
            y = y*18014398509481984.0;
            k = -54;
        }}
        int e = (int)((__double_as_longlong(__detach(y)) >> 52) & 2047) - 1022;
        bool normal = y != 0 && e != 1025;
        *exponent = normal ? k + e : 0;
        int half = e/2;
        double m = y*{_POWER.format(n="(-half)")}*{_POWER.format(n="(half - e)")};
        return normal ? (T)m : x;"""),
    # Twice at most a factor that leaves a number normal, so that rounding is once.
    "ldexp": ("T", "int n", f"""
        double y = x;
        int k = n;
        for (int turn = 0; turn < 2; turn++) {{
            if (k > 1023) {{ y = y*0x1p1023; k = k - 1023; }}
            if (k < -1022) {{ y = y*0x1p-969; k = k + 969; }}
        }}
        k = k > 1023 ? 1023 : k < -1022 ? -1022 : k;
        return (T)(y*{_POWER.format(n="k")});"""),
}
_FUNCTIONS["scalbn"] = _FUNCTIONS["ldexp"]

#: A text that may call one of them.
CUDA_FUNCTIONS = re.compile("|".join(_FUNCTIONS))


#: CUDA's small vectors by their names, and what makes them.
_VECTORS = re.compile(r"\b(?:make_)?((?:float|double|u?int)([234]))\b")


def vector_types(text: str) -> str:
    """The structs that CUDA calls ``float2`` to ``uint4``, those that a text names."""
    found = []
    for name, size in sorted(set(_VECTORS.findall(text))):
        if re.search(rf"\bstruct\s+{name}\b|\}}\s*{name}\s*;", text):
            continue  # the text has one of its own
        part, names = name[:-1].replace("uint", "unsigned int"), "xyzw"[:int(size)]
        members = " ".join(f"{part} {n};" for n in names)
        params = ", ".join(f"{part} {n}" for n in names)
        found.append(f"struct {name} {{ {members} }}; {name} make_{name}({params}) {{ "
                     f"{name} v{{{', '.join(names)}}}; return v; }}")
    return " ".join(found)


def _written(name: str) -> str:
    result, params, body = _FUNCTIONS[name]
    generic = f"{result} __cuda_{name}(T x, {params}) {{ {body} }}\n"
    single = re.sub(r"\bT\b", "float", generic.replace(f"{name}(", f"{name}f(", 1))
    return f"template <typename T> {generic}{single}"


#: Their definitions; a preamble may have functions of the same names.
CUDA_TEXT = "".join(map(_written, _FUNCTIONS))

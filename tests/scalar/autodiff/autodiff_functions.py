"""Functions whose derivatives are known to be hard, as plain Python on `math`."""

from __future__ import annotations

import math

from nbfused.scalar.source.static import local

WEIGHT = 0.7


def swish(x):
    return x / (1 + math.exp(-x))


def stable_silu(x):
    e = math.exp(-abs(x))
    return x * (1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + math.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1.0 + math.erf(x * 0.7071067811865476))


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def newton_for(a):
    y = a
    for _ in range(8):
        y = 0.5 * (y + a / y)
    return y


def newton_while(a):
    y = a
    while abs(y * y - a) > 1e-12 * a:
        y = 0.5 * (y + a / y)
    return y


def dynamic(a, b, n):
    y = a
    for _ in range(n):
        y = y - 0.3 * (y * y * y - a * b) / (3.0 * y * y)
    return y * b


def piecewise(x, y):
    if x < 0.0:
        if y > x:
            r = x * y
        elif y < -2.0:
            r = math.sqrt(-x) * y
        else:
            return math.sin(x) + y
    else:
        if y < 1.0 and x > 1.0:
            return math.log(x) * y
        r = x * x + y
        if x > 3.0:
            r = r * math.exp(-x)
    return r * x


def distance(px, py, pz, r):
    q = math.sqrt(px * px + py * py + pz * pz) - r
    return q + 0.05 * math.sin(3.0 * px)


def sphere_trace(oz, dx, r):
    t = 0.0
    for _ in range(40):
        d = distance(t * dx, 0.1 * t, oz + t, r)
        if abs(d) < 1e-9:
            break
        t += d
    return t


def horner(x, c0, c1, n):
    s = 0
    p = 1.0
    for k in range(n):
        c = c0 if k % 3 == 0 else c1
        if c > 100.0:
            continue
        s += c * p / (k + 1)
        p *= x
    return s


def triangular(x, y, n):
    a = x
    b = y
    for i in range(n):
        s = 0.0
        for j in range(i, n):
            s += math.sin(a * (j + 1)) * b
            b = 0.9 * b + 0.01 * s * a
        a, b = b + 0.2 * a, 0.5 * a + 0.1 * s
    return a * b


def two(x, y):
    return x * y, math.exp(x) + y


def nested_calls(x):
    a, b = two(x, x * x)
    u, v = two(a, 0.1 * b)
    return u * v


def safe_branch(x):
    return math.sqrt(x) if x > 0.0 else 0.0 * x


def powers(x):
    return x**3 + x**2 - 2 * x**1 + (x + 3.0) ** 0.5


def product(x, n):
    p = 1.0
    for i in range(n):
        p *= 1.0 + x / (i + 1.0) ** 2
    return p


def around(x, y, n):
    before = math.sin(x * y)
    p = x
    for _ in range(n):
        p = 0.9 * p + 0.1 * before * y
    return p * before + before


def local_array(x, y, n):
    v = local(4)
    v[0] = x
    for i in range(n):
        v[(i + 1) % 4] += 0.5 * v[i % 4] * y + 0.1
    return v[0] * v[1] + v[2] - v[3] * v[3]


def early(x, y):
    s = x
    for i in range(10):
        for _ in range(i):
            s = s + 0.1 * y * s
            if s > 2.0:
                return s * y
        if i == 7:
            break
    return s - y


def captured(x, y):
    s = 0.0
    t = 1.0 + abs(x)
    while t > 0.2:
        t = t * 0.8
        s += math.tanh(WEIGHT * t * y)
    return s * x

// Complex numbers: arithmetic as NumPy has it, functions after Kahan and C99's annex G.
#pragma once
#include "portable.h"

namespace nbf {

// No constructors: a kernel may have arrays of them in shared memory.
template <class T> struct complex { T real, imag; };

template <class T, class S> NBF_DEVICE complex<T> convert(complex<S> z) {
  return {static_cast<T>(z.real), static_cast<T>(z.imag)};
}

template <class T> NBF_DEVICE bool operator==(complex<T> a, complex<T> b) {
  return a.real == b.real && a.imag == b.imag;
}
template <class T> NBF_DEVICE bool operator!=(complex<T> a, complex<T> b) {
  return !(a == b);
}
template <class T> NBF_DEVICE complex<T> operator-(complex<T> z) {
  return {-z.real, -z.imag};
}
template <class T> NBF_DEVICE complex<T> operator+(complex<T> a, complex<T> b) {
  return {a.real + b.real, a.imag + b.imag};
}
template <class T> NBF_DEVICE complex<T> operator-(complex<T> a, complex<T> b) {
  return {a.real - b.real, a.imag - b.imag};
}
template <class T> NBF_DEVICE complex<T> operator*(complex<T> a, complex<T> b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
// Smith's: nothing overflows on the way.
template <class T> NBF_DEVICE complex<T> operator/(complex<T> a, complex<T> b) {
  if (b.real == 0 && b.imag == 0) return {a.real / abs(b.real), a.imag / abs(b.real)};
  if (abs(b.real) >= abs(b.imag)) {
    const T ratio = b.imag / b.real, scale = 1 / (b.real + b.imag * ratio);
    return {(a.real + a.imag * ratio) * scale, (a.imag - a.real * ratio) * scale};
  }
  const T ratio = b.real / b.imag, scale = 1 / (b.imag + b.real * ratio);
  return {(a.real * ratio + a.imag) * scale, (a.imag * ratio - a.real) * scale};
}

template <class T> NBF_DEVICE bool nonzero(complex<T> z) {
  return z.real != 0 || z.imag != 0;
}
template <class T> NBF_DEVICE bool is_nan(complex<T> z) {
  return is_nan(z.real) || is_nan(z.imag);
}
template <class T> NBF_DEVICE bool is_infinite(complex<T> z) {
  return is_infinite(z.real) || is_infinite(z.imag);
}
template <class T> NBF_DEVICE bool is_finite(complex<T> z) {
  return is_finite(z.real) && is_finite(z.imag);
}
template <class T> NBF_DEVICE T abs(complex<T> z) { return hypot(z.real, z.imag); }
template <class T> NBF_DEVICE complex<T> conj(complex<T> z) {
  return {z.real, -z.imag};
}

// --- square root and logarithm

template <class T> NBF_DEVICE complex<T> sqrt(complex<T> z) {
  if (!nonzero(z)) return {0, z.imag};
  if (is_infinite(z.imag)) return {infinity<T>(), z.imag};
  if (is_infinite(z.real) && z.real < 0)
    return {is_nan(z.imag) ? z.imag : 0, copysign(infinity<T>(), z.imag)};
  if (is_infinite(z.real))
    return {z.real, is_nan(z.imag) ? z.imag : copysign(static_cast<T>(0), z.imag)};
  // By a power of 4 where the sum below would overflow, or be subnormal.
  const T big = sizeof(T) == 4 ? static_cast<T>(0x1p120f) : static_cast<T>(0x1p1000);
  const T size = maximum(abs(z.real), abs(z.imag));
  const T scale = size > big ? static_cast<T>(0x1p-4f)
                             : size < 1 / big ? static_cast<T>(0x1p60f) : 1;
  const T back = size > big ? 4 : size < 1 / big ? static_cast<T>(0x1p-30f) : 1;
  const T x = z.real * scale, y = z.imag * scale;
  const T t = nbf::sqrt((abs(x) + hypot(x, y)) * static_cast<T>(0.5));
  const T u = abs(y) / (2 * t);
  return {(x < 0 ? u : t) * back, copysign(x < 0 ? t : u, y) * back};
}

template <class T> NBF_DEVICE complex<T> log(complex<T> z) {
  const T angle = atan2(z.imag, z.real), size = hypot(z.real, z.imag);
  if (size > static_cast<T>(0.5) && size < 2) {  // near the unit circle log is near 0
    const T a = abs(z.real), b = abs(z.imag), large = a > b ? a : b;
    const T small = a > b ? b : a;
    const T rest = (large - 1) * (large + 1) + small * small;
    return {nbf::log1p(rest) * static_cast<T>(0.5), angle};
  }
  if (!is_infinite(size) || is_infinite(z)) return {nbf::log(size), angle};
  const T half = static_cast<T>(0.5);
  const T log_of_2 = static_cast<T>(0.6931471805599453);
  return {nbf::log(hypot(z.real * half, z.imag * half)) + log_of_2, angle};
}
template <class T> NBF_DEVICE complex<T> log10(complex<T> z) {
  const complex<T> w = log(z);
  const T scale = static_cast<T>(0.4342944819032518);
  return {w.real * scale, w.imag * scale};
}

// --- exponentials

// exp(x) * scale * (cos y, sin y), where exp(x) alone may overflow.
template <class T> NBF_DEVICE complex<T> turned(T x, T y, T scale) {
  const T half = nbf::exp(x * static_cast<T>(0.5)), factor = half * scale;
  return {factor * nbf::cos(y) * half, factor * nbf::sin(y) * half};
}
// Beyond, exp(x) overflows, and exp(-x) is nothing beside it.
template <class T> NBF_DEVICE T large() { return sizeof(T) == 4 ? 88 : 709; }

template <class T> NBF_DEVICE complex<T> exp(complex<T> z) {
  if (z.imag == 0) return {nbf::exp(z.real), z.imag};
  if (!is_finite(z.imag)) {
    if (!is_infinite(z.real)) return {nan<T>(), nan<T>()};
    return z.real < 0 ? complex<T>{0, 0} : complex<T>{z.real, nan<T>()};
  }
  if (z.real > large<T>()) return turned<T>(z.real, z.imag, 1);
  const T size = nbf::exp(z.real);
  return {size * nbf::cos(z.imag), size * nbf::sin(z.imag)};
}

template <class T> NBF_DEVICE complex<T> sinh(complex<T> z) {
  const T x = z.real, y = z.imag;
  if (y == 0) return {nbf::sinh(x), y};
  if (!is_finite(y)) return {x == 0 || is_infinite(x) ? x : nan<T>(), nan<T>()};
  if (x == 0) return {x * nbf::cos(y), nbf::sin(y)};
  if (abs(x) > large<T>()) {
    const complex<T> w = turned<T>(abs(x), y, static_cast<T>(0.5));
    return {copysign(static_cast<T>(1), x) * w.real, w.imag};
  }
  return {nbf::sinh(x) * nbf::cos(y), nbf::cosh(x) * nbf::sin(y)};
}
template <class T> NBF_DEVICE complex<T> cosh(complex<T> z) {
  const T x = z.real, y = z.imag;
  if (y == 0) return {nbf::cosh(x), copysign(static_cast<T>(1), x) * y};
  if (!is_finite(y)) return {is_infinite(x) ? abs(x) : nan<T>(), x == 0 ? x : nan<T>()};
  if (x == 0) return {nbf::cos(y), x * nbf::sin(y)};
  if (abs(x) > large<T>()) {
    const complex<T> w = turned<T>(abs(x), y, static_cast<T>(0.5));
    return {w.real, copysign(static_cast<T>(1), x) * w.imag};
  }
  return {nbf::cosh(x) * nbf::cos(y), nbf::sinh(x) * nbf::sin(y)};
}
template <class T> NBF_DEVICE complex<T> tanh(complex<T> z) {
  const T x = z.real, y = z.imag;
  if (is_infinite(x))
    return {copysign(static_cast<T>(1), x),
            copysign(static_cast<T>(0), is_finite(y) ? nbf::sin(y + y) : y)};
  if (is_nan(x)) return {x, y == 0 ? y : x};
  if (!is_finite(y)) return {x == 0 ? x : nan<T>(), nan<T>()};
  if (abs(x) > 20)
    return {copysign(static_cast<T>(1), x),
            4 * nbf::sin(y) * nbf::cos(y) * nbf::exp(-2 * abs(x))};
  const T t = nbf::tan(y), s = nbf::sinh(x), c = nbf::sqrt(1 + s * s);
  if (is_infinite(t)) return {c / s, 1 / t};
  const T beta = 1 + t * t, rest = 1 + beta * s * s;
  return {beta * c * s / rest, t / rest};
}

// sin z = -i sinh iz, and so on: `f` at iz, and back.
template <class T> NBF_DEVICE complex<T> turn(complex<T> z) {
  return {-z.imag, z.real};
}
template <class T> NBF_DEVICE complex<T> turn_back(complex<T> z) {
  return {z.imag, -z.real};
}
template <class T> NBF_DEVICE complex<T> sin(complex<T> z) {
  return turn_back(sinh(turn(z)));
}
template <class T> NBF_DEVICE complex<T> cos(complex<T> z) { return cosh(turn(z)); }
template <class T> NBF_DEVICE complex<T> tan(complex<T> z) {
  return turn_back(tanh(turn(z)));
}

// --- their inverses

template <class T> NBF_DEVICE complex<T> acos(complex<T> z) {
  if (is_infinite(z))
    return {atan2(abs(z.imag), z.real), -copysign(infinity<T>(), z.imag)};
  const complex<T> p = sqrt(complex<T>{1 + z.real, z.imag});
  const complex<T> q = sqrt(complex<T>{1 - z.real, -z.imag});
  return {2 * atan2(q.real, p.real), nbf::asinh(p.real * q.imag - p.imag * q.real)};
}
template <class T> NBF_DEVICE complex<T> asin(complex<T> z) {
  if (is_infinite(z))
    return {atan2(z.real, abs(z.imag)), copysign(infinity<T>(), z.imag)};
  const complex<T> p = sqrt(complex<T>{1 + z.real, z.imag});
  const complex<T> q = sqrt(complex<T>{1 - z.real, -z.imag});
  return {atan2(z.real, p.real * q.real - p.imag * q.imag),
          nbf::asinh(q.real * p.imag - q.imag * p.real)};
}
template <class T> NBF_DEVICE complex<T> acosh(complex<T> z) {
  if (is_infinite(z)) return {infinity<T>(), atan2(z.imag, z.real)};
  const complex<T> p = sqrt(complex<T>{z.real + 1, z.imag});
  const complex<T> q = sqrt(complex<T>{z.real - 1, z.imag});
  return {nbf::asinh(q.real * p.real + q.imag * p.imag), 2 * atan2(q.imag, p.real)};
}
template <class T> NBF_DEVICE complex<T> atanh(complex<T> z) {
  const T x = abs(z.real), y = abs(z.imag), big = sizeof(T) == 4 ? 1e8f : 1e17f;
  const T quarter_turn = static_cast<T>(1.5707963267948966);
  if (x > big || y > big) {  // 1/z; its real part may be as small as it likes
    const T size = hypot(x, y);
    return {copysign(is_infinite(size) ? 0 : x / size / size, z.real),
            copysign(quarter_turn, z.imag)};
  }
  // Near 1 the square of the distance might be 0, far from it the quotient near 1.
  const T gap = hypot(1 - x, y);
  const T real = gap < static_cast<T>(0.1)
                     ? (nbf::log(hypot(1 + x, y)) - nbf::log(gap)) / 2
                     : nbf::log1p(4 * x / (gap * gap)) / 4;
  const T imag = atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2;
  return {copysign(real, z.real), copysign(imag, z.imag)};
}
template <class T> NBF_DEVICE complex<T> asinh(complex<T> z) {
  return turn_back(asin(turn(z)));
}
template <class T> NBF_DEVICE complex<T> atan(complex<T> z) {
  return turn_back(atanh(turn(z)));
}

// As npy_cpow: products for small integers, which makes those exact.
template <class T> NBF_DEVICE complex<T> pow(complex<T> a, complex<T> b) {
  if (!nonzero(b)) return {1, 0};
  if (!nonzero(a)) {
    if (b.real > 0) return {0, 0};
    return {nan<T>(), nan<T>()};
  }
  if (b.imag != 0 || b.real != nbf::rint(b.real) || abs(b.real) >= 100)
    return exp(b * log(a));
  complex<T> result = {1, 0};
  for (int n = static_cast<int>(abs(b.real)); n > 0; n /= 2) {
    if (n % 2 == 1) result = result * a;
    a = a * a;
  }
  return b.real < 0 ? complex<T>{1, 0} / result : result;
}

}  // namespace nbf

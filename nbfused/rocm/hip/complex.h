// Complex numbers: arithmetic and powers as NumPy has them; other functions are
// written in the scalar language.
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
template <class T> NBF_DEVICE complex<T> complex_from(T a, T b) { return {a, b}; }
template <class T> NBF_DEVICE complex<T> conj(complex<T> z) {
  return {z.real, -z.imag};
}

// --- logarithm

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

// --- powers

// Where exp(x) alone may overflow, its product with cos y need not.
template <class T> NBF_DEVICE complex<T> exp(complex<T> z) {
  const T half = nbf::exp(z.real * static_cast<T>(0.5));
  return {half * nbf::cos(z.imag) * half, half * nbf::sin(z.imag) * half};
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

"""What C bodies find of CUDA, in C++ for the host."""

from __future__ import annotations

__all__ = ["SHIM"]

SHIM = """
#include <cmath>
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
using namespace std;
#define __device__
#define __host__
#define __forceinline__ inline
int __popc(unsigned v) { return __builtin_popcount(v); }
int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }
int __clzll(unsigned long long v) { return v ? __builtin_clzll(v) : 64; }
int __ffs(int v) { return __builtin_ffs(v); }
int __ffsll(long long v) { return __builtin_ffsll(v); }
unsigned __brev(unsigned v) {
    unsigned r = 0;
    for (int k = 0; k < 32; k++) r |= (v >> k & 1) << (31 - k);
    return r; }
unsigned long long __brevll(unsigned long long v) {
    unsigned long long r = 0;
    for (int k = 0; k < 64; k++) r |= (v >> k & 1) << (63 - k);
    return r; }
int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
long long __mul64hi(long long a, long long b) { return (__int128)a * b >> 64; }
unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64; }
template <class To, class From> To bit_cast(From x) {
    To y; memcpy(&y, &x, sizeof(To)); return y; }
int __float_as_int(float x) { return bit_cast<int>(x); }
unsigned __float_as_uint(float x) { return bit_cast<unsigned>(x); }
float __int_as_float(int x) { return bit_cast<float>(x); }
float __uint_as_float(unsigned x) { return bit_cast<float>(x); }
long long __double_as_longlong(double x) { return bit_cast<long long>(x); }
double __longlong_as_double(long long x) { return bit_cast<double>(x); }
struct float2 { float x, y; };
float2 make_float2(float x, float y) { return {x, y}; }
struct Index { long long n; long long size() const { return n; } };
"""

"""Kernels as CuPy generates them for images: filters, splines, morphology."""

from __future__ import annotations

import numpy as np
import scipy.ndimage as ndi

import nbfused as nf
from nbfused import ElementwiseKernel

RNG = np.random.default_rng(12)
IMAGE = RNG.normal(size=(9, 11))
BLOBS = ndi.binary_opening(RNG.random((12, 14)) > 0.25)
MODES = ("mirror", "reflect", "nearest", "wrap", "constant")

#: The element that a place outside means, by the mode of the boundary.
BOUNDARY = """
__device__ int outside(int ix, int n, int mode) {
    if (mode == 0) {                       /* mirror */
        if (n == 1) return 0;
        ix = ix < 0 ? -ix : ix;
        ix = ix % (2 * n - 2);
        return min(ix, 2 * n - 2 - ix);
    }
    if (mode == 1) {                       /* reflect */
        if (ix < 0) ix = -1 - ix;
        ix %= n * 2;
        return min(ix, 2 * n - 1 - ix);
    }
    if (mode == 2) return min(max(ix, 0), n - 1);
    if (mode == 3) { ix %= n; return ix < 0 ? ix + n : ix; }
    return ix < 0 || ix >= n ? -1 : ix;    /* constant */
}
"""


def everywhere(put, body, reference, preamble="", out="T y", **arrays):
    """A kernel on `IMAGE` for each mode, and what SciPy gives."""
    declared = "".join(f", raw {'int32' if a.dtype.kind == 'i' else 'float64'} {n}"
                       for n, a in arrays.items())
    kernel = ElementwiseKernel(f"raw T x{declared}, int32 mode", out, body, "image",
                               preamble=BOUNDARY + preamble)
    found = [nf.to_numpy(kernel(put(IMAGE), *map(put, arrays.values()), k,
                                put(np.zeros_like(IMAGE)))) for k in range(len(MODES))]
    return np.stack(found), np.stack([reference(m) for m in MODES])


def correlation(put):
    weights = RNG.normal(size=(3, 5))
    return everywhere(put, """
        const ptrdiff_t xsize_0 = x.shape()[0], xsize_1 = x.shape()[1];
        ptrdiff_t ind_0 = i / xsize_1 - 1, ind_1 = i % xsize_1 - 2;
        double sum = 0.0;
        #pragma unroll
        for (int iw_0 = 0; iw_0 < 3; iw_0++) {
            const int ix_0 = outside(ind_0 + iw_0, xsize_0, mode);
            for (int iw_1 = 0; iw_1 < 5; iw_1++) {
                const int ix_1 = outside(ind_1 + iw_1, xsize_1, mode);
                const double wval = w[iw_0 * 5 + iw_1];
                if (wval == 0) { continue; }
                sum += (ix_0 < 0 || ix_1 < 0 ? 0.25 : x[ix_0 * xsize_1 + ix_1])
                       * wval;
            }
        }
        y = (T)sum;""", lambda mode: ndi.correlate(
        IMAGE, weights, mode=mode, cval=0.25), w=weights)


def ranks(put):
    """A rank filter that sorts a part of its values."""
    return everywhere(put, """
        const ptrdiff_t ny = x.shape()[0], nx = x.shape()[1];
        T values[9]; int iv = 0;
        for (int a = -1; a <= 1; ++a) for (int b = -1; b <= 1; ++b) {
            int u = outside(i / nx + a, ny, mode), v = outside(i % nx + b, nx, mode);
            values[iv++] = u < 0 || v < 0 ? (T)0 : x[u * nx + v];
        }
        for (int i_ = 0; i_ <= 2; ++i_) {
            int best = i_;
            for (int j = i_ + 1; j < 9; ++j) if (values[j] < values[best]) best = j;
            if (best != i_) { T t = values[best]; values[best] = values[i_];
                              values[i_] = t; }
        }
        y = values[2];""", lambda mode: ndi.rank_filter(IMAGE, 2, size=3, mode=mode))


def extrema_with_places(put):
    """The range of a window, with the minimum and maximum found at once."""
    return everywhere(put, """
        const ptrdiff_t ny = x.shape()[0], nx = x.shape()[1];
        T low = x[i], high = low;
        for (int k = 0; k < 15; ++k) {
            int u = outside(i / nx + k / 5 - 1, ny, mode);
            int v = outside(i % nx + k % 5 - 2, nx, mode);
            const T now = u < 0 || v < 0 ? T(1.5) : x[u * nx + v];
            if (now < low) low = now; else if (now > high) high = now;
        }
        y = high - low;""", lambda mode: ndi.maximum_filter(
        IMAGE, (3, 5), mode=mode, cval=1.5) - ndi.minimum_filter(
            IMAGE, (3, 5), mode=mode, cval=1.5))


def grey_closing_step(put):
    """Dilation by a structure that is not flat."""
    structure = RNG.normal(size=(3, 3))
    return everywhere(put, """
        const int ny = x.shape()[0], nx = x.shape()[1];
        T best = -CUDART_INF;
        for (int k = 0; k < 9; ++k) {
            int u = outside(int(i) / nx + 1 - k / 3, ny, mode);
            int v = outside(int(i) % nx + 1 - k % 3, nx, mode);
            if (mode == 4 && (u < 0 || v < 0)) { best = max(best, s[k]); continue; }
            best = max(best, x[u * nx + v] + s[k]);
        }
        y = best;""", lambda mode: ndi.grey_dilation(
        IMAGE, structure=structure, mode=mode, cval=0.0), s=structure)


def gradient_magnitude(put):
    """Two derivatives by weights that the text has."""
    return everywhere(put, """
        const int ny = x.shape()[0], nx = x.shape()[1];
        const double smooth[3] = {1, 2, 1}, slope[] = {-1, 0, 1};
        double g[2] = {0};
        for (int a = 0; a < 3; ++a)
            for (int b = 0; b < 3; ++b) {
                const int u = outside(int(i) / nx + a - 1, ny, mode);
                const int v = outside(int(i) % nx + b - 1, nx, mode);
                const double now = u < 0 || v < 0 ? 0 : x[u * nx + v];
                g[0] += slope[a] * smooth[b] * now;
                g[1] += slope[b] * smooth[a] * now;
            }
        y = hypot(g[0], g[1]);""", lambda mode: np.hypot(
        ndi.sobel(IMAGE, 0, mode=mode), ndi.sobel(IMAGE, 1, mode=mode)))


def cubic_map_coordinates(put):
    """Splines of order 3 where a boundary mirrors, by coefficients."""
    kernel = ElementwiseKernel("raw T x, raw W coords", "T y", """
        const ptrdiff_t xsize_0 = x.shape()[0];
        const ptrdiff_t xsize_1 = x.shape()[1];
        const ptrdiff_t sx_1 = 1;
        const ptrdiff_t sx_0 = sx_1 * xsize_1;
        ptrdiff_t ncoords = _ind.size();
        W c_0 = coords[i], c_1 = coords[i + ncoords];
        W weights_0[4], weights_1[4];
        int ci_0[4], ci_1[4];
        spline_weights(c_0 - floor(c_0), weights_0);
        spline_weights(c_1 - floor(c_1), weights_1);
        int start = (int)floor(c_0) - 1;
        for (int k = 0; k < 4; k++) ci_0[k] = outside(start + k, xsize_0, 0);
        start = (int)floor(c_1) - 1;
        for (int k = 0; k < 4; k++) ci_1[k] = outside(start + k, xsize_1, 0);
        double out = 0.0;
        for (int k_0 = 0; k_0 < 4; k_0++) {
            ptrdiff_t ic_0 = ci_0[k_0] * sx_0;
            for (int k_1 = 0; k_1 < 4; k_1++) {
                ptrdiff_t ic_1 = ci_1[k_1] * sx_1;
                out += x[ic_0 + ic_1] * (weights_0[k_0] * weights_1[k_1]);
            }
        }
        y = (T)out;""", "spline", preamble=BOUNDARY + """
        template <typename W> __device__ void spline_weights(W t, W* w) {
            w[1] = (t * t * (t - 2.0) * 3.0 + 4.0) / 6.0;
            const W z = 1.0 - t;
            w[2] = (z * z * (z - 2.0) * 3.0 + 4.0) / 6.0;
            w[0] = z * z * z / 6.0;
            w[3] = 1.0 - w[0] - w[1] - w[2];
        }""")
    at = np.stack([RNG.uniform(-1, 9, 20), RNG.uniform(-1, 11, 20)])
    found = kernel(put(ndi.spline_filter(IMAGE, 3, mode="mirror")), put(at),
                   put(np.zeros(20)))
    return found, ndi.map_coordinates(IMAGE, at, order=3, mode="mirror")


def spline_prefilter(put):
    """Each line forward and backward in place, pole by pole."""
    kernel = ElementwiseKernel("int32 n, int32 poles", "raw T y", """
        const double POLES[2] = {-0.430575347099973791851434783493520110,
                                 -0.0430962882032646537582270389122655};
        T* c = &y[i * n];
        double gain = 1.0;
        for (int k = 0; k < poles; ++k) gain *= (1 - POLES[k]) * (1 - 1 / POLES[k]);
        for (int k = 0; k < n; ++k) c[k] *= gain;
        for (int p = 0; p < poles; ++p) {
            const double z = POLES[p];
            double z_i = z, z_n_1 = pow(z, (double)(n - 1));
            c[0] = c[0] + z_n_1 * c[n - 1];
            for (int k = 1; k < n - 1; ++k) {
                c[0] += z_i * (c[k] + z_n_1 * c[n - 1 - k]);
                z_i *= z;
            }
            c[0] /= 1 - z_n_1 * z_n_1;
            for (int k = 1; k < n; ++k) c[k] += z * c[k - 1];
            c[n - 1] = (z * c[n - 2] + c[n - 1]) * z / (z * z - 1);
            for (int k = n - 2; k >= 0; --k) c[k] = z * (c[k + 1] - c[k]);
        }""", "prefilter")
    lines = RNG.normal(size=(5, 12))
    out = put(lines.copy())
    return kernel(12, 2, out, size=5), ndi.spline_filter1d(lines, 5, 1, mode="mirror")


def affine(put):
    """Rotated, bilinear, with a value outside."""
    kernel = ElementwiseKernel("raw X x, raw W mat, raw W offset, W cval", "Y y", """
        const ptrdiff_t xsize_0 = x.shape()[0];
        const ptrdiff_t xsize_1 = x.shape()[1];
        ptrdiff_t in_coord[2];
        ptrdiff_t idx = i;
        in_coord[1] = idx % xsize_1; idx /= xsize_1; in_coord[0] = idx;
        W c[2];
        for (int d = 0; d < 2; d++) {
            c[d] = offset[d];
            for (int k = 0; k < 2; ++k) c[d] += mat[d * 2 + k] * (W)in_coord[k];
        }
        if ((c[0] < 0) || (c[0] > xsize_0 - 1) || (c[1] < 0) || (c[1] > xsize_1 - 1)) {
            y = (Y)cval;
            return;
        }
        double out = 0.0;
        for (int corner = 0; corner < 4; ++corner) {
            double w = 1; ptrdiff_t at = 0;
            for (int d = 0; d < 2; ++d) {
                ptrdiff_t cf = (ptrdiff_t)floor((double)c[d]);
                const ptrdiff_t n = d ? xsize_1 : xsize_0;
                const bool up = corner >> d & 1;
                w *= up ? c[d] - cf : cf + 1 - c[d];
                at = at * n + min(cf + up, n - 1);
            }
            out += w * x[at];
        }
        y = (Y)out;""", "affine")
    matrix, offset = np.array([[0.8, 0.4], [-0.3, 0.9]]), np.array([0.3, 1.1])
    found = kernel(put(IMAGE), put(matrix.ravel()), put(offset), -2.0,
                   put(np.zeros_like(IMAGE)))
    return found, ndi.affine_transform(IMAGE, matrix, offset, order=1, cval=-2.0)


def zoomed(put):
    """The nearest element, as integers that are rounded."""
    kernel = ElementwiseKernel("raw X x, raw W zoom", "Y y", """
        const int xs = x.shape()[1], ys = _ind.shape()[1];
        const W c0 = zoom[0] * (W)(i / ys), c1 = zoom[1] * (W)(i % ys);
        const int k0 = (int)floor(c0 + 0.5), k1 = (int)floor(c1 + 0.5);
        y = (Y)rint((double)x[k0 * xs + k1]);""", "zoom")
    image = RNG.integers(0, 200, (5, 6)).astype(np.uint8)
    found = kernel(put(image), put(np.array([4 / 9, 5 / 12])),
                   put(np.zeros((10, 13), np.uint8)))
    return found, ndi.zoom(image, (2, 13 / 6), order=0)


def eroded(put):
    """Binary erosion by a structure, where a mask allows it, with a border value."""
    kernel = ElementwiseKernel(
        "raw S x, raw bool w, raw bool mask, bool border, int32 ny, int32 nx", "Y y",
        """
        if (!mask[i]) { y = (Y)x[i]; return; }
        y = 1;
        for (int a = 0; a < 3; a++) {
            const int u = int(i) / nx + a - 1;
            for (int b = 0; b < 3; b++) {
                if (!w[a * 3 + b]) continue;
                const int v = int(i) % nx + b - 1;
                bool value = border;
                if (u >= 0 && u < ny && v >= 0 && v < nx) value = x[u * nx + v];
                if (!value) { y = 0; return; }
            }
        }""", "erosion")
    structure = ndi.generate_binary_structure(2, 1)
    mask = RNG.random(BLOBS.shape) > 0.3
    found = [nf.to_numpy(kernel(put(BLOBS), put(structure), put(mask), b, 12, 14,
                                put(np.zeros(BLOBS.shape, np.int8)))) for b in (0, 1)]
    return np.stack(found), np.stack([ndi.binary_erosion(
        BLOBS, structure, mask=mask, border_value=b) for b in (0, 1)])


def squared_distances(put):
    """Felzenszwalb's and Huttenlocher's lower envelope, a line for each element."""
    kernel = ElementwiseKernel("raw T f, int32 n", "raw T d", """
        int v[16]; double z[17];
        int k = 0;
        v[0] = 0; z[0] = -INFINITY; z[1] = INFINITY;
        const T* line = &f[i * n];
        for (int q = 1; q < n; q++) {
            double s;
            while (true) {
                const int p = v[k];
                s = ((line[q] + q * q) - (line[p] + p * p)) / (2.0 * (q - p));
                if (s > z[k]) break;
                k--;
            }
            k++;
            v[k] = q; z[k] = s; z[k + 1] = INFINITY;
        }
        k = 0;
        for (int q = 0; q < n; q++) {
            while (z[k + 1] < q) k++;
            d[i * n + q] = (q - v[k]) * (q - v[k]) + line[v[k]];
        }""", "envelope")
    start = np.where(BLOBS, 1e6, 0.0)
    rows = nf.to_numpy(kernel(put(start), 14, put(np.zeros_like(start)), size=12))
    found = nf.to_numpy(kernel(put(rows.T.copy()), 12, put(np.zeros((14, 12))),
                               size=14))
    return found.T, ndi.distance_transform_edt(BLOBS) ** 2


def floods(put):
    """A watershed of two seeds by repeated floods: each element takes a neighbour."""
    kernel = ElementwiseKernel("raw T height, raw int32 labels, T level, int32 nx",
                               "int32 y", """
        y = labels[i];
        if (y != 0 || height[i] > level) return;
        const int steps[4] = {-1, 1, -nx, nx};
        for (int k = 0; k < 4; ++k) {
            const ptrdiff_t j = i + steps[k];
            if (j < 0 || j >= _ind.size()) continue;
            if (k < 2 && j / nx != i / nx) continue;
            if (labels[j] > y) y = labels[j];
        }""", "flood")
    u, v = np.mgrid[:8, :10]
    height = np.minimum(np.hypot(u - 2, v - 2), np.hypot(u - 5, v - 7))
    labels = np.zeros((8, 10), np.int32)
    labels[2, 2], labels[5, 7] = 1, 2
    expected, found = labels.copy(), put(labels.copy())
    for level in np.linspace(0, height.max(), 30):
        for _ in range(3):
            found = kernel(put(height), found, level, 10, put(np.zeros_like(labels)))
            near = np.pad(expected, 1)
            best = np.max([near[:-2, 1:-1], near[2:, 1:-1], near[1:-1, :-2],
                           near[1:-1, 2:]], axis=0)
            expected = np.where((expected == 0) & (height <= level), best, expected)
    return found, expected


CASES = {name: case for name, case in list(globals().items())
         if getattr(case, "__module__", "") == __name__ and name != "everywhere"}

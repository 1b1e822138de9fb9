"""Expressions of the table of NumPy's functions, with random keywords.

A call that NumPy refuses is dropped, so that rows need not say where each holds.
"""

from __future__ import annotations

from tests.fuzz.rows import ANY, REAL, Row, rows

__all__ = ["LEFT_OUT", "NUMPY_ROWS"]


def _table(template: str, names: str = "", kinds: str = REAL, features: str = "",
           **options: object) -> list[Row]:
    """Rows for functions whose names are in a text."""
    return rows(template, names.split() or [""], kinds,
                features=f"table {features}", **options)  # type: ignore[arg-type]


def _moving(template: str, names: str = "", kinds: str = ANY, **options: object,
            ) -> list[Row]:
    return _table(template, names, kinds, exact=True, **options)


def _counting(template: str, names: str = "", kinds: str = REAL, **options: object,
              ) -> list[Row]:
    return _table(template, names, kinds, exact=True, smooth=False, **options)


NUMPY_ROWS: tuple[Row, ...] = (
    # Elements moved, joined and repeated.
    *_moving("np.roll({a}, {shift})"), *_moving("np.roll({a}, {shift}{,one axis})"),
    *_moving("np.flip({a}{,axis})", ndim=1), *_moving("np.@({a})", "fliplr flipud",
                                                      ndim=2),
    *_moving("np.rot90({a}, {shift})", ndim=2),
    *_moving("np.@({a}, {shift})", "tril triu diag diagflat", features="ravel",
             ndim=1),
    *_moving("np.@({a}, {shift})", "diagonal", features="ravel", ndim=2),
    *_table("np.trace({a}, {shift})", kinds="iuf", ndim=2),
    *_moving("np.@({a})", "atleast_1d atleast_2d atleast_3d squeeze"),
    *_moving("np.@({a}, {axis0}, 0)", "rollaxis swapaxes moveaxis", ndim=1),
    *_moving("np.@({a})", "matrix_transpose linalg.matrix_transpose", ndim=2),
    *_moving("np.permute_dims({a}, ({axes},))", ndim=1),
    *_moving("np.resize({a}, {wider})"), *_moving("np.tile({a}, {reps})"),
    *_moving("np.repeat({a}, {reps}{,one axis})", ndim=1),
    *_moving("np.pad({a}, {reps}, mode='@')", "constant edge reflect symmetric wrap",
             weight=0.5),
    *_moving("np.pad({a}, {width}, constant_values={k})", kinds="iuf"),
    *_moving("np.@(({a}, {a}))", "hstack vstack dstack column_stack",
             features="arrays"),
    *_moving("np.@([{a}, {b}])", "hstack vstack", kinds="if,if"),
    *_moving("np.stack([{a}, {a}]{,one axis})", features="arrays"),
    *_moving("np.concat(({a}, {b}))", kinds="if,if"),
    *_moving("np.append({a}, {b})", kinds="if,if"),
    *_moving("np.block([[{a}, {a}], [{a}, {a}]])"),
    *_moving("np.array_split({a}, 2{,one axis})[{bit}]", ndim=1),
    *_moving("np.split({a}, [1]{,one axis})[{bit}]", ndim=1),
    *_moving("np.@({a}, [1])[0]", "hsplit vsplit dsplit", ndim=1),
    *_moving("np.unstack({a}{,one axis})[0]", ndim=1),
    *_moving("np.delete({a}, [0]{,one axis})", ndim=1),
    *_moving("np.insert({a}, 1, {k}{,one axis})", kinds="iuf", ndim=1),
    *_moving("np.meshgrid({a}, {b})[{bit}]", kinds="if,if", ndim=1),
    *_moving("np.broadcast_arrays({a}, {b})[0]", kinds="if,if"),
    *_moving("np.take({a}, {indices}{,mode})", features="where"), *_moving(
        "np.take_along_axis({a}, np.argsort({a}, axis=0), 0)", kinds="if", ndim=1),
    *_moving("np.compress([True], {a}{,one axis})", ndim=1),
    *_moving("np.choose(np.array([0, 1])[{bit}], [{a}, -{a}])", kinds="if"),
    *_moving("np.select([{a} > 0, {a} < -1], [{a}, 2 * {a}], {k})", kinds="if"),
    *_moving("np.clip({a}, {lower}, {upper})", kinds="if"),
    *_moving("np.nan_to_num({a}, nan={k})", kinds="f"),
    *_moving("np.@({a})", "real imag", kinds="fc"),
    *_moving("np.@({a})", "copy ones_like zeros_like", features="arrays"),
    # Functions of elements.
    *_table("np.@({a})", "sinc deg2rad rad2deg i0 fabs unwrap", "f", domain=(-4, 4)),
    *_table("np.@({a})", "fix", "f", exact=True, smooth=False),
    *_table("np.@({a}, {bit})", "around round", "f", smooth=False),
    *_table("np.float_power({a}, {p})", kinds="iuf", domain=(0.3, 4)),
    *_table("np.modf({a})[{bit}]", kinds="f", smooth=False),
    *_table("np.frexp({a})[{bit}]", kinds="f", exact=True, smooth=False),
    *_table("np.divmod({b}, {a})[{bit}]", kinds="iuf,iuf", domain=(0.3, 9),
            smooth=False),
    *_table("np.ldexp({a}, {k})", kinds="f"),
    *_counting("np.@({a})", "signbit isneginf isposinf iscomplex isreal"),
    *_counting("np.isclose({a}, {b}, rtol=0.1)", kinds="if,if"),
    *_counting("np.isin({a}, {indices})", kinds="iu", ndim=1),
    *_counting("np.logical_xor({a}, {b})", kinds="biuf,biuf"),
    *_counting("np.@({a}, {b})", "gcd lcm", kinds="iu,iu"),
    *_counting("np.bitwise_count({a})", kinds="iu"),
    # Reductions and running ones.
    *_table("np.@({a}{,axis}{keep})", "amax amin ptp nanmax nanmin", "iuf", exact=True,
            ndim=1),
    *_table("np.@({a}{,axis}{keep})", "nansum nanmean nanvar nanstd median nanmedian",
            "f", ndim=1),
    *_table("np.@({a}{,axis}, ddof={bit}{keep})", "var std", "f", ndim=1),
    *_table("np.@({a}{,axis}, where={a} > 0)", "sum mean", "f", features="where",
            ndim=1),
    *_table("np.nanprod({a}{,axis})", kinds="f", domain=(0.4, 2.5), ndim=1),
    *_table("np.@({a}, {share}{,axis}{keep})", "quantile nanquantile", "f", ndim=1),
    *_table("np.percentile({a}, [25, 60.5]{,axis})", kinds="f", ndim=1),
    *_table("np.average({a}{,axis}, weights=np.abs({a}) + 1)", kinds="f", ndim=1),
    *_table("np.@({a}{,axis})", "cumsum nancumsum", "iuf", ndim=1),
    *_table("np.cumprod({a}{,axis})", kinds="f", domain=(0.4, 2.5), ndim=1),
    *_table("np.cumulative_sum({a}{,one axis}, include_initial={flag})", kinds="if",
            ndim=1),
    *_table("np.diff({a}, {order}{,one axis})", kinds="if", ndim=1),
    *_table("np.ediff1d({a})", kinds="if"),
    *_table("np.gradient({a}{,one axis})", kinds="f", ndim=1),
    *_table("np.trapezoid({a}{,one axis})", kinds="f", ndim=1),
    *_counting("np.count_nonzero({a}{,axis})", ndim=1),
    *_counting("np.@({a}{,one axis})", "nanargmax nanargmin", "f", ndim=1),
    # Sorted.
    *_table("np.sort({a}{,one axis})", kinds="iuf", exact=True, ndim=1),
    *_counting("np.argsort({a}{,one axis}, stable=True)", kinds="iuf", ndim=1),
    *_table("np.partition({a}, 0)[..., 0]", kinds="if", exact=True, ndim=1),
    *_counting("np.searchsorted(np.sort({a}, None), {b})", kinds="f,f", ndim=1),
    *_counting("np.digitize({a}, [-1, 0, 2])", kinds="if"),
    *_counting("np.bincount(np.abs({a}).ravel() % 5, minlength=5)", kinds="i"),
    *_counting("np.histogram({a}, bins=4, range=(-3, 3))[0]", kinds="f"),
    *_table("np.unique({a})", kinds="iuf", exact=True, features="dynamic",
            smooth=False, weight=0.4),
    *_counting("np.@({a})", "flatnonzero argwhere", features="dynamic", ndim=1,
               weight=0.4),
    # Products and sums of them.
    *_table("np.@({a}, {b})", "inner outer kron vdot", "f,f", ndim=1),
    *_table("np.@({a}, {b})", "cross linalg.cross vecdot linalg.vecdot matvec vecmat",
            "f,f", ndim=1, weight=0.5),
    *_table("np.tensordot({a}, {b}, {bit})", kinds="f,f", ndim=1),
    *_table("np.einsum('ij,kj->ik', {a}, {b})", kinds="f,f", ndim=2),
    *_table("np.einsum('i...->...', {a})", kinds="f", ndim=1),
    *_table("np.@({a}, {b}, '{mode}')", "convolve correlate", "f,f", ndim=1),
    *_table("np.interp({a}, [-1, 0.5, 2], [1, 3, -2])", kinds="f", ndim=1),
    *_table("np.@({a})", "cov corrcoef", "f", ndim=2, weight=0.5),
    *_table("np.linalg.norm({a}, {norm}{,axis}{keep})", kinds="f", domain=(0.2, 1e3),
            ndim=1),
    *_table("np.linalg.norm({a})", kinds="f", domain=(0.2, 1e3)),
    *_table("np.linalg.vector_norm({a}{,axis}{keep})", kinds="f", domain=(0.2, 1e3),
            ndim=1),
    *_table("np.linalg.@({square})", "det inv pinv", "f", ndim=2, weight=2),
    *_table("np.linalg.slogdet({square})[1]", kinds="f", ndim=2, weight=2),
    *_table("np.linalg.solve({square}, {a})", kinds="f", ndim=2, weight=2),
    *_table("np.linalg.matrix_power({square}, 2)", kinds="f", ndim=2),
    # Which triangle they read is another convention in derivatives.
    *_table("np.linalg.@({square})", "cholesky eigvalsh", "f", ndim=2, smooth=False),
    *_table("np.linalg.svdvals({square})", kinds="f", ndim=2),
    *_table("np.fft.rfft({a}).real", kinds="f", ndim=1, smooth=False),
    *_table("np.abs(np.fft.fft({a}) + 3)", kinds="f", ndim=1, smooth=False),
    *_moving("np.fft.@({a})", "fftshift ifftshift", ndim=1),
    # Polynomials and sequences.
    *_table("np.polyval([1.0, {k}, -0.5], {a})", kinds="f", domain=(-5, 5)),
    *_table("np.@(np.ravel({a}), np.ravel({b}))", "polyadd polysub polymul", "f,f",
            features="view ravel", weight=0.5),
    *_table("np.@(np.ravel({a}))", "polyder polyint", "f", features="view ravel",
            weight=0.5),
    *_table("np.vander({a}, 3)", kinds="f", ndim=1),
    *_table("np.linspace({a}, {b}, 4)", kinds="f,f"),
    *_table("np.geomspace({a}, 2 * {a}, 3)", kinds="f", domain=(0.3, 9)),
    *_table("np.logspace({a}, 1, 3)", kinds="f", domain=(-2, 2)),
    *_table("np.apply_along_axis(lambda v: v.sum() * v, {axis0}, {a})", kinds="f",
            ndim=1, weight=0.4),
    *_table("np.apply_over_axes(np.sum, {a}, [0])", kinds="f", features="where",
            ndim=1),
    *_table("np.piecewise({a}, [{a} < 0], [lambda v: -v, lambda v: v * v])",
            kinds="f"),
    # Arrays of numbers, which are constants.
    *_table("{a} * np.arange({a}.shape[-1])", kinds="if", features="constant", ndim=1),
    *_table("{a} + np.linspace(0, 1, {a}.shape[-1])", kinds="f", features="constant",
            ndim=1),
    *_table("np.matmul({a}, np.eye({a}.shape[-1]))", kinds="f", features="constant",
            ndim=1),
    # Names that are few functions' own.
    *_moving("np.linalg.diagonal({a}, offset={shift})", features="ravel", ndim=2),
    *_table("np.linalg.trace({a}, offset={shift})", kinds="iuf", ndim=2),
    *_table("np.linalg.@({a}, {b})", "matmul tensordot", "f,f", ndim=2, weight=0.3),
    *_table("np.linalg.outer({a}, {b})", kinds="f,f", ndim=1, weight=0.3),
    *_table("np.linalg.multi_dot([{square}, {square}])", kinds="f", ndim=2, weight=0.5),
    *_table("np.linalg.matrix_norm({square})", kinds="f", ndim=2, weight=0.5),
    *_table("np.linalg.cond({square}, 'fro')", kinds="f", ndim=2, weight=0.3),
    *_counting("np.linalg.matrix_rank({square})", kinds="f", ndim=2, weight=0.3),
    *_table("np.linalg.@({square})[{bit}]", "eigh qr svd", "f", ndim=2, smooth=False,
            weight=0.3),
    *_table("np.linalg.lstsq({square}, {a}, rcond=None)[0]", kinds="f", ndim=2,
            smooth=False, weight=0.3),
    *_table("np.nancumprod({a}{,one axis})", kinds="f", domain=(0.4, 2.5), ndim=1),
    *_table("np.cumulative_prod({a}{,one axis})", kinds="f", domain=(0.4, 2.5),
            ndim=1),
    *_table("np.nanpercentile({a}, 40{,axis})", kinds="f", ndim=1),
    *_table("np.@({a})", "spacing", "f", smooth=False, weight=0.3),
    *_table("np.nextafter({a}, {b})", kinds="f,f", smooth=False, weight=0.3),
    *_moving("np.astype({a}, 'f4')", kinds="if", smooth=False),
    *_table("np.fft.@({a}).real", "ifft irfft hfft ihfft", "f", ndim=1, smooth=False,
            weight=0.3),
    *_table("np.fft.@({a}).real", "fft2 ifft2 rfft2 fftn ifftn rfftn", "f", ndim=2,
            smooth=False, weight=0.2),
    *_counting("np.packbits({a} > 0)", kinds="if", ndim=1, weight=0.4),
    *_counting("np.lexsort(({a}, {a}))", kinds="if", ndim=1, weight=0.3),
    *_table("np.histogram_bin_edges({a}, bins=3, range=(-2, 2))", kinds="f",
            smooth=False, weight=0.3),
    *_counting("np.@({a}, {b})", "union1d intersect1d setdiff1d setxor1d", "iu,iu",
               features="dynamic", ndim=1, weight=0.3),
    *_counting("np.@({a})", "unique_values trim_zeros", "iu", features="dynamic",
               ndim=1, weight=0.3),
    *_counting("np.extract({a} > 0, {a})", kinds="iuf", features="dynamic", ndim=1,
               weight=0.3),
    *_counting("np.nonzero({a})[0]", features="dynamic", ndim=1, weight=0.3),
    # Methods.
    *_moving("{a}.@()", "flatten copy conj", features="view"),
    *_moving("{a}.swapaxes(0, -1)", ndim=1),
    *_moving("{a}.repeat({reps}{,one axis})", ndim=1), *_table(
        "{a}.@({axis})", "cumsum", "if", ndim=1),
    *_table("{a}.@({shift})", "trace diagonal", "if", features="ravel", ndim=2),
    *_table("{a}.round({bit})", kinds="f", smooth=False),
    *_counting("{a}.argsort()", kinds="if", ndim=1),
    *_table("{a}.dot({b})", kinds="f,f", ndim=1, features="dot"),
)

_ANSWER = "its answer is no array"
_INDICES = "it gives several arrays of indices, or takes them"
_LIKE = "another row draws what it is made of"

#: Functions that no row draws, and why.
LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("allclose", "array_equal", "array_equiv", "can_cast",
                     "common_type", "iscomplexobj", "isrealobj", "min_scalar_type",
                     "ndim", "result_type", "shape", "size"), _ANSWER),
    **dict.fromkeys(("diag_indices_from", "ix_", "ravel_multi_index",
                     "tril_indices_from", "triu_indices_from", "unravel_index"),
                    _INDICES),
    **dict.fromkeys(("fft.irfft2", "fft.irfftn", "histogram2d", "histogramdd",
                     "linalg.tensorinv", "linalg.tensorsolve", "row_stack",
                     "unique_all", "unique_counts", "unique_inverse", "unpackbits"),
                    _LIKE),
    **dict.fromkeys(("angle", "linalg.eig", "linalg.eigvals", "poly", "real_if_close",
                     "sort_complex"), "it is of complex numbers, or gives them"),
    "argpartition": "the order within its parts is each library's own",
    "empty_like": "its elements are any",
}

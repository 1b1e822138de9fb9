"""Draws from distributions in C, in the style of what CuPy compiles for them."""

from __future__ import annotations

__all__ = ["PREAMBLE"]

#: The generator of Marsaglia's, six words of state, and what is drawn from it.
PREAMBLE = """
struct rk_state {
    unsigned int x, y, z, w, v, d;
};

__device__ unsigned int rk_random(rk_state* state) {
    unsigned int t = state->x ^ (state->x >> 2);
    state->x = state->y;
    state->y = state->z;
    state->z = state->w;
    state->w = state->v;
    state->v = (state->v ^ (state->v << 4)) ^ (t ^ (t << 1));
    return (state->d += 362437) + state->v;
}

__device__ void rk_seed(unsigned long long s, rk_state* state) {
    state->x = 123456789u ^ (unsigned int)s;
    state->y = 362436069u + (unsigned int)(s >> 16);
    state->z = 521288629u; state->w = 88675123u;
    state->v = 5783321u; state->d = 6615241u * (1 + (unsigned int)s);
    for (int i = 1; i <= 8; i++) rk_random(state);
}

/* 53 bits of two words */
__device__ double rk_double(rk_state *state) {
    int a = rk_random(state) >> 5, b = rk_random(state) >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
}

__device__ double rk_gauss(rk_state *state) {
    double f, x1, x2, r2;
    do {
        x1 = 2.0*rk_double(state) - 1.0;
        x2 = 2.0*rk_double(state) - 1.0;
        r2 = x1*x1 + x2*x2;
    } while (r2 >= 1.0 || r2 == 0.0);
    f = sqrt(-2.0*log(r2)/r2);
    return f*x2;
}

__device__ double rk_standard_exponential(rk_state *state) {
    /* We use -log(1-U) since U is [0, 1) */
    return -log(1.0 - rk_double(state));
}

__device__ double rk_standard_gamma(rk_state *state, double shape) {
    double b, c, U, V, X, Y;
    if (shape == 1.0) {
        return rk_standard_exponential(state);
    } else if (shape < 1.0) {
        for (;;) {
            U = rk_double(state);
            V = rk_standard_exponential(state);
            if (U <= 1.0 - shape) {
                X = pow(U, 1./shape);
                if (X <= V) {
                    return X;
                }
            } else {
                Y = -log((1-U)/shape);
                X = pow(1.0 - shape + shape*Y, 1./shape);
                if (X <= (V + Y)) {
                    return X;
                }
            }
        }
    } else {
        b = shape - 1./3.;
        c = 1./sqrt(9*b);
        for (;;) {
            do {
                X = rk_gauss(state);
                V = 1.0 + c*X;
            } while (V <= 0.0);
            V = V*V*V;
            U = rk_double(state);
            if (U < 1.0 - 0.0331*(X*X)*(X*X)) return (b*V);
            if (log(U) < 0.5*X*X + b*(1. - V + log(V))) return (b*V);
        }
    }
}

__device__ long rk_poisson_mult(rk_state *state, double lam) {
    long X;
    double prod, U, enlam;
    enlam = exp(-lam);
    X = 0;
    prod = 1.0;
    while (1) {
        U = rk_double(state);
        prod *= U;
        if (prod > enlam) {
            X += 1;
        } else {
            return X;
        }
    }
}

__device__ long rk_geometric_search(rk_state *state, double p) {
    double U;
    long X;
    double sum, prod, q;
    X = 1;
    sum = prod = p;
    q = 1.0 - p;
    U = rk_double(state);
    while (U > sum) {
        prod *= q;
        sum += prod;
        X++;
    }
    return X;
}

__device__ long rk_binomial(rk_state *state, int n, double p) {
    double q, qn, px, U;
    long X, bound;
    bool turned = false;
    if (p > 0.5) { p = 1 - p; turned = true; }
    q = 1.0 - p;
    qn = exp(n * log(q));
    const double np = n*p;
    bound = (long)min((double)n, np + 10.0*sqrt(np*q + 1));
    X = 0;
    px = qn;
    U = rk_double(state);
    while (U > px) {
        X++;
        if (X > bound) {
            X = 0;
            px = qn;
            U = rk_double(state);
        } else {
            U -= px;
            px  = ((n-X+1) * p * px)/(X*q);
        }
    }
    return turned ? n - X : X;
}

__device__ long rk_zipf(rk_state *state, double a) {
    double am1, b;
    am1 = a - 1.0;
    b = pow(2.0, am1);
    while (1) {
        double T, U, V, X;
        U = 1.0 - rk_double(state);
        V = rk_double(state);
        X = floor(pow(U, -1.0/am1));
        if (X > 2147483647 || X < 1.0) continue;
        T = pow(1.0 + 1.0/X, am1);
        if (V*X*(T - 1.0)/(b - 1.0) <= T/b) {
            return (long)X;
        }
    }
}

__device__ double rk_vonmises(rk_state *state, double mu, double kappa) {
    double s, U, V, W, Y, Z, result, mod;
    int neg;
    if (kappa < 1e-8) {
        return M_PI * (2*rk_double(state)-1);
    } else {
        if (kappa < 1e-5) s = (1./kappa + kappa);
        else {
            double r = 1 + sqrt(1 + 4*kappa*kappa);
            double rho = (r - sqrt(2*r)) / (2*kappa);
            s = (1 + rho*rho)/(2*rho);
        }
        while (1) {
            U = rk_double(state);
            Z = cos(M_PI*U);
            W = (1 + s*Z)/(s + Z);
            Y = kappa * (s - W);
            V = rk_double(state);
            if ((Y*(2-Y) - V >= 0) || (log(Y/V)+1 - Y >= 0)) {
                break;
            }
        }
        U = rk_double(state);
        result = acos(W);
        if (U < 0.5) {
            result = -result;
        }
        result += mu;
        neg = (result < 0);
        mod = fabs(result);
        mod = (fmod(mod+M_PI, 2*M_PI)-M_PI);
        if (neg) {
            mod *= -1;
        }
        return mod;
    }
}

__device__ long rk_logseries(rk_state *state, double p) {
    double q, r, U, V;
    long result;
    r = log(1.0 - p);
    while (1) {
        V = rk_double(state);
        if (V >= p) { return 1; }
        U = rk_double(state);
        q = 1.0 - exp(r*U);
        if (V <= q*q) {
            result = (long)floor(1 + log(V)/log(q));
            if (result < 1) { continue; } else { return result; }
        }
        return V >= q ? 1 : 2;
    }
}

__device__ long rk_hypergeometric(rk_state *state, long good, long bad, long sample) {
    long d1, k, z;
    double d2, u, y;
    d1 = bad + good - sample;
    d2 = (double)min(bad, good);
    y = d2;
    k = sample;
    while (y > 0.0) {
        u = rk_double(state);
        y -= (long)floor(u + y/(d1 + k));
        k--;
        if (k == 0) break;
    }
    z = (long)(d2 - y);
    if (good > bad) z = sample - z;
    return z;
}

__device__ double rk_beta(rk_state *state, double a, double b) {
    double Ga, Gb;
    if ((a <= 1.0) && (b <= 1.0)) {
        double U, V, X, Y;
        while (1) {
            U = rk_double(state);
            V = rk_double(state);
            X = pow(U, 1.0/a);
            Y = pow(V, 1.0/b);
            if ((X + Y) <= 1.0) {
                if ((X + Y) > 0) return X / (X + Y);
                double logX = log(U) / a, logY = log(V) / b;
                double logM = logX > logY ? logX : logY;
                logX -= logM;
                logY -= logM;
                return exp(logX - log(exp(logX) + exp(logY)));
            }
        }
    }
    Ga = rk_standard_gamma(state, a);
    Gb = rk_standard_gamma(state, b);
    return Ga/(Ga + Gb);
}

__device__ double rk_standard_t(rk_state *state, double df) {
    return sqrt(df/2)*rk_gauss(state)/sqrt(rk_standard_gamma(state, df/2));
}

__device__ double rk_triangular(rk_state *state, double left, double mode,
                                double right) {
    double base = right - left, leftbase = mode - left;
    double ratio = leftbase / base, leftprod = leftbase*base,
           rightprod = (right - mode)*base, U = rk_double(state);
    if (U <= ratio)
        return left + sqrt(U*leftprod);
    else
        return right - sqrt((1.0 - U) * rightprod);
}
"""

"""
Black–Scholes, with greeks and implied volatilities
===================================================

The price of an option is one scalar function.  Its sensitivities, which traders call
greeks, are derivatives that nobody writes down, and its derivative can itself be
called in a kernel: that is how Newton's method finds the volatility behind a price.
"""

import matplotlib.pyplot as plt
import numpy as np

import nbfused as nf

COUNT = 400  # spot prices
STRIKE = 100.0  # what the stock costs by the option
RATE = 0.03  # of interest, a year
DEVICE = "cpu"  # where it runs: cpu, cuda, cuda:1, rocm

# %%
# The price of a call: `spot` is what the stock costs now, `time` the years until the
# option ends.


@nf.func
def normal(x):
    """The distribution function of the standard normal distribution."""
    return 0.5 * nf.erfc(-x / np.sqrt(2.0))


@nf.elementwise
def call(spot, time, volatility):
    """The value of a European call by Black and Scholes."""
    spread = volatility * np.sqrt(time)
    d1 = (np.log(spot / STRIKE) + RATE * time) / spread + 0.5 * spread
    return spot * normal(d1) - STRIKE * np.exp(-RATE * time) * normal(d1 - spread)


# %%
# `nf.grad` gives the slope in one argument, and the slope of a slope.  Theta is the
# growth with time, with the other sign.


def value(spot, time, volatility):
    """The sum of the prices, whose gradient has the slope of each."""
    return call(spot, time, volatility).sum()


delta = nf.grad(value, argnums=0)
growth = nf.grad(value, argnums=1)
vega = nf.grad(value, argnums=2)
gamma = nf.grad(lambda *at: delta(*at).sum(), argnums=0)

spot = np.linspace(50.0, 150.0, COUNT)
years = np.array([0.1, 0.5, 2.0])
at = [nf.array(np.broadcast_to(x, (3, COUNT)).copy(), device=DEVICE)
      for x in (spot, years[:, None], 0.25)]
greeks = {"price": call(*at), "delta": delta(*at), "gamma": gamma(*at),
          "vega": vega(*at), "growth with time": growth(*at)}
greeks = {name: nf.to_numpy(value) for name, value in greeks.items()}

# %%
# In a kernel, `nf.derivative` is a function like any other.  Each element takes as many
# steps of Newton's method as it needs.

slopes = nf.derivative(call)


@nf.elementwise
def implied(price, spot, time):
    """The volatility at which a call has this price."""
    volatility = np.sqrt(abs(np.log(spot / STRIKE) + RATE * time) * 2.0 / time) + 0.01
    step = 1.0
    while abs(step) > 1e-10:
        _, _, slope = slopes(spot, time, volatility, 1.0)
        step = (call(spot, time, volatility) - price) / slope
        volatility -= step
    return volatility


# %%
# A market whose volatility is a smile: its prices give the smile back.

moneyness, maturity = np.meshgrid(np.linspace(-0.25, 0.25, 60), np.linspace(0.2, 2, 60))
smile = 0.2 + 0.6 * moneyness**2 / maturity - 0.08 * moneyness
stock = STRIKE * np.exp(-moneyness)
market = [nf.array(x, device=DEVICE) for x in (stock, maturity, smile)]
volatilities = nf.to_numpy(implied(call(*market), *market[:2]))
print(f"volatilities from {smile.min():.3f} to {smile.max():.3f}, found again within "
      f"{abs(volatilities - smile).max():.0e}")

# %%
# Options that end in 0.1, 0.5 and 2 years.

figure, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained")
for panel, (title, curves) in zip(axes.flat, greeks.items(), strict=False):
    for curve, end, colour in zip(curves, years, ("#d55e00", "#009e73", "#0072b2"),
                                  strict=True):
        panel.plot(spot, curve, color=colour, linewidth=2, label=f"{end:g} years")
    panel.set_title(title)
    panel.grid(alpha=0.3)
axes[0, 0].legend(frameon=False)
panel = axes[1, 2]
panel.set_title("implied volatility")
colours = panel.pcolormesh(-moneyness, maturity, volatilities, shading="gouraud")
panel.set_xlabel("log of spot over strike")
panel.set_ylabel("years")
figure.colorbar(colours)
plt.show()

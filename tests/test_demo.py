"""The demo: it learns, its comparison is right, and it leaves a picture."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")

import nbfused as nf
from nbfused.demo import choose_device, main, unfused
from nbfused.demo.compare import cases, compare
from nbfused.demo.digits import load
from nbfused.demo.network import Perceptron, initial
from nbfused.demo.train import train

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


def plain_loss(values, pictures, labels):
    """The network and its loss, written again in NumPy."""
    p = values
    hidden = unfused.gelu(pictures @ p["w1"] + p["b1"])
    hidden = unfused.layer_norm(hidden, p["gain"], p["shift"])
    hidden = unfused.swish(hidden @ p["w2"] + p["b2"])
    return unfused.cross_entropy_gradient(hidden @ p["w3"] + p["b3"], labels)[0]


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_the_network_are_slopes_of_the_plain_one(device):
    rng = np.random.default_rng(3)
    values = {name: value.astype(np.float64) for name, value in initial(1).items()}
    pictures, labels = rng.standard_normal((5, 64)), rng.integers(10, size=5)
    network = Perceptron(values, device)
    loss = nf.ops.cross_entropy(
        network(nf.array(pictures, device=device)), nf.array(labels, device=device)
    )
    loss.backward()
    expected = plain_loss(values, pictures, labels)
    np.testing.assert_allclose(nf.to_numpy(loss.data), expected, rtol=1e-12)
    for name, parameter in network.parameters.items():
        direction = rng.standard_normal(values[name].shape)
        step = 1e-6 * direction
        above = plain_loss(values | {name: values[name] + step}, pictures, labels)
        below = plain_loss(values | {name: values[name] - step}, pictures, labels)
        slope = float((nf.to_numpy(parameter.grad) * direction).sum())
        assert slope == pytest.approx((above - below) / 2e-6, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("device", DEVICES)
def test_training_learns_the_digits(device):
    history = train(load(0, limit=600), epochs=5, seed=0, device=device)
    assert len(history.accuracy) == len(history.loss) == 5
    assert history.accuracy[-1] > max(0.9, history.accuracy[0])
    assert history.loss[-1] < history.loss[0] / 3


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", list(cases(33, 65)), ids=lambda case: case.name)
def test_fused_and_unfused_agree(case, device):
    timing = compare(case, device, seconds=0.0)
    assert timing.error < 1e-5
    assert timing.fused > 0 < timing.unfused


def test_same_seed_same_result():
    runs = [train(load(1, 200), epochs=1, seed=5, device="cpu") for _ in range(2)]
    assert runs[0].loss == runs[1].loss


def test_program_prints_a_table_and_draws_a_picture(tmp_path, capsys):
    folder = tmp_path / "made" / "here"
    status = main(f"--quick --epochs 2 --device cpu --out {folder}".split())
    printed = capsys.readouterr().out
    assert status == 0
    picture = folder / "nbfused-demo.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "held-out accuracy" in printed
    assert "layer_norm" in printed
    assert str(picture) in printed


def test_program_names_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("nbfused.demo.find_spec", lambda name: None)
    assert main([]) == 2
    assert "pip install 'nbfused[demo]'" in capsys.readouterr().out


def test_no_epochs_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--epochs", "0"])
    assert "--epochs: expected at least 1, got '0'" in capsys.readouterr().err


def test_a_device_asked_for_is_taken_as_it_is():
    assert choose_device("cuda:3") == "cuda:3"

"""Example programs; run them by ``python -m nbfused.examples.NAME``."""

"""Programs that show what nbfused is for; ``python -m nbfused.examples.NAME``."""

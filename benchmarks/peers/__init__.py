"""nbfused beside its peers: the same inputs, one run, each answer checked first."""

"""Comparison of nbfused with other libraries on equal inputs, results checked."""

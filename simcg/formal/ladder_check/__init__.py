"""A user's ladder and admission rule, checked for every batch within the user's limits."""

import simcg.formal.lemmas  # noqa: F401  # says what to install where z3 is absent

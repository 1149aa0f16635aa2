"""A user's ladder and admission rule, checked for every batch within the user's limits."""

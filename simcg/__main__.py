"""``python -m simcg`` is ``simcg``."""

from simcg.cli import main

main()

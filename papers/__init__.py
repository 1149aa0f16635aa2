"""The report: `python -m papers.build` makes papers/report.pdf from these sources."""

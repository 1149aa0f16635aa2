"""Measures a GPU's costs: one run writes a hardware profile that simcg can read.

    python -m real_gpu.calibrate --name h200 --out h200.json --runs h200_runs.json

Every figure is a median over repeated samples with a robust spread (1.4826 times the median
absolute deviation). Kernels are timed inside CUDA graphs over weights that are rotated past L2,
so a kernel's time includes the gap to the next node of its graph.
"""

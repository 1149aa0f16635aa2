"""Measures a GPU's costs: one run writes a hardware profile that simcg can read.

    simcg calibrate --out h200.json

Every figure is a median over repeated samples with a robust spread (1.4826 times the median
absolute deviation), and none is fitted to a whole forward. Kernels are timed inside CUDA graphs
over weights that are rotated past L2, in turns with a layer of a forward that keeps the clocks
where a server has them.
"""

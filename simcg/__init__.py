"""Choose, price and prove CUDA-graph capture ladders for LLM serving."""

__version__ = "0.1.0"

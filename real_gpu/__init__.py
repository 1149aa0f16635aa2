"""Real CUDA-graph work on a GPU: needs torch; simcg never imports it."""

"""Experiments that survive: what a run is, where results and checkpoints are kept, who computes them."""

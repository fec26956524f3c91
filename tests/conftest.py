"""One thread per worker and per process they start: two workers share two cores."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import torch

torch.set_num_threads(1)

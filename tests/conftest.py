"""One thread per worker: two workers share two cores."""

import torch

torch.set_num_threads(1)

"""One thread per worker and per process they start: two workers share two cores. And a real browser, for what is read
in one; where there is no Chromium the tests that need it are skipped, and say so."""

import os

os.environ["OMP_NUM_THREADS"] = "1"

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _same_draws() -> None:
    """Whoever draws without a seed draws the same, whichever tests ran before."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on this machine: the page is not tested in a browser")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()

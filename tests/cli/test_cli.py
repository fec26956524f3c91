"""What every command has in common: one sentence for what is wrong, and nothing that acts on a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from efc.errors import visible
from support.command import efc

QUICK = ("run", "--seeds", "2", "--epochs", "1", "--hidden", "8", "--methods", "sgd")
NAMES = ["\x1b]0;x\x07", "[/b]", "$x$ %s", "=1+1", "a\nb", "\u202ex", "日本"]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose names are not what they seem."""
    folder = tmp_path_factory.mktemp("hostile")
    y = np.array(NAMES)[np.arange(60) % len(NAMES)]  # labels are the names of classes
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    file = folder / "[b]$x_{[red]%s.npz"
    np.savez(file, x_train=x, y_train=y, x_test=x, y_test=y)
    return file


def test_hostile_names_are_shown_and_do_nothing(hostile: Path, tmp_path: Path) -> None:
    """In the terminal, in the picture, on the page, in logs and exports: of data, classes, folders."""
    out = "o[/red]$x_{%s"
    done = efc(*QUICK, "--dataset", f"npz:{hostile}", "--out", out, "--log", "csv", cwd=tmp_path, columns=300)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert r"\x1b]0;x\x07" in done.stderr
    assert "$x$ %s" in done.stderr
    assert f"Results in {out}" in done.stderr
    assert hostile.name in done.stdout
    folder = tmp_path / out
    assert (folder / "matrices.png").read_bytes()[:4] == b"\x89PNG"
    assert (folder / "report.html").exists()
    for kind in ("matrix", "confusion", "curves"):
        drawn = efc("plot", out, "--kind", kind, "--format", "svg", cwd=tmp_path)
        assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "$x$ %s" in (folder / "confusion.svg").read_text(encoding="utf-8")
    for command in (("runs", "list"), ("runs", "export")):
        shown = efc(*command, "--in", out, cwd=tmp_path)
        assert shown.returncode == 0
        assert "\x1b" not in shown.stdout


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    done = efc(*QUICK, "--out", "é", "--set", "sgd.lr=1e30", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "+- " in done.stdout
    assert r"Results in \xe9" in done.stderr
    assert (done.stdout + done.stderr).isascii()


def test_an_answer_that_nobody_can_take() -> None:
    """In a process of its own: its end is part of it."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "efc", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "efc: cannot write or read: No space left on device; what was written before is intact\n"


def test_a_full_disk_is_a_sentence_and_costs_nothing_that_is_there(tmp_path: Path) -> None:
    """A page, a figure and a table that find no room are named, and the ones before them stay."""
    done = efc(*QUICK, "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    files = {path: path.read_bytes() for path in (tmp_path / "o").glob("*.*") if path.suffix != ".sqlite"}
    page = efc("report", "o", cwd=tmp_path, largest=100_000)
    assert page.stderr == "efc: cannot write o/report.html: File too large; what was written before is intact\n"
    figure = efc("plot", "o", "--out", "p.pdf", cwd=tmp_path, largest=1000)
    assert figure.stderr == "efc: --out: cannot write p.pdf: File too large; what was written before is intact\n"
    table = efc("runs", "export", "--in", "o", "--csv", "t.csv", cwd=tmp_path, largest=300)
    assert table.stderr.startswith("efc: "), table.stderr
    assert "cannot write t.csv: File too large" in table.stderr
    assert (page.returncode, figure.returncode, table.returncode) == (2, 2, 2)
    assert {path: path.read_bytes() for path in files} == files
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


def test_a_full_disk_at_the_end_of_a_run_costs_no_result(tmp_path: Path) -> None:
    """The picture fits, the page (2 MB) and the log do not: they are named, and the results are there."""
    done = efc(*QUICK, "--out", "o", cwd=tmp_path, largest=300_000)
    assert done.returncode == 0, done.stderr
    assert "No report: cannot write o/report.html: File too large; what was written before is intact" in done.stderr
    assert (tmp_path / "o" / "results.json").exists()
    assert "sgd" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("theory", "bounds", "--quick", "--device", "tpu"), "device: expected auto, cpu, cuda or cuda:N, got 'tpu'"),
        (("data", "encode", "x", "--encoder", "resnet18", "--device", "cuda:"), "device: expected auto"),
        (("run", "--hidden", "100000000000"), "hidden: must be at most 1,000,000, got 100000000000"),
        (("run", "--hidden", "1000000,1000000"), "hidden: a network 64-1000000-1000000-10 with the head"),
        (("run", "--hidden", ",".join(["8"] * 200)), "hidden: at most 100 layers, got 200"),
        (("run", "--epochs", "1000000000"), "epochs: must be at most 1,000,000"),
        (("run", "--seeds", "1000000000"), "seeds: must be at most 10,000"),
        (("run", "--tasks", "1" + "0" * 30), "tasks: must be"),
        (("run", "--set", "batch_size=100000000000000000000000"), "batch_size: must be a whole number"),
        (("run", "--set", "order_seed=1e30"), "order_seed: must be a whole number"),
        (("run", "--workers", "100000000"), "--workers: must be at most 1,024"),
        (("run", "--workers", "0"), "--workers: must be at least 1, got 0"),
        (("sweep", "--trials", "1000000000"), "--trials: must be at most 10,000"),
        (("sweep", "--finalists", "-1"), "--finalists: must be at least 0, got -1"),
        (("run", "--dataset", "npz:\udcff.npz"), "dataset: expected a name without control characters, in UTF-8"),
        (("run", "--set", "efc.lr=2026-13-45"), "efc.lr: expected a number, got '2026-13-45'"),
        (("run", "--set", "efc.lr=*a"), "--set: cannot read the value in 'efc.lr=*a': it has an alias"),
        (("run", "--set", "seeds=" + "[" * 3000), "--set: cannot read the value in"),
        (("run", "--set", "seeds=" + "9" * 6000), "--set: cannot read the value in"),
        (("run", "--set", "efc.solver_options.tol=[[1]]"), "efc"),
    ],
)
def test_what_is_absurd_is_told_before_anything_is_allocated(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = efc(*arguments, *(() if arguments[0] == "data" else ("--out", "o")), cwd=tmp_path, timeout=600)
    assert done.returncode == 2, done.stderr
    assert f"efc: {says}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 2200


def test_visible_keeps_what_can_be_seen() -> None:
    assert visible("é 日本 $x$ [/b] %s 'a'") == "é 日本 $x$ [/b] %s 'a'"
    assert visible("\x1b[31m\u202e\udcff\r") == r"\x1b[31m\u202e\udcff\r"
    assert (visible("a\nb"), visible("a\nb", keep="")) == ("a\nb", r"a\nb")

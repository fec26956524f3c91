"""What commands that train leave behind when they fail, and what the others take when nothing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command import efc

QUICK = ("run", "--methods", "sgd", "--seeds", "1", "--epochs", "1", "--hidden", "8")


def test_a_command_that_fails_leaves_no_folder(tmp_path: Path) -> None:
    wrong = efc(*QUICK, "--tasks", "9", "--out", "results/mine", cwd=tmp_path)
    assert wrong.returncode == 2
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "notes.txt").write_text("mine")
    efc(*QUICK, "--tasks", "9", "--out", "results", cwd=tmp_path)
    assert (tmp_path / "results" / "notes.txt").read_text() == "mine"  # it was there before


def test_report_plot_and_list_without_a_name(tmp_path: Path) -> None:
    for command in (("report",), ("plot",)):
        nothing = efc(*command, cwd=tmp_path)
        assert nothing.returncode == 2
        assert "there are no results in" in nothing.stderr
    listed = efc("runs", "list", "--in", "nowhere", cwd=tmp_path)
    assert listed.returncode == 2
    assert "or compute some: efc run --out nowhere" in listed.stderr
    done = efc(*QUICK, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    plotted = efc("plot", "--format", "png", cwd=tmp_path)
    assert plotted.returncode == 0, plotted.stderr
    assert "the newest results" in plotted.stderr
    assert (tmp_path / plotted.stdout.strip()).is_file()
    folder = Path(plotted.stdout.strip()).parent
    listed = efc("runs", "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert f"{folder}: the newest results" in listed.stderr
    checked = efc("runs", "check", cwd=tmp_path)
    assert checked.stdout.startswith(f"{folder}: "), checked.stderr
    for columns in (60, 80):
        listed = efc("runs", "list", "--in", str(folder), cwd=tmp_path, columns=columns)
        assert listed.returncode == 0, listed.stderr
        assert max(map(len, listed.stdout.splitlines())) <= columns
        assert "sgd" in listed.stdout
        assert "…" not in listed.stdout.replace("left out", "")
        assert "efc runs show ID" in " ".join(listed.stdout.split())


@pytest.mark.parametrize("protocol", ["fair", "paper"])
def test_the_papers_table_is_planned_without_data(protocol: str, tmp_path: Path) -> None:
    """Nothing is fetched: there is nowhere to fetch from."""
    done = efc(
        "bench",
        "paper",
        "--protocol",
        protocol,
        "--plan",
        "--data-dir",
        "data",
        "--lines",
        "SGD",
        cwd=tmp_path,
        EFC_MIRROR="http://127.0.0.1:9",
    )
    assert done.returncode == 0, done.stderr
    assert "\ncifar10-resnet18: " in done.stderr
    assert " runs; how many are stored" in done.stderr
    assert "encoded by resnet18" in done.stderr
    assert not list(tmp_path.iterdir())

"""Help that fits a screen, completion in a real bash, and the documented exit codes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer._completion_classes import BashComplete
from typer.testing import CliRunner

from efc.cli import app, main
from efc.cli.completion import several_of
from efc.learners import LEARNERS

GROUP = typer.main.get_command(app)


def commands(group: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands, as typed."""
    below = getattr(group, "commands", {})
    return [path] if not below else [each for name, one in below.items() for each in commands(one, (*path, name))]


def efc(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "efc", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"COLUMNS": "80"} | environment)


def test_help_fits_a_screen_and_has_examples_and_exit_codes() -> None:
    done = efc("--help")
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 80
    assert "..." not in done.stdout.split("\n", 1)[1]  # no description is cut
    examples = re.findall(r"^ +efc (\w+) ", done.stdout, re.M)
    assert len(examples) >= 4
    assert set(examples) <= {path[0] for path in commands(GROUP)}
    for code in ("0 done", "1 a method or a logger failed", "2 a mistake", "130 interrupted"):
        assert code in done.stdout
    assert CliRunner().invoke(app, [], env={"COLUMNS": "80"}, prog_name="python -m efc").output == done.stdout


@pytest.mark.parametrize("path", commands(GROUP), ids=" ".join)
def test_every_command_has_an_example(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"}, prog_name="efc")
    assert shown.exit_code == 0
    assert re.search(rf"^  For instance: efc {' '.join(path)}\b.*$", shown.stdout, re.M), shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home with completion installed as documented; its environment."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash here")
    home = tmp_path_factory.mktemp("home")
    (home / ".bashrc").touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"HOME": str(home), "PATH": path}
    told = environment | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # whatever started the tests
    done = subprocess.run(["efc", "--install-completion", "bash"], capture_output=True, text=True, env=told)
    assert done.returncode == 0, done.stderr
    return environment


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("efc ", ["run", "bench", "sweep", "report", "plot", "theory", "serve", "doctor", "runs", "data"]),
        ("efc run --methods efc,on", ["efc,online_ewc"]),
    ],
)
def test_bash_completes(typed: str, offered: list[str], bash: dict[str, str]) -> None:
    """What a TAB after the text does: the installed function, called as bash calls it."""
    words = typed.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    code = (
        f"source ~/.bashrc; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        "complete -p efc >/dev/null && _efc_completion efc; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, env=bash)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == offered


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run --dataset m", ["mnist"]),
        ("sweep --log csv,", ["csv,tensorboard", "csv,mlflow", "csv,wandb"]),
        ("data get fa", ["fashion-mnist"]),
        ("theory cur", ["curvature"]),
        ("plot --kind e", ["effort"]),
    ],
)
def test_what_is_offered(typed: str, offered: list[str]) -> None:
    *before, begun = typed.split(" ")
    found = BashComplete(GROUP, {}, "efc", "_EFC_COMPLETE").get_completions(before, begun)
    assert [item.value for item in found] == offered


def test_a_name_is_not_offered_twice() -> None:
    complete = several_of(["efc", "ewc", "sgd"])
    assert complete("efc,e") == ["efc,ewc"]
    assert complete("x") == []
    assert several_of(LEARNERS)("") == list(LEARNERS)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0),
        (["run", "--nope"], 2),
        (["nope"], 2),
        (["run", "--seeds", "many"], 2),
        (["run", "--device", "tpu"], 2),
        (["run", "--log", "nope"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_exit_codes_where_nothing_runs(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The codes 0, 1 and 130 of runs are tested in test_run.py and with the loggers."""
    monkeypatch.setattr(sys, "argv", ["efc", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    assert (stop.value.code or 0) == code
    assert bool(captured.out) == (code == 0)
    assert bool(captured.err) == (code != 0)


def test_the_readme_documents_the_same_codes() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (codes,) = re.findall(r"^Exit codes: (.*?)\n\n|^Exit codes: (.*)\Z", text, re.M | re.S) or [("", "")]
    assert re.findall(r"\b(0|1|2|130) [a-z]", "".join(codes)) == ["0", "1", "2", "130"]
    assert "logger" in "".join(codes)

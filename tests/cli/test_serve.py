"""`efc serve` as a command: what is asked for, who may ask, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from efc.serve.demo import BEGINNING, FIRST
from support.command import efc, started
from support.serving import Served, samples, serving

LONG = "0123456789abcdef"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), "MODEL: name the model's file, or try efc serve --demo"),
        (("m",), "say how long its inputs are with --features"),
        (("m", "--features", "4", "--host", "0.0.0.0"), "others can reach 0.0.0.0; give a token"),
        (("m", "--features", "4", "--host", "0.0.0.0", "--token", "short"), "5 characters can be guessed"),
        (("m", "--features", "4", "--token", ""), "token: it must be"),
        (("m", "--features", "4", "--token", "a\nb"), "token: it must be"),
        (("m", "--features", "4", "--token", LONG, "--token-file", "t"), "not both"),
        (("m", "--features", "4", "--token-file", "nothing"), "token-file: cannot read"),
        (("m", "--features", "4", "--hidden", "a"), "hidden: expected widths"),
        (("m", "--features", "4", "--hidden", "0"), "whole number of at least 1"),
        (("m", "--features", "4", "--hidden", "100000000000"), "units cannot be made here"),
        (("m", "--features", "4", "--hidden", "9" * 30), "units cannot be made here"),
        (("m", "--features", "4", "--method", "nothing"), "method"),
        (("m", "--features", "4", "--method", "ewc"), "needs tasks"),
        (("m", "--features", "4", "--head", "least_squares"), "head: 'least_squares' needs tasks"),
        (("m", "--features", "4", "--beside", "gpm"), "needs tasks"),
        (("m", "--features", "4", "--host", "256.0.0.1", "--token", LONG), "cannot listen on"),
        (("text", "--features", "4"), "cannot read text"),
        (("/dev/null/m", "--features", "4"), "MODEL: cannot write to /dev/null"),
        (("--demo", "--features", "5"), "features"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(
    arguments: tuple[str, ...], names: str, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("no model")
    done = efc("serve", *arguments, "--port", "0", "--no-open", cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("efc: ")
    assert names in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name not in ("text", "lock")]


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_without_its_packages_it_says_what_installs_them(package: str, tmp_path: Path) -> None:
    code = f"import sys, efc.cli; sys.modules[{package!r}] = None; sys.argv[1:] = ['serve', '--demo']; efc.cli.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 2
    told = f"efc: serve: {package} is missing; install it with: pip install 'equilibrium-fisher-control[serve]'\n"
    assert done.stderr == told


def test_the_token_may_come_from_a_file_or_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{LONG}\n")
    for arguments, environment in ((("--token-file", "token"), {}), ((), {"EFC_SERVE_TOKEN": LONG})):
        with serving(tmp_path / "m", *arguments, "--host", "0.0.0.0", **environment) as served:
            assert served.ask("/state")[0] == 401
            served.token = LONG
            assert served.ask("/state", headers={"Host": "any.example"})[0] == 200


def test_the_demonstration_needs_no_file_and_leaves_none(tmp_path: Path) -> None:
    line = ("serve", "--demo", "--no-open", "--port", "0", "--hidden", "20")
    with started(*line, cwd=tmp_path) as command:
        served = Served(command)
        assert served.get("/state")["seen"] == len(FIRST) * BEGINNING
        command.wait_for(lambda: "samples" in command.said)
        folder = Path(command.said.partition(":")[0]).parent
        assert folder.is_dir()
        assert "nothing is kept" in served.end().splitlines()[-1]
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_it_shows_the_page_if_it_is_asked_to(tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho $1 > {tmp_path}/shown\n")
    browser.chmod(0o755)
    for arguments in (("--features", "4", "--open"), ("--demo",)):
        line = ("serve", f"m{len(arguments)}", *arguments, "--hidden", "8", "--port", "0")
        with started(*line, cwd=tmp_path, BROWSER=f"{browser} %s") as command:
            served = Served(command)
            command.wait_for(lambda: (tmp_path / "shown").exists() and (tmp_path / "shown").read_text())
            assert (tmp_path / "shown").read_text() == f"http://127.0.0.1:{served.port}/\n"
            (tmp_path / "shown").unlink()


def test_the_same_command_goes_on(tmp_path: Path) -> None:
    """As a service manager runs it, again and again; a signal while it replays costs nothing."""
    x, y = samples(60)
    for number in range(2):
        with serving(tmp_path / "m", "--method", "slda", "--beside", "sgd") as served:
            served.learn(x[30 * number :][:30], y[30 * number :][:30])
            state = served.get("/state")
            assert (state["method"], state["seen"]) == ("slda", 30 * (number + 1))
            served.kill() if number == 0 else served.end(signal.SIGINT)
    assert json.loads(json.dumps(state))["beside"]["method"] == "sgd"
    assert os.path.getsize(tmp_path / "m") > 0

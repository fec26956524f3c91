"""`efc serve` as a command: what is asked for, who may ask, how it ends."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from efc.serve.demo import BEGINNING, FIRST
from support.command import efc, started
from support.serving import Served, samples, serving

LONG = "0123456789abcdef"
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "serve"


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


def test_the_unit_of_systemd(tmp_path: Path) -> None:
    """systemd takes every line of it, where there is one; and its command serves."""
    unit = (EXAMPLES / "efc-serve.service").read_text()
    command = re.findall("^ExecStart=(.*)$", unit, re.M)
    assert len(command) == 1
    program, *arguments = shlex.split(command[0])
    state = re.findall("^StateDirectory=(.*)$", unit, re.M)[0]
    assert (program, arguments[:2]) == ("/opt/efc/bin/efc", ["serve", f"/var/lib/{state}/model.safetensors"])
    assert re.search("^SuccessExitStatus=130$", unit, re.M), "which is how it ends when it is told to"
    if shutil.which("systemd-analyze"):
        (tmp_path / "efc-serve.service").write_text(unit.replace(program, sys.executable))
        checked = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "efc-serve.service")]
        done = subprocess.run(checked, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")
    with started(*_here(arguments, tmp_path), "--no-open", cwd=tmp_path, OMP_NUM_THREADS="1") as found:
        assert Served(found).end().splitlines()[-1].startswith("efc: interrupted")


def test_the_container(tmp_path: Path) -> None:
    """It names files that there are, an extra that there is, and a command that serves; what it copies is enough."""
    lines = re.sub(r"\\\n", "", (EXAMPLES / "Dockerfile").read_text()).splitlines()
    steps = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    for _, _, copied in (step for step in steps if step[0] == "COPY"):
        *sources, target = copied.split()
        for source in sources:
            into = (tmp_path / "source" / target).resolve()
            assert (ROOT / source).exists(), source
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            into.parent.mkdir(exist_ok=True) if copy is shutil.copytree else into.mkdir(exist_ok=True)
            copy(ROOT / source, into)  # type: ignore[operator]
    about = tomllib.loads((tmp_path / "source" / "pyproject.toml").read_text())["project"]
    extra = re.findall(r"\.\[(\w+)\]", " ".join(line for line in lines if line.startswith("RUN")))
    assert extra == ["serve"]
    assert extra[0] in about["optional-dependencies"]
    for named in (about["readme"], *about["license-files"]):
        assert (tmp_path / "source" / named).is_file(), named
    assert (tmp_path / "source" / "src" / "efc" / "serve" / "static" / "index.html").is_file()
    entry = json.loads(next(rest for name, _, rest in steps if name == "ENTRYPOINT"))
    assert entry[0] in about["scripts"]
    arguments = [*_here(entry[1:], tmp_path), "--features", "4", "--no-open"]
    done = efc(*arguments, "--port", "0", cwd=tmp_path, timeout=600)
    assert (done.returncode, "give a token" in done.stderr) == (2, True), done.stderr
    with started(*arguments, "--port", "0", cwd=tmp_path, EFC_SERVE_TOKEN=LONG) as found:
        served = Served(found, LONG)
        assert served.get("/state")["features"] == 4
        stop = getattr(signal, next(rest for name, _, rest in steps if name == "STOPSIGNAL"))
        served.end(stop)


def _here(arguments: list[str], folder: Path) -> list[str]:
    """A command line of a service, for another folder and any port that is free."""
    found = [str(folder / "model.safetensors") if each.endswith("/model.safetensors") else each for each in arguments]
    for at, each in enumerate(found):
        if each == "--port":
            found[at + 1] = "0"
    return found


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

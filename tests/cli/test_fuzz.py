"""Random command lines, drawn from the options the program really has: each ends, with an exit code and a sentence.

``EFC_FUZZ=5000 pytest tests/cli/test_fuzz.py`` tries that many; ``EFC_FUZZ_FROM`` is the first one's number.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer

from efc.cli import app
from support.command import efc

COUNT, FIRST = int(os.environ.get("EFC_FUZZ", "40")), int(os.environ.get("EFC_FUZZ_FROM", "0"))
NASTY = (
    "", " ", "0", "-1", "-5", "1e3", "nan", "inf", "-inf", "1e400", "99999999999999999999", "9" * 5000, "0x10", "٣",
    "1.5", "None", "null", "~", "[", "{", "{}", "[]", "[[[[[[[[", "*a", "&a", "!!python/object:os.system x", "|", ">",
    "2026-13-45", "2026-01-01", "a=b", "=", "==", ",", ",,", ".", ":", "::", "npz:", "folder:", "npz:nothing.npz",
    "npz:broken.npz", "npz:res", "folder:res", "no:Such", "nomodule:Class", "bad.py:Mine", "bad.yaml", "bomb.yaml",
    "latin.yaml", "deep.yaml", "res", "res/results.json", "nowhere", "/dev/null", "/dev/full", "/proc/nope", "[/b]",
    "[red]x[/red]", "$x$", "$", "%s", "%d%n", "{0}", "\x1b]0;x\x07", "\x1b[31mred", "a\nb", "a\rb", "a\tb", "\u202eabc",
    "\udcff", "é", "日本", "x" * 300, "-", "--", "-h", "'; drop table runs; --", "<script>", "=1+1", "@SUM(A1)",
)  # fmt: skip
GOOD = {
    "dataset": ("digits", "npz:tiny.npz", "npz:images.npz"), "datasets": ("digits", "digits,npz:tiny.npz"),
    "encoder": ("none", "bad.py:network", "bad.py:fails"), "stream": ("blurred", "recurring:2", "drift:0.5", "single"),
    "methods": ("sgd", "ewc,sgd", "frozen", "analytic", "bad.py:Fails"), "method": ("sgd", "ewc"),
    "scenario": ("class", "task", "domain"), "scenarios": ("class,task",), "head": ("zero", "random", "analytic"),
    "tasks": ("1", "2", "auto"), "classes_per_task": ("2", "3"), "seeds": ("1", "2"), "epochs": ("1", "2"),
    "hidden": ("8", "4,4"), "activation": ("relu", "tanh"), "solver": ("newton", "anderson"),
    "evaluate": ("test", "validation"), "config": ("good.yaml",), "preset": ("good.yaml", "preset.yaml"),
    "set_": ("sgd.lr=0.1", "batch_size=16", "efc.kappa=1e6", "order_seed=3", "tasks=2", "device=cpu", "seeds=1"),
    "out": ("out", "other", "t.npz"), "table": ("table.csv", "table.arff", "bad.csv"), "label": ("kind", "n"),
    "test": ("table.csv",), "device": ("cpu", "auto"), "engine": ("local",), "workers": ("1",), "log": ("csv",),
    "checkpoint_minutes": ("1", "0.5"), "pack": ("1", "2"), "folder": ("res",), "where": ("method=sgd", "seed=0"),
    "kind": ("matrix", "curves", "confusion"), "format_": ("png", "svg", "pdf"), "width": ("page",), "csv_file": ("-",),
    "trials": ("1", "2"), "finalists": ("0", "1"), "final_seeds": ("1",), "sampler": ("random", "grid", "narrowing"),
    "packer": ("axis", "none"), "axes": ("lr=1e-3:1e-2", "optimiser=adam,sgd"), "data_dir": ("data",),
    "name": ("npz:images.npz", "npz:tiny.npz"), "run": ("", "0", "a"), "ids": ("", "0", "a"),
    "lines": ("sgd",), "save_as": ("mine",),
}  # fmt: skip
# What would reach for the network, a browser, a shell's configuration, or minutes of time.
LEFT_OUT = {"open_", "install_completion", "show_completion", "all_", "features", "ray_address", "storage"}
SMALL = {
    "run": ["--epochs", "1", "--seeds", "1", "--hidden", "8", "--methods", "sgd"],
    "bench": ["--epochs", "1", "--seeds", "1", "--hidden", "8", "--methods", "sgd", "--workers", "1"],
    "sweep": ["--method", "sgd", "--epochs", "1", "--trials", "1", "--hidden", "8"],
    "theory": ["--quick"],
}
SUBJECT = ("get", "check", "path", "theory", "bench")
"""Commands whose argument names what would be fetched, or computed for minutes: only names that do not exist."""


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = [(path, command) for path, command in commands(typer.main.get_command(app)) if path != ("serve",)]
"""All but the one that does not end: tests/cli/test_serve.py."""


def a_value(rng: random.Random, name: str) -> str:
    known = GOOD.get(name, ())
    if known and rng.random() < 0.6:
        return rng.choice(known)
    value = rng.choice(NASTY)
    if name == "set_" and rng.random() < 0.8:
        key = rng.choice(("seeds", "efc.lr", "sgd", "hidden", "rows", "methods", "tasks", "dataset", "", "a.b.c.d"))
        return f"{key}={value}"
    return value


def a_line(rng: random.Random) -> list[str]:
    """A command, and some of its options; those that keep it small come first, so that others override them."""
    path, command = rng.choice(COMMANDS)
    line = [*path, *SMALL.get(path[-1], [])]
    for parameter in command.params:  # type: ignore[attr-defined]
        if parameter.name in LEFT_OUT or (parameter.name == "help"):
            continue
        if parameter.param_type_name == "argument":
            for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 3))):
                line.append(rng.choice(NASTY) if path[-1] in SUBJECT else a_value(rng, parameter.name))
        elif rng.random() < (0.9 if parameter.required else 0.15):
            flag = rng.choice(parameter.opts)
            line += [flag] if parameter.is_flag else [flag, a_value(rng, parameter.name)]
    if rng.random() < 0.05:
        line.insert(rng.randrange(len(line) + 1), rng.choice(NASTY))
    return [part for part in line if "\0" not in part]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what command lines name: results, settings good and bad, data, methods."""
    folder = tmp_path_factory.mktemp("template")
    done = efc("run", *SMALL["run"], "--seeds", "2", "--out", "res", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "res" / "report.html").unlink()
    rng = np.random.default_rng(0)
    y = np.array(["\x1b]0;x\x07", "[/b]$", "=1+1", "a\nb"])[np.arange(40) % 4]
    x = rng.normal(size=(40, 5)).astype(np.float32)
    np.savez(folder / "tiny.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (folder / "broken.npz").write_bytes((folder / "tiny.npz").read_bytes()[:200])
    pictures = rng.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
    classes = np.arange(12) % 2
    np.savez(folder / "images.npz", x_train=pictures, y_train=classes, x_test=pictures, y_test=classes)
    (folder / "table.csv").write_text("n,kind\n" + "1,a\n2,\x1b[2Jb\n" * 5)
    (folder / "table.arff").write_text(
        "@relation r\n@attribute n numeric\n@attribute kind {a,b}\n@data\n" + "1,a\n2,b\n" * 5
    )
    (folder / "bad.csv").write_bytes(b"n,kind,\x1b]0;x\x07\n" + b"1,a,\n2,caf\xc3\xa9\n" * 5)
    (folder / "good.yaml").write_text("seeds: 1\nepochs: 1\nsgd: {lr: 0.01}\n")
    (folder / "preset.yaml").write_text("class: {sgd: {zero: {options: {lr: 0.02}}}}\n")
    (folder / "bad.yaml").write_text("seeds: 2026-13-45\nclass: [1]\n")
    (folder / "latin.yaml").write_bytes(b"dataset: caf\xe9\n")
    (folder / "deep.yaml").write_text("seeds: " + "[" * 5000)
    (folder / "bomb.yaml").write_text(
        "a0: &a0 [x, x]\n" + "".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 40))
    )
    (folder / "bad.py").write_text(
        "from efc.learners import SGD\nclass Mine: pass\nclass Fails(SGD):\n    name = 'fails'\n"
        "    def descent(self, x, y):\n        raise ArithmeticError('oops')\n"
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x): return x.mean((2, 3))\n"
        "def network(): return Net()\ndef fails(): raise ArithmeticError('none')\n"
    )
    return folder


@pytest.mark.parametrize("number", range(FIRST, FIRST + COUNT))
def test_a_random_command_line_ends_with_a_sentence(number: int, template: Path, tmp_path: Path) -> None:
    line = a_line(random.Random(number))
    here, home = tmp_path / "here", tmp_path / "home"
    shutil.copytree(template, here)
    home.mkdir()
    arguments = [os.fsdecode(part.encode("utf-8", "surrogateescape")) for part in line]
    own = {"HOME": str(home), "EFC_DATA": str(here / "data"), "XDG_CACHE_HOME": str(here / "cache")}
    done = efc(*arguments, cwd=here, timeout=600, **own)
    told = f"efc {line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert done.returncode in (0, 1, 2), told
    said = done.stdout + done.stderr
    if "ArithmeticError: oops" not in said:  # one's own method may show where it failed
        assert "Traceback" not in said, told
    assert not {"\x1b", "\x07", "\u202e"} & set(said), told
    if done.returncode == 2:
        sentence = done.stderr.rstrip("\n").rpartition("\n")[2]
        assert sentence.startswith(("efc: ", "Error: ", "Try ")) or "Usage:" in done.stderr, told
        assert len(sentence) < 2200, told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "home"], told
    assert list(home.iterdir()) == [], told

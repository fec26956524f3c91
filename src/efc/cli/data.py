"""`efc data`: get data sets, check them, encode them, tell where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from efc.cli.completion import one_of
from efc.data.store import SPECS, check, data_root, find_spec, get, here
from efc.environment import pick_device
from efc.errors import EFCError, visible
from efc.report.terminal import Transfers, make_console, print_path

app = typer.Typer(help="Get, check and encode data sets.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help=f"One of {', '.join(SPECS)}.", autocompletion=one_of(SPECS))]
DataDir = Annotated[Path | None, typer.Option(help="Where data are kept. Default: $EFC_DATA or the cache folder.")]


@app.command(name="list")
def list_command(data_dir: DataDir = None) -> None:
    """What there is, and what of it is on this machine.

    For instance: efc data list --data-dir data
    """
    root = data_root(data_dir)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption=f"data folder: {root}")
    for name in ("name", "what", "train", "test", "here"):
        table.add_column(name, no_wrap=name != "what", justify="right" if name in ("train", "test") else "left")
    table.add_row("digits", "handwritten digits, 8 x 8 grey", "1437", "360", "yes")
    for spec in SPECS.values():
        table.add_row(spec.name, spec.title, str(spec.train), str(spec.test), here(spec.name, root))
    table.add_row("npz:FILE", "your arrays", "", "", "")
    table.add_row("folder:DIR", "your pictures, one folder per class", "", "", "")
    make_console().print(table)


@app.command(name="get")
def get_command(name: Name, data_dir: DataDir = None) -> None:
    """Fetch a data set, from whichever source works, and prepare it.

    For instance: efc data get mnist
    """
    print_path(get(name, data_root(data_dir), Transfers(make_console(stderr=True))))


@app.command(name="check")
def check_command(name: Name, data_dir: DataDir = None) -> None:
    """Verify a data set on this machine: counts, class balance, hashes of its content.

    For instance: efc data check mnist
    """
    for line in check(name, data_root(data_dir)):
        print(visible(line))
    print(f"{name}: right")


@app.command(name="path")
def path_command(name: Name, data_dir: DataDir = None) -> None:
    """Print the folder of a data set.

    For instance: efc data path mnist
    """
    find_spec(name)
    root = data_root(data_dir)
    if here(name, root) != "yes":
        state = "damaged" if here(name, root) == "damaged" else "not"
        raise EFCError(f"{name}: {state} on this machine; get it with: efc data get {name}")
    print_path(root / name / "prepared")


@app.command(name="convert")
def convert_command(
    table: Annotated[Path, typer.Argument(metavar="TABLE", help="An ARFF, Parquet or CSV file.")],
    out: Annotated[Path, typer.Argument(metavar="FILE.npz", help="What to write, for --dataset npz:FILE.npz.")],
    label: Annotated[str, typer.Option(help="The column with the classes; all others are features.")],
    test: Annotated[
        Path | None, typer.Option(help="A table with the test part. Default: a fifth of each class.")
    ] = None,
) -> None:
    """Make a data set of a table; columns of texts become a column of zeros and ones for each value.

    For instance: efc data convert flowers.parquet flowers.npz --label species
    """
    from efc.adapters.arrays import save_npz
    from efc.adapters.frames import from_frame, read_table

    data = from_frame(read_table(table), label, None if test is None else read_table(test), name=table.name)
    print_path(save_npz(data, out))


@app.command(name="encode")
def encode_command(
    name: Annotated[str, typer.Argument(help="A data set, or npz:FILE or folder:DIR with images.")],
    encoder: Annotated[
        str, typer.Option(help="efficientnet-lite0, resnet18, or your own as module:function, which runs its code.")
    ],
    encoder_weights: Annotated[Path | None, typer.Option(help="Weights for resnet18, torchvision's layout.")] = None,
    data_dir: DataDir = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Compute a frozen encoder's features once; they are kept and reused.

    For instance: efc data encode cifar10 --encoder efficientnet-lite0
    """
    from efc.streams import load

    if encoder == "none":
        raise EFCError("encoder: 'none' has nothing to compute; choose efficientnet-lite0 or resnet18")
    progress = Transfers(make_console(stderr=True))
    data = load(name, encoder, encoder_weights, data_dir, device=pick_device(device), progress=progress)
    print(f"{visible(name)}: {len(data.x_train)} + {len(data.x_test)} images, {data.x_train.shape[1]} features each")

"""`efc serve`: a classifier that answers and learns over HTTP."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import webbrowser
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from efc.cli.completion import one_of
from efc.cli.stopping import Interrupted, Stopping
from efc.errors import EFCError, MissingError, visible
from efc.files import make_folder
from efc.learners import LEARNERS

if TYPE_CHECKING:
    from efc.serve.service import Service

TOKEN = "EFC_SERVE_TOKEN"
"""Where a token may stand in the environment."""
SHORTEST = 16
"""Characters of a token that others may guess at."""
Model = Annotated[
    Path | None, typer.Argument(metavar="[MODEL]", help="The model's file (safetensors); begun if it is not there.")
]


def serve_command(
    model: Model = None,
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8000,
    host: Annotated[str, typer.Option(help="What is not this machine alone needs a token.")] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help=f"What requests must show; better in ${TOKEN} or a file.")] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token.")] = None,
    features: Annotated[
        int | None, typer.Option(help="Length of an input, for a model that is not there yet.", min=1)
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Of such a model. Default: efc.", autocompletion=one_of(LEARNERS))
    ] = None,
    hidden: Annotated[str | None, typer.Option(help="Of such a model: widths of the hidden layers, 500.")] = None,
    head: Annotated[str | None, typer.Option(help="Of such a model: the head policy.")] = None,
    seed: Annotated[int, typer.Option(help="Of such a model.", min=0, max=2**32 - 1)] = 0,
    beside: Annotated[
        str | None, typer.Option(help="A method that is given the same samples.", autocompletion=one_of(LEARNERS))
    ] = None,
    queue: Annotated[int, typer.Option(help="Samples on their way; beyond them: 429.", min=1)] = 2000,
    snapshot_every: Annotated[int, typer.Option(help="Samples between two snapshots.", min=1)] = 5000,
    keep_journal: Annotated[bool, typer.Option("--keep-journal", help="Also what a snapshot covers.")] = False,
    rate: Annotated[float, typer.Option(help="Requests a second from one address.", min=1)] = 2000.0,
    demo: Annotated[bool, typer.Option("--demo", help="Embedded digits: two are known, teach the others.")] = False,
    open_: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Show the page in the browser. With --demo it is.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let MODEL and its journal import code that they name.")
    ] = False,
) -> None:
    """Serve a model that goes on learning: POST /predict, POST /learn, a page at /.

    What /learn has accepted survives a crash. Ctrl-C or SIGTERM: what was accepted is learned, the model is written,
    exit code 130.

    For instance: efc serve --demo
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise MissingError("serve", package, "serve")
    from efc.serve.guard import Access
    from efc.serve.server import Place, is_loopback, serve
    from efc.serve.service import Making, Settings

    secret = _token(token, token_file)
    if not is_loopback(host):
        if secret is None:
            told = f"others can reach {host}; give a token by --token-file or ${TOKEN}"
            raise EFCError(f"token: {told}, or serve on 127.0.0.1")
        if len(secret) < SHORTEST:
            raise EFCError(f"token: {len(secret)} characters can be guessed; take at least {SHORTEST}")
    with ExitStack() as stack:
        ended = f"interrupted; what was accepted is in {visible(str(model))}"
        if model is None:
            if not demo:
                raise EFCError("MODEL: name the model's file, or try efc serve --demo")
            model = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="efc-"))) / "digits.safetensors"
            ended = "interrupted; nothing is kept, as no file was named (efc serve MODEL --demo keeps it)"
        if demo:
            features, beside = features or 64, beside or "sgd"
        make_folder(model.parent, "MODEL")
        making = Making(features or 0, method, _hidden(hidden), head, seed)
        settings = Settings(model, making, beside, queue, snapshot_every, keep_journal, trust=trust, demo=demo)
        place = Place(host, port, Access(secret, is_loopback(host), rate))
        show = demo if open_ is None else open_
        Stopping.saving.set()  # the last snapshot is worth waiting for
        if serve(settings, place, lambda address, service: _ready(address, service, show)):
            raise Interrupted(ended)


def _ready(address: str, service: Service, show: bool) -> None:
    print(f"{address}/", flush=True)
    met, replayed = len(service.pupil.met), service.replayed
    print(
        f"{visible(str(service.model))}: {met} classes, {service.pupil.measures.seen} samples, {replayed} batches from "
        "the journal; Ctrl-C ends it",
        file=sys.stderr,
        flush=True,
    )
    if show:  # a browser of the terminal comes back when it is closed
        threading.Thread(target=_show, args=(f"{address}/",), daemon=True).start()


def _show(address: str) -> None:
    if not webbrowser.open(address):
        print(f"--open: no browser found; open {address} in one", file=sys.stderr)


def _token(token: str | None, file: Path | None) -> str | None:
    """The one that is given, in a file or in the environment."""
    if token is not None and file is not None:
        raise EFCError("token: give --token or --token-file, not both")
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise EFCError(f"token-file: cannot read {file}: {problem}") from None
    elif token is None:
        token = os.environ.get(TOKEN)
    if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
        raise EFCError("token: it must be of letters, digits and signs that a header can hold, and not be empty")
    return token


def _hidden(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise EFCError(f"hidden: expected widths such as 500 or 200,100, got {text!r}") from None

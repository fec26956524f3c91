"""All commands, as one application. Importing it takes a second or two: `efc.cli` does so when a command is given."""

from __future__ import annotations

from typing import Annotated

import typer

from efc.cli.bench import bench_command
from efc.cli.data import app as data_app
from efc.cli.doctor import doctor_command
from efc.cli.plot import plot_command
from efc.cli.report import report_command
from efc.cli.run import run_command
from efc.cli.runs import app as runs_app
from efc.cli.serve import serve_command
from efc.cli.sweep import sweep_command
from efc.cli.theory import theory_command
from efc.environment import code_version

# \b: not to be wrapped.
EPILOG = """\b
Examples:
  efc run --methods efc,ewc,sgd --seeds 5 --out results/first
  efc report results/first --open
  efc bench --datasets digits,mnist --methods all --log tensorboard
  efc sweep --method efc --dataset digits --trials 64

\b
Exit codes: 0 done; 1 a method or a logger failed, other results are stored;
2 a mistake in what was asked for; 130 interrupted, the same command goes on.
"""

app = typer.Typer(
    help="Continual learning by Equilibrium Fisher Control: one task after another, no old samples kept.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(code_version())
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Continual learning by Equilibrium Fisher Control: one task after another, no old samples kept."""


app.command(name="run", short_help="Train methods on a stream of tasks and compare them.")(run_command)
app.command(name="bench", short_help="Methods x data sets x scenarios x seeds, from one store.")(bench_command)
app.command(name="sweep", short_help="Search for good settings on validation data.")(sweep_command)
app.command(name="report", short_help="Write the page with table and figures.")(report_command)
app.command(name="plot", short_help="Draw a figure for a paper.")(plot_command)
app.command(name="theory", short_help="Put the paper's claims to the test.")(theory_command)
app.command(name="serve", short_help="A model that answers and learns over HTTP.")(serve_command)
app.command(name="doctor", short_help="Say what is installed, what is missing, how to mend it.")(doctor_command)
app.add_typer(runs_app, name="runs", short_help="List, show, compare, export and check stored runs.")
app.add_typer(data_app, name="data")

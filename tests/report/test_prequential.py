"""The figure, the table and the page of a stream, from a run of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
import pytest

from efc.api import run
from efc.errors import EFCError
from efc.report.figures import draw
from efc.report.folder import write_results
from efc.report.page_data import page_data
from efc.report.terminal import make_console, results_table
from efc.runs.documents import read_results_file
from efc.runs.reading import seal
from efc.runs.results import Results
from support.model_files import ODD, changed, places
from support.mutate import check_sentence


@pytest.fixture(scope="module")
def results() -> Results:
    found = run(dataset="digits", methods=["slda", "sgd"], stream="blurred:0.5", hidden="8", seeds=2, device="cpu")
    return Results.from_json(found)


def test_a_stream_is_drawn_told_and_put_on_the_page(results: Results, tmp_path: Path) -> None:
    write_results(tmp_path, results, lambda text: pytest.fail(text))
    assert {file.name for file in tmp_path.iterdir()} >= {"prequential.png", "report.html", "results.json"}
    figure = draw(results, "prequential")
    above, below = figure.axes
    assert [line.get_label() for line in above.lines] == ["slda, analytic", "sgd, zero"]
    slda, sgd = (line.get_ydata() for line in above.lines)
    assert slda[-20:].mean() > sgd[-20:].mean()  # type: ignore[index, union-attr]
    assert above.get_xlim() == below.get_xlim()
    assert below.images[0].get_array().shape == (10, len(slda))  # type: ignore[union-attr, arg-type]
    console = make_console(width=100)
    with console.capture() as shown:
        console.print(results_table(results))
    assert "blurred:0.5" in shown.get()
    assert "on the way %" in shown.get()
    assert "at the end, on test data" in shown.get()
    assert "blurred:0.5" in draw(results, "matrix").axes[0].get_title()
    assert [axis.get_ylabel() for axis in draw(results, "matrix").axes[:1]] == ["at the checkpoint of"]
    rows = page_data(results).rows
    assert all(row["prequential"] is not None for row in rows)


def test_mutated_streams_are_shown_or_refused(results: Results, tmp_path: Path) -> None:
    """Any value in any place of what a stream has to report, the checksum made right: it is none of a secret."""
    rng, n, file = Random(19), int(os.environ.get("EFC_FUZZ", "60")), tmp_path / "results.json"
    document = json.loads(json.dumps(results.to_json()))
    where = [place for place in places(document) if "stream" in place[2:3]]
    odd, refused = [value for value in ODD if value != 10**400], 0
    for _ in range(n):
        place = rng.choice(where)
        place = place[: max(3, len(place) - rng.randrange(3))]
        file.write_text(seal(changed(document, place, rng.choice((..., *odd)))))
        try:
            found = read_results_file(file, "DIR")
        except EFCError as mistake:
            check_sentence(mistake)
            refused += 1
            continue
        if found.rows[0].further.get("stream"):
            draw(found, "prequential")
        page_data(found)
        results_table(found)
        plt.close("all")
    assert n / 2 < refused < n


def test_without_a_stream_there_is_nothing_to_draw(results: Results) -> None:
    for row in results.rows:
        row.further.pop("stream")
    with pytest.raises(EFCError, match="streams without boundaries"):
        draw(results, "prequential")

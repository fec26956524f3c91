"""The CSV files, and lines that were cut off."""

from __future__ import annotations

from pathlib import Path

import pytest

from efc.loggers import Logs
from support.logs import (
    by_hand,
    expected,
    read_csv,
    same,
)


def test_a_run_that_was_cut_off_while_it_was_written_is_written_again(tmp_path: Path) -> None:
    (one, result), (other, _) = by_hand(0), by_hand(1)
    logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
    logs.log(one, result)
    file = tmp_path / "logs" / "csv" / "metrics.csv"
    whole = file.read_text()
    file.write_text(whole[: whole.rindex("seconds") + 10])  # its last line lacks its end
    for run in (other, one):  # the other first: it must not be glued to the line
        again = Logs(tmp_path / "logs", ["csv"], pytest.fail)
        again.log(run, result)
        again.close()
    same(read_csv(tmp_path / "logs")[0], {one.id: expected(result), other.id: expected(result)})

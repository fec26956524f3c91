"""Results for a reader: a table in the terminal, figures for a paper, and `report.html`, which needs no network."""

from efc.report.folder import read_results, write_results
from efc.report.page import FILE, report_page, write_report

__all__ = ["FILE", "read_results", "report_page", "write_report", "write_results"]

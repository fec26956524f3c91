"""`report.html`: a results document as one page that needs no network."""

from efc.report.page import FILE, report_page, write_report
from efc.report.reading import read_document

__all__ = ["FILE", "read_document", "report_page", "write_report"]

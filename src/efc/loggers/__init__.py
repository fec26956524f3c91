"""Loggers: results for the tools people already look at, under the same names everywhere.

A run is logged, in the main process, once its result is stored; the store is the truth, a log a copy for a viewer.
"""

from efc.loggers.logs import LOGGERS, Logs, check_names
from efc.loggers.values import Value, parameters, values_of

__all__ = ["LOGGERS", "Logs", "Value", "check_names", "parameters", "values_of"]

"""The paper: its published figures, and the table of `efc bench paper`."""

"""What MkDocs does to the pages on their way to the site: hooks, named in ``mkdocs.yml``.

The pages in ``docs`` are read on their own as well, so that whatever is made by a program is put in here: the command
line's options, the tables of the methods' options, the examples as pages. Equations become MathML, which browsers draw
themselves: no script, no font, no request.
"""

from __future__ import annotations

import ast
import html
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import latex2mathml.converter
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from efc import learners
from efc.cli import app
from efc.environment import code_version

ROOT = Path(__file__).parents[1]
WORDY = 22
"""Letters that the cells of a table have on average, from which on they are read, not compared."""
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version stands beside the name. A link to the repository where ``EFC_REPOSITORY`` names one."""
    config.site_name = f"EFC {code_version()}"
    config.repo_url = os.environ.get("EFC_REPOSITORY") or config.repo_url
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Every script in ``examples`` is a page: its docstring, and the code. So is `SECURITY.md`."""
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "security.md", content=security))
    for path in EXAMPLES:
        source = path.read_text(encoding="utf-8")
        title, _, rest = (ast.get_docstring(ast.parse(source)) or path.stem).partition("\n")
        code = source.split('"""', 2)[2].strip() if source.startswith('"""') else source
        name = f"examples/{path.name}"
        page = f"# {path.stem.replace('_', ' ').capitalize()}\n\n{title}\n{rest}\n\n`python {name}`:\n\n"
        files.append(File.generated(config, f"examples/{path.stem}.md", content=f"{page}```python\n{code}\n```\n"))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to what lies outside ``docs`` go to its pages; what a program knows takes its place."""
    markdown = unmarked(markdown)
    markdown = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", r"](examples/\1.md)", markdown)
    markdown = markdown.replace("](../SECURITY.md", "](security.md")
    markdown = markdown.replace("<!-- efc --help -->", "\n".join(command_reference()))
    return markdown.replace("<!-- options -->", "\n".join(options_reference()))


def unmarked(markdown: str) -> str:
    """``<F_A, G>`` is a product, not the beginning of an element: shown as it is, outside of code and equations."""
    pieces = re.split(r"(^```.*?^```$|`[^`\n]+`|\$[^$\n]+\$)", markdown, flags=re.S | re.M)
    pieces[::2] = [re.sub(r"<(?=[A-Z][^<>\n]*,[^<>\n]*>)", "&lt;", piece) for piece in pieces[::2]]
    return "".join(pieces)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Equations as MathML; Sphinx's roles in docstrings as plain code."""
    content = re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', _mathml, content, flags=re.S)
    content = re.sub(r"<table>.*?</table>", _labelled, content, flags=re.S)
    return re.sub(r":(?:func|class|meth|data):<code>~?(?:[\w.]*\.)?(\w+)</code>", r"<code>\1</code>", content)


def _labelled(found: re.Match[str]) -> str:
    """A table of many wordy columns becomes a card a row on a phone: every cell carries its column's name."""
    table = found[0]
    heads = [html.escape(re.sub(r"<[^>]+>", "", head)) for head in re.findall(r"<th[^>]*>(.*?)</th>", table, re.S)]
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table, re.S)
    if len(heads) < 4 or sum(map(len, cells)) < WORDY * len(cells):
        return table
    columns = iter(heads * (len(cells) // len(heads)))
    table = re.sub(r"<td(?=[ >])", lambda _: f'<td data-column="{next(columns)}"', table)
    return table.replace("<table>", "<table data-cards>", 1)


def _mathml(found: re.Match[str]) -> str:
    tag, latex = found[1], html.unescape(found[2]).strip()
    display = "block" if tag == "div" else "inline"
    return f'<{tag} class="math">{latex2mathml.converter.convert(latex, display=display)}</{tag}>'


def command_reference() -> Iterator[str]:
    """Every command of ``efc``, with what ``--help`` says of it."""
    yield from _command(typer.main.get_command(app), "efc", 2)


def _command(command: Any, name: str, level: int) -> Iterator[str]:
    context = command.make_context(name, [], resilient_parsing=True)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f"{'#' * level} `{name}`\n\n{_escaped(command.help or '')}\n\n```text\n{name} {pieces}\n```\n"
    records = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    if records:
        yield "| option | |\n|---|---|"
        yield from (f"| `{flag.replace('|', chr(92) + '|')}` | {_escaped(text)} |" for flag, text in records)
    yield ""
    for child in getattr(command, "commands", {}).values():
        if not child.hidden:
            yield from _command(child, f"{name} {child.name}", level + (" " in name))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#$])", r"\\\1", text.replace("\f", ""))


def options_reference() -> Iterator[str]:
    """A table for every method: its options, their defaults and the ranges a sweep searches."""
    for name, learner in learners.LEARNERS.items():
        yield f"### `{name}`: `{learner.options_type.__name__}`\n\n| option | default | searched | |\n|---|---|---|---|"
        for item in fields(learner.options_type):
            rule = item.metadata
            default = "{}" if rule.get("mapping") else item.default
            between = " to " if "low" in rule else ", "
            searched = between.join(str(value) for value in rule.get("search") or ())
            about = rule.get("doc") or " or ".join(rule.get("choices", ()))
            yield f"| `{item.name}` | `{default}` | {searched} | {_escaped(about)} |"
        yield ""

"""Write the names and defaults of docs/configuration.md, and its list of the first ten settings.

python docs/settings_table.py

Write the meaning of a setting into the table itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from rag_eval_hooks.config.settings import RagEvalConfig

PAGE = Path(__file__).with_name("configuration.md")
MARK = "<!-- `python docs/settings_table.py` writes the rest, except the column `meaning`. -->\n"
FIRST = (
    "metrics",
    "judge",
    "sample_rate",
    "sinks",
    "thresholds",
    "capture_content",
    "redact",
    "hold_timeout",
    "budget",
    "spool",
)
"""Settings that an application usually sets first, in order."""


def page() -> str:
    """Return the page: its text up to the mark, the first settings, then all settings."""
    text, mark, tables = PAGE.read_text(encoding="utf-8").partition(MARK)
    meanings = dict(re.findall(r"^\| `(\w+)` \| .+? \| (.+) \|$", tables, re.MULTILINE))
    return text + mark + _first(meanings) + _table(meanings)


def _first(meanings: dict[str, str]) -> str:
    lines = (f"- `{name}`: {meanings[name]}" for name in FIRST)
    return "\n".join(["\n## The first ten settings\n", *lines, ""])


def _table(meanings: dict[str, str]) -> str:
    lines = [
        "\n## All settings",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in RagEvalConfig.model_fields.items():
        empty = field.default in (None, (), {})
        shown = "not set" if empty else f"`{str(field.default).lower()}`"
        lines.append(f"| `{name}` | {shown} | {meanings[name]} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

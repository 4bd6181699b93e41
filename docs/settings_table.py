"""Write the tables of docs/configuration.md from the settings' own descriptions.

python docs/settings_table.py
"""

from __future__ import annotations

from pathlib import Path

from rag_eval_hooks.config.settings import RagEvalConfig

PAGE = Path(__file__).with_name("configuration.md")
MARK = "<!-- The rest is written by `python docs/settings_table.py`. -->\n"
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
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return text + mark + _first() + _table()


def _first() -> str:
    fields = RagEvalConfig.model_fields
    lines = (f"- `{name}`: {fields[name].description}" for name in FIRST)
    return "\n".join(["\n## The first ten settings\n", *lines, ""])


def _table() -> str:
    lines = [
        "\n## All settings",
        "",
        "| setting | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in RagEvalConfig.model_fields.items():
        empty = field.default in (None, (), {})
        shown = "not set" if empty else f"`{str(field.default).lower()}`"
        lines.append(f"| `{name}` | {shown} | {field.description} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

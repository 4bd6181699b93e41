"""Write the tables of docs/configuration.md from the settings' own descriptions.

python docs/settings_table.py
"""

from __future__ import annotations

from pathlib import Path

from rag_eval_hooks.config.fields import SettingsGroup, wants_of
from rag_eval_hooks.config.settings import GROUPS

PAGE = Path(__file__).with_name("configuration.md")
MARK = "<!-- The rest is written by `python docs/settings_table.py`. -->\n"


def page() -> str:
    """Return the page as it should be: its text up to the mark, then one table for each group."""
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    tables = (_table(keyword, group) for keyword, group in GROUPS.items())
    return text + mark + "".join(tables)


def _table(keyword: str, group: type[SettingsGroup]) -> str:
    lines = [
        f"\n## `{keyword}`: `{group.__name__}`",
        "",
        group.__doc__ or "",
        "",
        "| setting | default | accepts | meaning |",
        "|---|---|---|---|",
    ]
    for name, field in group.model_fields.items():
        empty = field.default in (None, (), {})
        shown = "not set" if empty else f"`{str(field.default).lower()}`"
        lines.append(f"| `{name}` | {shown} | {wants_of(field)} | {field.description} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

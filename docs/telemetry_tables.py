"""Write the tables of docs/telemetry.md from the registry that the package ships.

python docs/telemetry_tables.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

PAGE = Path(__file__).with_name("telemetry.md")
REGISTRY = PAGE.parents[1] / "rag_eval_hooks" / "registry"
MARK = "<!-- The rest is written by `python docs/telemetry_tables.py`. -->\n"


def page() -> str:
    """Return the page: its text up to the mark, then the registry's tables."""
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    (attributes,) = _groups("attributes.yaml")
    return text + mark + "\n".join([*_attributes(attributes), *_instruments(), ""])


def _attributes(group: dict[str, Any]) -> Iterator[str]:
    yield from (
        "",
        "## Attributes",
        "",
        "| attribute | type | meaning | values |",
        "|---|---|---|---|",
    )
    for one in group["attributes"]:
        values = [value for given in one.get("examples", ()) for value in _listed(given)]
        shown = ", ".join(f"`{value}`" for value in values)
        yield f"| `{one['id']}` | {one['type']} | {one['brief']} | {shown} |"


def _instruments() -> Iterator[str]:
    yield from ("", "## Instruments", "", "| instrument | kind, unit | meaning | attributes |")
    yield "|---|---|---|---|"
    for one in _groups("metrics.yaml"):
        names = ", ".join(f"`{ref['ref']}`" for ref in one.get("attributes", ()))
        kind = f"{one['instrument']}, `{one['unit']}`"
        yield f"| `{one['metric_name']}` | {kind} | {one['brief']} | {names} |"


def _groups(file: str) -> list[dict[str, Any]]:
    read = yaml.safe_load((REGISTRY / file).read_text(encoding="utf-8"))
    return list(read["groups"])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

"""Write a row of docs/compatibility.md: the versions that a session of noxfile.py has just tested.

python docs/compatibility.py SESSION
"""

from __future__ import annotations

import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

PAGE = Path(__file__).with_name("compatibility.md")
MARK = "<!-- The rows are written by `python docs/compatibility.py SESSION`. -->\n"
PACKAGES = ("langchain-core", "langgraph", "llama-index-core", "openai", "opentelemetry-sdk")


def page(session: str) -> str:
    text, mark, rows = PAGE.read_text(encoding="utf-8").partition(MARK)
    kept = [row for row in rows.splitlines()[3:] if row and not row.startswith(f"| {session} |")]
    titles = ("session", "Python", *PACKAGES, "passed on")
    head = ["", f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return text + mark + "\n".join([*head, *sorted([*kept, _row(session)])]) + "\n"


def _row(session: str) -> str:
    versions = [platform.python_version(), *map(_version, PACKAGES)]
    return f"| {session} | {' | '.join(versions)} | {datetime.now(UTC):%Y-%m-%d} |"


def _version(package: str) -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return ""


if __name__ == "__main__":
    PAGE.write_text(page(sys.argv[1]), encoding="utf-8")

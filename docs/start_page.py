"""Write docs/start.md: for each framework the example that comes first, and what it prints.

python docs/start_page.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = Path(__file__).with_name("start.md")
MARK: Final = "<!-- The rest is written by `python docs/start_page.py`. -->\n"
FIRST: Final = {
    "LangChain": "langchain_quickstart",
    "LangGraph": "langgraph_agent",
    "LlamaIndex": "llama_index_quickstart",
}


def page() -> str:
    """Return the page as it should be: its text up to the mark, then a part for each framework."""
    text, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    parts = (line for title, example in FIRST.items() for line in part(title, example))
    return text + mark + "\n".join(parts) + "\n"


def part(title: str, example: str) -> Iterator[str]:
    """Yield the lines of a framework: what to install, the script, and what it prints."""
    source = (ROOT / "examples" / f"{example}.py").read_text(encoding="utf-8")
    about, code = re.fullmatch(r'"""(.*?)"""\n\n(.*)', source, re.S).groups()  # type: ignore[union-attr]
    (install,) = re.findall(r"pip install .*", about)
    yield from ("", f"## {title}", "")
    yield from ("```sh", "python3 -m venv .venv && . .venv/bin/activate")
    yield from (install.replace("rag-eval-hooks[", ".["), f"python examples/{example}.py", "```")
    yield from ("", "```text", printed(example), "```", "", f"`examples/{example}.py` is")
    yield from ("", "```python", code.rstrip(), "```")


def printed(example: str) -> str:
    """Return what an example prints where no model for embeddings is installed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "examples" / f"{example}.py")],
        env={**os.environ, "RAG_EVAL_EMBEDDER": "none"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

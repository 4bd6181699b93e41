"""The README's first commands work as they stand there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.support.scripts import run_script

README = Path(__file__).parents[2] / "README.md"
pytestmark = pytest.mark.skipif(not README.is_file(), reason="not in a source tree")


def test_the_first_script_prints_what_the_readme_shows(tmp_path: Path) -> None:
    """The first output that a new user sees is the one that the README promises."""
    text = README.read_text(encoding="utf-8")
    script = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    shown = re.findall(r"```text\n(.*?)```", text, re.S)[0]
    assert run_script(tmp_path, script).strip() == shown.strip()


def test_the_start_page_shows_the_examples_and_what_they_print() -> None:
    """Each framework's first script on the page is an example, with the score that it prints."""
    for framework in ("langgraph", "llama_index.core"):
        pytest.importorskip(framework)
    script = runpy.run_path(str(README.parent / "docs/start_page.py"))
    text = (README.parent / "docs/start.md").read_text(encoding="utf-8")
    assert script["page"]() == text, "run `python docs/start_page.py`"


def test_the_readme_is_short() -> None:
    """At most 900 words."""
    assert len(README.read_text(encoding="utf-8").split()) <= 900

"""mkdocs hook: adds root pages, removes links to source files, and copies pages as Markdown."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FROM_THE_ROOT = {
    "README.md": "index.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages in the repository's root."""
    from mkdocs.structure.files import File

    for source, page in FROM_THE_ROOT.items():
        text = _within((DOCS.parent / source).read_text(encoding="utf-8"), DOCS.parent)
        content = re.sub(r"(\]\(|src=\")docs/", r"\1", text)
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    source = page.file.abs_src_path
    return _within(markdown, Path(source).parent) if source else markdown


def on_post_build(config: Any) -> None:
    """Copy every page as Markdown, because `llms.txt` links to Markdown files."""
    site = Path(config["site_dir"])
    for source in DOCS.rglob("*.md"):
        shutil.copy(source, site / source.relative_to(DOCS))
    for name, page in FROM_THE_ROOT.items():
        shutil.copy(DOCS.parent / name, site / page)


def _within(text: str, folder: Path) -> str:
    """Replace links to files outside the documentation by the link text."""

    def link(match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        outside = target and "://" not in target
        outside = outside and not (folder / target).resolve().is_relative_to(DOCS)
        return match[1] if outside else match[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, text)

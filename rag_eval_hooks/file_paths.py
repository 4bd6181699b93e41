"""Where a file of the settings may be."""

from __future__ import annotations

from pathlib import Path

__all__ = ["is_place"]


def is_place(path: Path) -> bool:
    """Whether a file is, or can be, at a path: in a folder that exists and may be looked into."""
    try:
        return not path.is_dir() and path.parent.is_dir()
    except OSError:
        return False

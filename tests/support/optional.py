"""Packages that a test module needs and that may be missing."""

from __future__ import annotations

import importlib.util

import pytest


def require(*packages: str) -> None:
    """Skip the calling module unless packages are installed, without importing them.

    `pytest.importorskip` would load a model library in every worker while tests are collected.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed", allow_module_level=True)

"""A headless Chromium of the system, which reaches nothing but the loopback device."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.viewers.processes import executable

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextlib.contextmanager
def page() -> Iterator[Page]:
    pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    chromium = executable("chromium", "RAGEVAL_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        opened = browser.new_page(viewport={"width": 1440, "height": 900})
        opened.set_default_timeout(60_000)
        opened.route("**/*", _loopback_only)
        try:
            yield opened
        finally:
            browser.close()


def screenshot(opened: Page, name: str, fallback: Path) -> Path:
    folder = Path(os.environ.get("RAGEVAL_SCREENSHOTS") or fallback)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    opened.screenshot(path=path, animations="disabled")
    return path


def _loopback_only(route: Route) -> None:
    url = urlsplit(route.request.url)
    if url.scheme == "file" or url.hostname == "127.0.0.1":
        route.continue_()
    else:
        route.abort()

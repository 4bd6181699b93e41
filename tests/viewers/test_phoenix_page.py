"""A person who looks for bad answers in Phoenix finds them, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.viewers.browser import page, screenshot
from tests.viewers.conftest import InPhoenix
from tests.viewers.demo import Scored

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONDITION = "annotations['ragas.faithfulness'].score < 0.5"


def test_a_bad_answer_is_found_and_explained(in_phoenix: InPhoenix, tmp_path: Path) -> None:
    """A condition in Phoenix's filter leaves the bad answers; each shows which claim is false."""
    low = [one for one in in_phoenix.scored if one.scores.get("ragas.faithfulness", 1.0) < 0.5]
    project = next(iter(in_phoenix.server.spans().values()))["project"]
    with page() as opened:
        opened.goto(f"{in_phoenix.server.url}/projects/{project}/spans")
        found = filtered(opened, len(low))
        screenshot(opened, "phoenix-filter", tmp_path)
        told = explained(opened, low[0])
        screenshot(opened, "phoenix-trace", tmp_path)
    for one in low:
        assert str(one.sample["question"])[:15] in found
    assert str(low[0].sample["question"]) in told
    assert "ragas.faithfulness" in told
    assert f": {low[0].failing_claim()}" in told


def filtered(opened: Page, expected: int) -> str:
    """The rows that are left when the condition stands in the filter."""
    # New data every two seconds would draw the table anew, on a slow machine for ever.
    opened.get_by_role("button", name="Stop live streaming").click()
    editor = opened.locator(".cm-content").first
    editor.click()
    opened.keyboard.press("Control+A")
    opened.keyboard.insert_text(CONDITION)
    opened.keyboard.press("Enter")
    opened.wait_for_function(
        "count => document.querySelectorAll('tbody tr').length === count", arg=expected
    )
    return "\n".join(opened.locator("tbody tr").all_inner_texts())


def explained(opened: Page, one: Scored) -> str:
    """Return the text of a RAG span's page, with the details of its faithfulness."""
    row = opened.locator("tbody tr", has_text=str(one.sample["question"])[:15])
    row.get_by_role("link").first.click()
    opened.get_by_role("button", name=re.compile("^Annotations")).first.click()
    details = opened.get_by_role("button", name="View annotation details")
    details.first.wait_for()
    # In the order of their names; the first button of all belongs to the tree beside them.
    after = [name for name in one.scores if name > "ragas.faithfulness"]
    details.nth(details.count() - 1 - len(after)).click()
    opened.get_by_text(f": {one.failing_claim()}").first.wait_for()
    told: str = opened.locator("body").inner_text()
    return told

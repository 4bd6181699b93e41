"""The demo in a real Phoenix: read back by its APIs, and looked at in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from rag_eval_hooks.delivery.platforms.phoenix import PhoenixSink
from tests.viewers.browser import page, screenshot
from tests.viewers.conftest import InPhoenix
from tests.viewers.demo import COMMAND, Scored, results, variables
from tests.viewers.phoenix import Phoenix
from tests.viewers.processes import ROOT, executable

if TYPE_CHECKING:
    from playwright.sync_api import Page

CONDITION = "annotations['ragas.faithfulness'].score < 0.5"


def test_every_score_is_an_attribute_and_an_annotation(in_phoenix: InPhoenix) -> None:
    spans = in_phoenix.server.spans()
    for one in in_phoenix.scored:
        tree = json.loads(spans[one.span_id]["attributes"])["rag"]["eval"]
        assert tree["status"] in ("ok", "partial")
        notes = in_phoenix.server.annotations(one.span_id)
        assert {name: note["result"]["score"] for name, note in notes.items()} == one.scores
        for name, note in notes.items():
            suite, metric = name.split(".")
            assert tree[suite][metric]["score"] == one.scores[name]
            assert note["annotator_kind"] == one.outcomes[name]["annotator_kind"]
            assert note["identifier"] == one.outcomes[name].get("annotator", "rag_eval_hooks")
        if claim := one.failing_claim():
            assert f": {claim}" in notes["ragas.faithfulness"]["result"]["explanation"]


def test_bad_answer_is_found_and_explained(in_phoenix: InPhoenix, tmp_path: Path) -> None:
    low = [one for one in in_phoenix.scored if one.scores.get("ragas.faithfulness", 1.0) < 0.5]
    assert set(in_phoenix.server.spans(CONDITION)) == {one.span_id for one in low} != set()
    project = next(iter(in_phoenix.server.spans().values()))["project"]
    with page() as opened:
        opened.goto(f"{in_phoenix.server.url}/projects/{project}/spans")
        found = filtered(opened, len(low))
        screenshot(opened, "phoenix-filter", tmp_path)
        told = explained(opened, low[0])
        screenshot(opened, "phoenix-trace", tmp_path)
    for one in low:
        assert str(one.sample["question"])[:15] in found
    wanted = (low[0].sample["question"], "ragas.faithfulness", f": {low[0].failing_claim()}")
    assert all(str(text) in told for text in wanted)


def filtered(opened: Page, expected: int) -> str:
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


def test_scores_sent_again_replace_themselves(in_phoenix: InPhoenix) -> None:
    one = next(one for one in in_phoenix.scored if "ragas.faithfulness" in one.scores)
    before = in_phoenix.server.annotations(one.span_id)
    one.redeliver(PhoenixSink(in_phoenix.server.url), value=0.25)
    after = in_phoenix.server.annotations(one.span_id)
    assert set(after) == set(before)
    assert after["ragas.faithfulness"]["result"]["score"] == 0.25
    one.redeliver(PhoenixSink(in_phoenix.server.url))
    again = in_phoenix.server.annotations(one.span_id)
    assert {n: note["result"]["score"] for n, note in again.items()} == one.scores


# The demo with `--viewer`.


def test_a_first_look(tmp_path: Path) -> None:
    program = executable("phoenix", "RAGEVAL_PHOENIX")
    command = [*COMMAND, "--output", f"{tmp_path}/demo-output"]
    # In a process group of its own, as a terminal starts it.
    with subprocess.Popen(
        [*command, "--viewer", "phoenix", "--viewer-command", program],
        cwd=ROOT,
        env=variables(TMPDIR=str(tmp_path)),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        printed = ""
        while "\nCtrl-C" not in printed and (line := process.stdout.readline()):
            printed += line
        (link,) = re.findall(r"in Phoenix: (\S+)", printed)
        try:
            assert httpx.get(link, timeout=30).status_code == 200
            url, _, project = link.partition("/projects/")
            spans = Phoenix(url).spans()
            low = Phoenix(url).spans("annotations['ragas.faithfulness'].score < 0.5")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            code = process.wait(60)
    assert code == 0
    assert {span["project"] for span in spans.values()} == {project.split("/")[0]}
    scores = {one.span_id: one.scores.get("ragas.faithfulness", 1.0) for one in results(tmp_path)}
    assert set(low) == {span_id for span_id, score in scores.items() if score < 0.5} != set()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz", timeout=5)
    assert not list(tmp_path.glob("rag-eval-hooks-phoenix-*"))

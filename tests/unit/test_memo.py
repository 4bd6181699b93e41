"""Laws of the memo: the same is asked once, only valid replies stay, no disk disturbs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rag_eval_hooks.judges.llm import CallableJudge, Messages
from rag_eval_hooks.judges.memo import Memo, memo_key
from rag_eval_hooks.prompts.prompt import Prompt
from tests.support.servers.brain import truthful_reply
from tests.support.servers.samples import ONE, TRUTH, found, spent


def prompt(user: str = "u", **changes: Any) -> Prompt:
    fields = {"system": "s", "user": user, "name": "n", "model": BaseModel, "shape": {}}
    return Prompt(**{**fields, **changes})


def test_memo_key_differs_by_whatever_is_asked_and_of_whom() -> None:
    changes: list[dict[str, Any]] = [{}, {"user": "other"}, {"system": "other"}, {"name": "other"}]
    changes += [{"version": "other"}, {"user": "u\ud800"}]
    keys = [memo_key("m", "", prompt(**change).identity) for change in changes]
    keys += [memo_key(*of, prompt().identity) for of in (("other", ""), ("m", "https://elsewhere"))]
    assert len(set(keys)) == len(keys)
    assert memo_key("m", "", prompt().identity) == keys[0]


async def kept(memo: Memo, *keys: str) -> list[str]:
    missing = []
    for key in keys:
        if await memo.recall(key.encode()) is None:
            missing.append(key)
            memo.keep(key.encode(), f"reply to {key}")
    return missing


async def test_judge_with_a_memo_keeps_valid_replies_only() -> None:
    replies = ["I cannot say."]

    def ask(messages: Messages) -> str:
        return replies.pop() if replies else json.dumps(truthful_reply({"messages": messages}))

    judge = CallableJudge(ask, name="m", memo=Memo())
    results = [await ONE.by(judge) for _ in range(3)]
    await judge.aclose()
    assert [found(findings) for findings in results] == [TRUTH] * 3
    # The nonsense and its correction, and the first question once more.
    assert [spent(findings).calls for findings in results] == pytest.approx([2, 1, 0])


async def on_disk(folder: Path, *keys: str, **options: Any) -> tuple[list[str], Memo]:
    memo = Memo(folder, **options)
    missing = await kept(memo, *keys)
    await memo.aclose()
    return missing, memo


async def test_replies_on_disk_outlive_the_process_and_both_stores_are_bounded(
    tmp_path: Path,
) -> None:
    memo, folder = Memo(size=2), tmp_path / "new" / "memo"
    assert await kept(memo, *"ababc") == ["a", "b", "c"]
    assert await kept(memo, "a") == ["a"]
    await on_disk(folder, "a", "b", "c", size=2)
    assert (await on_disk(folder, "b", "c", "c"))[0] == []
    assert (await on_disk(folder, "a"))[0] == ["a"]
    # Also in a folder that is not private.
    await on_disk(tmp_path, "a")
    private = [folder, *folder.iterdir(), *tmp_path.glob("replies.*")]
    assert [path for path in private if path.stat().st_mode & 0o077] == []


def corrupt(file: Path) -> None:
    file.write_bytes(b"this is no database " * 500)


@pytest.mark.parametrize("spoil", [corrupt, Path.mkdir])
async def test_broken_disk_disturbs_nobody(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(tmp_path / "replies.sqlite")
    missing, memo = await on_disk(tmp_path, *map(str, range(10)))
    assert len(missing) == 10
    failures = memo._incidents.counts()
    assert sum(failures.values()) >= 5
    assert len(caplog.records) == len(failures)


async def test_hanging_disk_is_given_up_and_memory_needs_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked child has no other thread, and a thread of the parent may have held a lock."""
    monkeypatch.setattr("rag_eval_hooks.judges.memo._PATIENCE_S", 0.01)
    end, disk, memory = threading.Event(), Memo(tmp_path), Memo()
    try:
        for memo in (disk, memory):
            memo._worker.submit(end.wait)
        assert len(await kept(disk, *map(str, range(10)))) == 10
        assert sum(disk._incidents.counts().values()) == 5
        assert await kept(memory, *"aa") == ["a"]
    finally:
        end.set()
        await disk.aclose()

"""Laws of the memo: the same is asked once, only valid replies stay, no disk disturbs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rag_eval_hooks.errors import ConfigError
from rag_eval_hooks.judges.callable_judge import CallableJudge, Messages
from rag_eval_hooks.judges.chat import Completion
from rag_eval_hooks.judges.memo import Memo, MemoChat
from rag_eval_hooks.prompts import Prompt
from rag_eval_hooks.usage import Usage
from tests.servers.brain import truthful_reply
from tests.servers.samples import ONE, TRUTH, found, spent

USED = Usage(calls=1, input_tokens=10, output_tokens=5)


def prompt(user: str = "u", **changes: Any) -> Prompt:
    fields = {"system": "s", "user": user, "name": "n", "model": BaseModel, "example": {"a": True}}
    return Prompt(**{**fields, **changes})


class CountingChat:
    """A chat that replies with the number of its call."""

    def __init__(self, name: str = "test:m", *, error: Exception | None = None) -> None:
        self.name = name
        self.prompts: list[Prompt] = []
        self.cancelled = 0
        self._error = error

    async def complete(self, prompt: Prompt) -> Completion:
        self.prompts.append(prompt)
        number = len(self.prompts)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self._error is not None:
            raise self._error
        return Completion(f"reply {number}", USED)

    async def asked(self, calls: int) -> None:
        while len(self.prompts) < calls:
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        """Does nothing."""


async def asked(chat: MemoChat, *prompts: Prompt, accept: bool = True) -> list[str]:
    texts = []
    for one in prompts:
        completion = await chat.complete(one)
        if accept:
            completion.accept()
        texts.append(completion.text)
    return texts


async def test_an_accepted_reply_is_served_again_for_nothing() -> None:
    chat = CountingChat()
    memo = MemoChat(chat, Memo())
    assert await asked(memo, prompt(), prompt()) == ["reply 1"] * 2
    assert (await memo.complete(prompt())).usage == Usage()
    assert len(chat.prompts) == 1


OTHERS = [
    prompt("other"),
    prompt(system="other"),
    prompt(name="other"),
    prompt(version="other"),
    prompt(example={"a": 1}),
    prompt("u\ud800"),
]


@pytest.mark.parametrize("other", OTHERS)
async def test_whatever_differs_in_a_prompt_is_asked(other: Prompt) -> None:
    chat = CountingChat()
    await asked(MemoChat(chat, Memo()), prompt(), other)
    assert len(chat.prompts) == 2


async def test_models_and_endpoints_do_not_share_replies() -> None:
    memo = Memo()
    chats = [CountingChat(), CountingChat("test:other"), CountingChat()]
    for chat, scope in zip(chats, ("", "", "https://elsewhere"), strict=True):
        await asked(MemoChat(chat, memo, scope=scope), prompt())
    assert [len(chat.prompts) for chat in chats] == [1, 1, 1]


async def test_the_reply_unused_for_longest_leaves_first() -> None:
    chat = CountingChat()
    memo = MemoChat(chat, Memo(size=2))
    await asked(memo, prompt("a"), prompt("b"), prompt("a"), prompt("c"), prompt("a"))
    assert [p.user for p in chat.prompts] == ["a", "b", "c"]
    await asked(memo, prompt("b"))
    assert len(chat.prompts) == 4


def replies(texts: Sequence[str] = ()) -> tuple[Callable[[Messages], str], list[Messages]]:
    seen: list[Messages] = []

    def ask(messages: Messages) -> str:
        seen.append(messages)
        if len(seen) <= len(texts):
            return texts[len(seen) - 1]
        return json.dumps(truthful_reply({"messages": messages}))

    return ask, seen


async def test_a_judge_keeps_valid_replies_only() -> None:
    ask, seen = replies(["I cannot say."])
    judge = CallableJudge(ask, name="m", memo=Memo())
    results = [await ONE.by(judge) for _ in range(3)]
    await judge.aclose()
    assert [found(findings) for findings in results] == [TRUTH] * 3
    # The nonsense and its correction, and the first question once more.
    assert [spent(findings).calls for findings in results] == pytest.approx([2, 1, 0])
    assert len(seen) == 3


async def on_disk(folder: Path, chat: CountingChat, *prompts: Prompt) -> Memo:
    memo = Memo(folder)
    cached = MemoChat(chat, memo)
    await asked(cached, *prompts)
    await cached.aclose()
    return memo


async def test_replies_on_disk_outlive_the_process(tmp_path: Path) -> None:
    chat = CountingChat()
    folder = tmp_path / "new" / "memo"
    await on_disk(folder, chat, prompt("a"), prompt("b"))
    memo = await on_disk(folder, chat, prompt("b"), prompt("a"), prompt("a"))
    assert len(chat.prompts) == 2
    assert memo.stats() == {"disk": 2, "memory": 1}
    assert folder.stat().st_mode & 0o077 == 0


async def test_the_disk_is_bounded(tmp_path: Path) -> None:
    """The replies stored first leave first."""
    memo = Memo(tmp_path, disk_size=2)
    chat = CountingChat()
    cached = MemoChat(chat, memo)
    await asked(cached, prompt("a"), prompt("b"), prompt("c"))
    await cached.aclose()
    await on_disk(tmp_path, chat, prompt("b"), prompt("c"))
    assert len(chat.prompts) == 3
    await on_disk(tmp_path, chat, prompt("a"))
    assert len(chat.prompts) == 4


def corrupt(folder: Path) -> None:
    (folder / "replies.sqlite").write_bytes(b"this is no database " * 500)


def other_table(folder: Path) -> None:
    connection = sqlite3.connect(folder / "replies.sqlite")
    connection.execute("CREATE TABLE replies_1 (something TEXT)")
    connection.close()


def no_folder(folder: Path) -> None:
    (folder / "replies.sqlite").mkdir()


@pytest.mark.parametrize("spoil", [corrupt, other_table, no_folder])
async def test_a_broken_disk_disturbs_nobody(
    tmp_path: Path, spoil: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(tmp_path)
    chat = CountingChat()
    memo = await on_disk(tmp_path, chat, *(prompt(str(n)) for n in range(10)))
    assert len(chat.prompts) == 10
    failures = {k: v for k, v in memo.stats().items() if k.startswith("judge memo on disk")}
    assert sum(failures.values()) >= 5
    assert len(caplog.records) == len(failures)


@pytest.mark.parametrize("options", [{"size": 0}, {"disk_size": 0}, {"path": __file__}])
def test_wrong_settings_are_told_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Memo(**options)

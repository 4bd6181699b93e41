"""A scripted model, a store, and applications of LangChain packages as shapes of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from rag_eval_hooks_langchain import RagEvalCallbackHandler, disable, enable
from tests.apps import case
from tests.apps.case import Case
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import Chat, call, prompt_text, store
from tests.matrix.shape import Shape
from tests.matrix.world import World

WAYS: Final = ("invoke", "ainvoke", "stream", "astream", "enable")
AGENT_WAYS: Final = ("invoke", "ainvoke", "astream", "enable")


def app(
    group: str, name: str, make: Callable[[Texts], Case], seed: int, ways: Sequence[str] = WAYS
) -> Shape:
    return case.app(group, name, make, seed, ways, _call)


def _call(asked: Case, world: World, way: str) -> None:
    with capturing(world, way) as handlers:
        config: Any = {**handlers, **asked.config}
        if asked.ask is not None:
            asked.ask(config)
        else:
            call("invoke" if way == "enable" else way, asked.chain, [asked.given], config)


@contextmanager
def capturing(world: World, way: str) -> Iterator[dict[str, Any]]:
    """Capture by a handler in the config, or of every run of the process."""
    if way != "enable":
        yield {"callbacks": [RagEvalCallbackHandler(world.evals)]}
        return
    enable(world.evals)
    try:
        yield {}
    finally:
        disable()


def _tokens(text: str) -> list[int]:
    return list(range(len(text.split())))


def model(*replies: tuple[str, str | AIMessage], default: str | AIMessage = "") -> Chat:
    """A model that gives the reply of the first marker in its prompt, else the default."""

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        prompt = prompt_text(messages)
        return next((said for marker, said in replies if marker in prompt), default)

    return Chat(reply=reply, custom_get_token_ids=_tokens)


def steps(*calls: AIMessage | str, seen: list[str] | None = None) -> Chat:
    """A model that says one thing after another, by the model messages since the last question."""

    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        if seen is not None:
            seen.append(prompt_text(messages))
        last = max((n for n, m in enumerate(messages) if m.type == "human"), default=0)
        done = sum(message.type == "ai" for message in messages[last:])
        return calls[min(done, len(calls) - 1)]

    return Chat(reply=reply)


def tool_call(name: str, **arguments: Any) -> AIMessage:
    call_id = f"call-{name}-{len(str(arguments))}"
    made = {"name": name, "args": arguments, "id": call_id, "type": "tool_call"}
    return AIMessage(content="", tool_calls=[made])


def retriever(texts: Texts, k: int = 3) -> Any:
    return store(texts.sheets).as_retriever(search_kwargs={"k": k})


def best(texts: Texts, question: str, k: int = 3) -> list[str]:
    return [found.page_content for found in store(texts.sheets).similarity_search(question, k=k)]

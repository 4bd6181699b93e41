"""A scripted model, a store, and applications of LangChain packages as shapes of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage

from rag_eval_hooks_langchain import RagEvalCallbackHandler
from tests.apps.texts import Texts
from tests.matrix.langchain.kit import Chat, call, prompt_text, store
from tests.matrix.shape import Expected, Shape
from tests.matrix.world import World

WAYS: Final = ("invoke", "ainvoke", "stream", "astream", "enable")
AGENT_WAYS: Final = ("invoke", "ainvoke", "astream", "enable")


@dataclass(frozen=True)
class Case:
    """One question put to an application, and what is right by construction."""

    chain: Any = None
    given: Any = None
    question: str | None = None
    contexts: Sequence[str] | Callable[[], Sequence[str]] = ()
    answer: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    ask: Callable[[Any], Any] | None = None


def app(
    group: str,
    name: str,
    make: Callable[[Texts], Case],
    seed: int,
    ways: Sequence[str] = WAYS,
) -> Shape:
    """Return an application as a shape, made anew for every call."""
    done: dict[str, Case] = {}

    def run(world: World, way: str) -> None:
        case = done[way] = make(Texts(seed))
        with capturing(world, way) as handlers:
            config: Any = {**handlers, **case.config}
            if case.ask is not None:
                case.ask(config)
            else:
                call("invoke" if way == "enable" else way, case.chain, [case.given], config)

    def expected(way: str) -> list[Expected]:
        case = done[way]
        if case.question is None:
            return []
        shown = case.contexts() if callable(case.contexts) else case.contexts
        return [Expected(question=case.question, contexts=shown, answer=case.answer, spans=None)]

    return Shape(group=group, name=name, ways=ways, run=run, expected=expected)


@contextmanager
def capturing(world: World, way: str) -> Iterator[dict[str, Any]]:
    """Capture by a handler in the config, or of every run of the process."""
    if way != "enable":
        yield {"callbacks": [RagEvalCallbackHandler(world.evals)]}
        return
    RagEvalCallbackHandler.enable(world.evals)
    try:
        yield {}
    finally:
        RagEvalCallbackHandler.disable()


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

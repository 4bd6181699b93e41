"""The RAG applications of LangChain's tutorials and of Anthropic's blocks, under drawn names.

No name of a key, a tool or a step is a usual one: only where a text came from and where it went
can tell what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import StructuredTool

from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import asks, pick, stepping
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.graphs import line
from tests.support.variation import run_seed

GROUP = "tutorials, under drawn names"
ASKED, FOUND, SAID = kit.ASKED, kit.FOUND, kit.SAID
QUERY, TOOL, FIRST, SECOND, THIRD = (kit.NAMED.name() for _ in range(5))
ORDER = 1 if run_seed() % 2 else -1
"""Direction in which documents are shown."""
TEMPLATE = ChatPromptTemplate.from_template(f"{{{FOUND}}}\n\n-- {{{ASKED}}}")


def knowing(wrap: Callable[[str], Any] = str) -> kit.Chat:
    """A model that says how many passages it was shown, of the text after the last dashes."""

    def reply(messages: list[BaseMessage]) -> AIMessage:
        prompt = kit.prompt_text(messages)
        asked = re.findall(r"-- ([^'\"\n]*)", prompt)[-1]
        shown = [text for text in kit.PASSAGES if text[:60] in prompt]
        return AIMessage(content=wrap(kit.answer_to(asked, shown)))

    return kit.Chat(reply=reply)


def search(query: str, k: int = 2) -> list[Document]:
    return kit.store().similarity_search(query, k=k)[::ORDER]


def shown(question: str) -> list[str]:
    return kit.top(question)[::ORDER]


def answer(state: Any) -> dict[str, Any]:
    prompt = TEMPLATE.invoke({FOUND: kit.joined(state[FOUND]), ASKED: state[ASKED]})
    return {SAID: kit.message_text(knowing().invoke(prompt))}


def tool(give: Callable[[str], Any], **more: Any) -> StructuredTool:
    def look(query: str) -> Any:
        return give(query)

    return StructuredTool.from_function(look, name=TOOL, description="Looks it up.", **more)


def searching(give: Callable[[str], Any], **more: Any) -> Callable[[], Any]:
    return lambda: agent(stepping(lambda question: pick((TOOL, question))), [tool(give, **more)])


def results(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "search_result",
            "source": f"https://{TOOL}.example/{number}",
            "title": FIRST,
            "content": [{"type": "text", "text": text}],
            "citations": {"enabled": True},
        }
        for number, text in enumerate(texts)
    ]


def plain_documents(texts: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": text},
            "title": SECOND,
        }
        for text in texts
    ]


def cited(text: str) -> list[dict[str, Any]]:
    middle = len(text) // 2
    cites = [{"type": "search_result_location", "cited_text": kit.PASSAGES[-1], "title": FIRST}]
    return [
        {"type": "text", "text": text[:middle]},
        {"type": "text", "text": text[middle:], "citations": cites},
    ]


def in_blocks(blocks: Callable[[Sequence[str]], list[dict[str, Any]]]) -> Callable[[], Any]:
    """A chain that finds four, and shows the model the best two in blocks beside the question."""

    def build() -> Any:
        def message(given: dict[str, Any]) -> list[BaseMessage]:
            texts = [document.page_content for document in given[FOUND][:2]][::ORDER]
            asked = {"type": "text", "text": f"-- {given[ASKED]}"}
            return [HumanMessage(content=[*blocks(texts), asked])]

        inputs: Any = {
            FOUND: kit.base(4),
            ASKED: RunnablePassthrough(),
        }
        return inputs | RunnableLambda(message) | knowing(cited) | RunnableLambda(kit.message_text)

    return build


TOLD: dict[str, Any] = {"contexts": shown, "missing": GRAPHS_MISSING, "ways": kit.GRAPH_WAYS}
ONE: dict[str, Any] = {**TOLD, "inputs": lambda question: {ASKED: question}}
TALK: dict[str, Any] = {**TOLD, "inputs": asks, "missing": AGENTS_MISSING}
CALLED = ("chat scripted", "chat scripted", f"execute_tool {TOOL}")
CHAIN: dict[str, Any] = {"contexts": shown, "ways": kit.CHAIN_WAYS}


@kit.shape(GROUP, "query analysis", spans=("chat scripted",) * 2, **ONE)
def analysed() -> Any:
    """A query is made of the question before the search."""

    def analyse(state: Any) -> dict[str, Any]:
        said = kit.Chat(reply=lambda _: f"{SECOND}: {state[ASKED]}").invoke(
            f"Query? {state[ASKED]}"
        )
        return {QUERY: {"text": kit.message_text(said).partition(": ")[2], "limit": 2}}

    def retrieve(state: Any) -> dict[str, Any]:
        return {FOUND: search(state[QUERY]["text"], state[QUERY]["limit"])}

    nodes = {FIRST: analyse, SECOND: retrieve, THIRD: answer}
    return line(nodes, **{QUERY: dict[str, Any]}).compile()


kit.shape(GROUP, "an agent's search results in Anthropic's blocks", spans=CALLED, **TALK)(
    searching(lambda query: results([d.page_content for d in search(query)]))
)


kit.shape(GROUP, "search results in Anthropic's blocks", **CHAIN)(in_blocks(results))


kit.shape(GROUP, "documents in Anthropic's blocks", **CHAIN)(in_blocks(plain_documents))

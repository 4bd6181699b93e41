"""Agents written from scratch as workflows, as tutorials do, with names drawn by a seed.

Old versions cannot read annotations that are kept as texts.
"""

import json
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.tools import FunctionTool, QueryEngineTool, RetrieverTool, ToolMetadata
from llama_index.core.workflow import StartEvent, StopEvent

from tests.matrix.llama_index.kit import pick
from tests.matrix.llama_index.variants import Corpus, Variant, answered, in_turn, says
from tests.matrix.llama_index.workflows import event, flow, store
from tests.support.variation import Variation


def tool_of(draw: Variation, corpus: Corpus) -> Any:
    """A tool that asks a corpus: an engine, a retriever, or a function around one of them."""
    name = draw.name()
    metadata = ToolMetadata(name=name, description=draw.sentence())
    engine = corpus.engine(says(answered(draw)))
    kind = draw.chance.choice(["engine", "retriever", "asking", "searching"])
    if kind == "engine":
        return QueryEngineTool(query_engine=engine, metadata=metadata)
    if kind == "retriever":
        return RetrieverTool(retriever=corpus.retriever, metadata=metadata)

    def ask(input: str) -> str:
        if kind == "asking":
            return str(engine.query(input))
        return "\n\n".join(node.get_content() for node in corpus.retriever.retrieve(input))

    return FunctionTool.from_defaults(ask, name=name, description=metadata.description)


def own_agent(draw: Variation) -> Variant:
    corpora = [Corpus(draw, 2) for _ in range(2)]
    question, answer = draw.question(), answered(draw)
    tools = {tool.metadata.name: tool for tool in (tool_of(draw, corpus) for corpus in corpora)}
    calls = [pick(str(n), input=c.question) for n, c in zip(tools, corpora, strict=True)]
    model = in_turn(answer, *calls)
    asked_at, history_at, said_at = (draw.name() for _ in range(3))
    begun, picked = event(draw, history_at), event(draw, history_at)

    async def prepare(ctx: Any, ev: Any) -> Any:
        return begun(**{history_at: [ChatMessage(role="user", content=ev.get(asked_at))]})

    async def think(ctx: Any, ev: Any) -> Any:
        history = getattr(ev, history_at)
        said = await model.achat_with_tools(list(tools.values()), chat_history=history)
        if model.get_tool_calls_from_response(said, error_on_no_tool_call=False):
            return picked(**{history_at: [*history, said.message]})
        return StopEvent(result={said_at: said.message.content, draw.name(): len(history)})

    async def act(ctx: Any, ev: Any) -> Any:
        history = list(getattr(ev, history_at))
        for call in history[-1].additional_kwargs["tool_calls"]:
            output = tools[call["tool_name"]](**call["tool_kwargs"])
            history.append(ChatMessage(role=MessageRole.TOOL, content=str(output)))
        return begun(**{history_at: history})

    async def run() -> None:
        made = flow(
            draw,
            (prepare, StartEvent, begun),
            (think, begun, picked | StopEvent),
            (act, picked, begun),
        )
        await made.run(**{asked_at: question})

    contexts = [text for corpus in corpora for text in corpus.shown()]
    return Variant(run, question, contexts, answer, any_order=True)


class Reasoning:
    """Writes and reads the text of a model that reasons, under labels of its own."""

    def __init__(self, draw: Variation) -> None:
        self._draw = draw
        self.action, self.arguments, self.seen, self.end = (draw.name().title() for _ in range(4))

    def call(self, tool: str, question: str) -> str:
        given = json.dumps({"input": question}, ensure_ascii=False)
        return f"{self._draw.sentence()}\n{self.action}: {tool}\n{self.arguments}: {given}"

    def answer(self, text: str) -> str:
        return f"{self._draw.sentence()}\n{self.end}: {text}"

    def parsed(self, said: str) -> tuple[str | None, tuple[str, Any] | None]:
        """Return the answer, or None, and the call, or None."""
        fields = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
        named = self.action in fields
        call = (fields[self.action], json.loads(fields[self.arguments])) if named else None
        return (said.partition(f"{self.end}: ")[2] if self.end in fields else None), call


def reasoning_agent(draw: Variation) -> Variant:
    """A ReAct agent: one text holds tools, question and reasoning so far; its reply is parsed.

    What a tool gives is appended as an observation; so is that a reply could not be read.
    """
    corpora = [Corpus(draw, 2) for _ in range(draw.chance.randint(1, 3))]
    question, answer, reasoning = draw.question(), answered(draw), Reasoning(draw)
    tools = {tool.metadata.name: tool for tool in (tool_of(draw, corpus) for corpus in corpora)}
    calls = [reasoning.call(n, c.question) for n, c in zip(tools, corpora, strict=True)]
    if draw.chance.random() < 0.5:
        calls.insert(draw.chance.randint(0, len(calls)), draw.sentence())
    model = says(*calls, reasoning.answer(answer))
    asked_at, lines_at, call_at, said_at = (draw.name() for _ in range(4))
    going_on, picked = event(draw, lines_at), event(draw, lines_at, call_at)
    known = [f"> {name}: {tool.metadata.description}" for name, tool in tools.items()]
    results: list[Callable[[str, list[str]], Any]] = [
        lambda text, lines: text,
        lambda text, lines: {said_at: text, draw.name(): len(lines)},
        lambda text, lines: {said_at: text, draw.name(): lines},
    ]
    result = draw.chance.choice(results)

    async def begin(ctx: Any, ev: Any) -> Any:
        await store(ctx).set(asked_at, ev.get(asked_at))
        return going_on(**{lines_at: []})

    async def think(ctx: Any, ev: Any) -> Any:
        asked, lines = await store(ctx).get(asked_at), getattr(ev, lines_at)
        said = (await model.acomplete("\n".join([*known, asked, *lines]))).text
        found, call = reasoning.parsed(said)
        if found is not None:
            return StopEvent(result=result(found, [*lines, said]))
        if call is not None:
            return picked(**{lines_at: [*lines, said], call_at: call})
        return going_on(**{lines_at: [*lines, said, f"{reasoning.seen}: {draw.word()}"]})

    async def act(ctx: Any, ev: Any) -> Any:
        name, given = getattr(ev, call_at)
        observation = f"{reasoning.seen}: {tools[name](**given)}"
        return going_on(**{lines_at: [*getattr(ev, lines_at), observation]})

    async def run() -> None:
        made = flow(
            draw,
            (begin, StartEvent, going_on),
            (think, going_on, picked | going_on | StopEvent),
            (act, picked, going_on),
        )
        await made.run(**{asked_at: question})

    contexts = [text for corpus in corpora for text in corpus.shown()]
    return Variant(run, question, contexts, answer, any_order=True)


AGENTS = (own_agent, reasoning_agent)
"""All of them."""

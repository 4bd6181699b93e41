"""`doctor --capture`: one question to a pipeline of a user's module, and what is seen of it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("langchain_core")
pytest.importorskip("llama_index.core")

from llama_index.core.instrumentation import get_dispatcher

from rag_eval_hooks.cli.doctor import _short
from rag_eval_hooks_langchain.surroundings import AMBIENT
from tests.support.command_line import Finished, run_command
from tests.support.variation import Variation, run_seed

# LlamaIndex's agents read deprecated fields when they are made, and its engines leave loops open.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

MODULE = """
import json
from typing import Any, TypedDict
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.graph import StateGraph
from rag_eval_hooks_langchain import record_contexts
from tests.matrix.llama_index.kit import index_of, says

TEXTS, ANSWER = {texts!r}, {answer!r}
store = InMemoryVectorStore.from_texts(TEXTS, DeterministicFakeEmbedding(size=8))
found = store.as_retriever(search_kwargs={{"k": len(TEXTS)}})

def model():
    return GenericFakeChatModel(messages=iter([AIMessage(ANSWER)] * 9))

joined = found | (lambda documents: "\\n".join(d.page_content for d in documents))
prompt = ChatPromptTemplate.from_template("Use {{context}}. {{question}}")
inputs = {{"context": joined, "question": RunnablePassthrough()}}
chain = inputs | prompt | model() | StrOutputParser()
bare = model()

class State(TypedDict, total=False):
    question: str
    {key}: Any

of_state = StateGraph(State)
of_state.add_node("node", lambda state: {{"{key}": chain.invoke(state["question"])}})
of_state.set_entry_point("node")
typed_graph = of_state.compile()

corpus = index_of(tuple(TEXTS))
engine = corpus.as_query_engine(llm=says(ANSWER), similarity_top_k=len(TEXTS))

async def coroutine(question):
    return await chain.ainvoke(question)

def recorded(question):
    record_contexts(TEXTS)
    return {{"answer": ANSWER}}

def silent(question):
    return ANSWER

def raising(question):
    raise LookupError(ANSWER)
"""
EVERY = ("chain", "typed_graph", "engine", "coroutine", "recorded")


@pytest.fixture
def drawn() -> Variation:
    return Variation(run_seed())


@pytest.fixture
def texts(drawn: Variation) -> list[str]:
    return drawn.passages(drawn.chance.randint(2, 4))


@pytest.fixture
def module(tmp_path: Path, drawn: Variation, texts: list[str]) -> Iterator[str]:
    name, before = drawn.name(), capturing()
    code = MODULE.format(texts=texts, answer=drawn.sentence(), key=drawn.name())
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    yield name
    sys.path.remove(str(tmp_path))
    sys.modules.pop(name, None)
    assert capturing() == before
    gc.collect()


def capturing() -> list[object]:
    root = get_dispatcher()
    return [*root.span_handlers, *root.event_handlers, AMBIENT.get()]


def captured(folder: Path, pipeline: str, question: str, *more: str) -> Finished:
    arguments = ("doctor", "--capture", pipeline, "--question", question, *more)
    return run_command(folder, *arguments, variables={})


def test_every_kind_of_pipeline_is_shown(
    tmp_path: Path, module: str, drawn: Variation, texts: list[str]
) -> None:
    question = drawn.question()
    for kind in EVERY:
        done = captured(tmp_path, f"{module}:{kind}", question)
        assert done.code == 0, (kind, done)
        shown = [f"question: {_short(question)}", f"answer: {_short(sys.modules[module].ANSWER)}"]
        shown += [f"] {_short(text)} (" for text in texts] + [f"contexts: {len(set(texts))}\n"]
        shown += [f"  {'recorded' if kind == 'recorded' else 'prompt'}: "]
        assert [text for text in shown if text not in done.out] == [], kind


def test_the_page_names_rule_and_remedy(
    tmp_path: Path, module: str, drawn: Variation, texts: list[str]
) -> None:
    question = drawn.question()
    limit = min(map(len, texts)) - 1
    done = captured(tmp_path, f"{module}:chain", question, "--set", f"max_text_chars={limit}")
    assert done.code == 0
    shown = [
        "prompt: the prompt of the answering model contains",
        "contexts[0].text",
        "input: the input of",
    ]
    shown += [question, f"contexts: {len(texts)}", 'contexts="KEY"', "record_contexts"]
    assert [text for text in shown if text not in done.out] == []
    assert captured(tmp_path, f"{module}:chain", question, "--set", "redact=all").code == 0


def test_no_sample_has_a_reason(tmp_path: Path, module: str, drawn: Variation) -> None:
    for kind, *told in (
        ("silent", "capture saw no retrieved text", "record_contexts(documents)"),
        ("raising", "LookupError"),
        ("bare", "without_retrieval", "retrieval_tools"),
    ):
        done = captured(tmp_path, f"{module}:{kind}", drawn.question())
        assert done.code == 1, kind
        assert [text for text in told if text not in done.out] == [], kind

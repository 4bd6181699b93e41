"""Engines, agents and packs of LlamaIndex, on a core that packs can still be installed with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from llama_index.core import (
    Document,
    Settings,
    StorageContext,
    VectorStoreIndex,
)
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.postprocessor import PIINodePostprocessor
from llama_index.core.query_engine import (
    RetrieverQueryEngine,
)
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode

from tests.apps.case import Case
from tests.apps.llama_index_kit import app, best, model, over
from tests.apps.texts import Texts
from tests.matrix.llama_index.kit import (
    Bags,
    Scripted,
    prompt_text,
)
from tests.matrix.shape import Shape


def masked(texts: Texts) -> Case:
    """A postprocessor whose model masks what the answering model is shown."""
    question, answer = texts.question(6), texts.answer(6)
    hidden = texts.sheets[6].replace(texts.names[6].split()[-1], "[PLACE_1]")
    masker = model(default=f'{hidden}\nOutput Mapping:\n{{"PLACE_1": "x"}}')
    engine = over(texts).as_query_engine(
        llm=model(default=answer),
        similarity_top_k=1,
        node_postprocessors=[PIINodePostprocessor(llm=masker)],
    )
    return Case(engine, None, question, [hidden], answer)


def self_rag(texts: Texts) -> Case:
    """The pack whose source nodes are the prompts of its own model."""
    question, answer = texts.question(2), texts.answer(2)
    fake = ModuleType("llama_cpp")

    class Llama:
        def __init__(self, **_: Any) -> None: ...

        def __call__(self, prompt: str, **_: Any) -> dict[str, Any]:
            said = answer if "<paragraph>" in prompt else "[Retrieval]"
            scores = {"[Relevant]": -0.1, "[Irrelevant]": -2.0}
            return {
                "choices": [{"text": said, "logprobs": {"tokens": [], "top_logprobs": [scores]}}]
            }

    fake.Llama = Llama  # type: ignore[attr-defined]
    sys.modules["llama_cpp"] = fake
    from llama_index.packs.self_rag import SelfRAGPack

    retriever = over(texts).as_retriever(similarity_top_k=2)
    pack = SelfRAGPack("none", retriever)
    return Case(pack.get_modules()["query_engine"], None, question, best(texts, question), answer)


def auto_merging(texts: Texts) -> Case:
    from llama_index.packs.auto_merging_retriever import AutoMergingRetrieverPack

    question, answer = texts.question(3), texts.answer(3)
    prompts: list[str] = []

    def reply(messages: Sequence[ChatMessage]) -> str:
        prompts.append(prompt_text(messages))
        return answer

    Settings.llm, Settings.embed_model = Scripted(reply=reply), Bags()
    pack = AutoMergingRetrieverPack([Document(text=sheet) for sheet in texts.sheets])
    engine: Any = pack.get_modules()["query_engine"]
    return Case(engine, None, question, lambda: texts.within(prompts[-1]), answer)


def koda(texts: Texts) -> Case:
    """The pack whose retriever asks a model which kind of question it is."""
    from llama_index.packs.koda_retriever import KodaRetriever

    question, answer = texts.question(4), texts.answer(4)

    class Store(SimpleVectorStore):
        def query(self, query: VectorStoreQuery, **kwargs: Any) -> Any:
            query.mode = VectorStoreQueryMode.DEFAULT  # in memory there is no hybrid search
            return super().query(query, **kwargs)

    context = StorageContext.from_defaults(vector_store=Store())
    nodes = [TextNode(text=sheet) for sheet in texts.sheets]
    own = VectorStoreIndex(nodes, storage_context=context, embed_model=Bags())
    retriever = KodaRetriever(
        index=own, llm=model(default="concept seeking query"), similarity_top_k=2
    )
    engine = RetrieverQueryEngine.from_args(retriever, llm=model(default=answer))
    return Case(engine, None, question, best(texts, question), answer)


def shapes(seed: int) -> list[Shape]:
    both = ("query", "aquery")
    return [
        app("text that a postprocessor rewrites", "PIINodePostprocessor", masked, seed, both),
        app("packs", "llama-index-packs-self-rag", self_rag, seed, both),
        app("packs", "llama-index-packs-auto-merging-retriever", auto_merging, seed, both),
        app("packs", "llama-index-packs-koda-retriever", koda, seed, both),
    ]

"""Query engines that ask other engines, drawn by a seed."""

from __future__ import annotations

from typing import Any

from llama_index.core.base.base_selector import BaseSelector, MultiSelection, SingleSelection
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import (
    SubQuestionQueryEngine,
)
from llama_index.core.question_gen.types import BaseQuestionGenerator, SubQuestion
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import QueryEngineTool, ToolMetadata

from tests.matrix.llama_index.variants import (
    Corpus,
    Variant,
    answered,
    says,
)
from tests.support.variation import Variation


class _Divided(BaseQuestionGenerator):
    def __init__(self, questions: list[SubQuestion]) -> None:
        self.questions = questions

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    def generate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.questions

    async def agenerate(self, tools: Any, query: Any) -> list[SubQuestion]:
        return self.questions


class _Without(BaseNodePostprocessor):
    id: str

    def _postprocess_nodes(self, nodes: Any, query_bundle: Any = None) -> list[NodeWithScore]:
        return [node for node in nodes if node.node_id != self.id]


def sub_question_in_words_of_a_dropped_passage(draw: Variation) -> Variant:
    """A sub-question shares a turn of phrase with a passage that a postprocessor drops."""
    corpus = Corpus(draw, 3)
    dropped = draw.chance.choice(corpus.nodes)
    wide = draw.language == "wide"
    phrase = dropped.text[:9] if wide else " ".join(dropped.text.split()[:3]) + " "
    inner, answer, question = answered(draw), answered(draw), draw.question()
    tool = QueryEngineTool(
        query_engine=corpus.engine(says(inner), node_postprocessors=[_Without(id=dropped.node_id)]),
        metadata=ToolMetadata(name="notes", description=draw.name()),
    )
    engine = SubQuestionQueryEngine.from_defaults(
        query_engine_tools=[tool],
        question_gen=_Divided(
            [SubQuestion(sub_question=phrase + draw.question(), tool_name="notes")]
        ),
        response_synthesizer=get_response_synthesizer(llm=says(answer)),
        use_async=False,
        verbose=False,
    )
    contexts = [text for text in corpus.shown() if text != dropped.text]
    return Variant(lambda: engine.query(question), question, contexts, answer, any_order=True)


class Everything(BaseSelector):
    """Selects every choice."""

    def _get_prompts(self) -> dict[str, Any]:
        return {}

    def _update_prompts(self, prompts: Any) -> None:
        pass

    def _select(self, choices: Any, query: Any) -> MultiSelection:
        found = [SingleSelection(index=n, reason="") for n in range(len(choices))]
        return MultiSelection(selections=found)

    async def _aselect(self, choices: Any, query: Any) -> MultiSelection:
        return self._select(choices, query)


NESTED = (sub_question_in_words_of_a_dropped_passage,)

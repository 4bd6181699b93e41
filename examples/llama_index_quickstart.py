"""Score every answer of a LlamaIndex query engine in the background, with one call.

    pip install "rag-eval-hooks[llama-index]"
    python examples/llama_index_quickstart.py

The built-in judge needs no key and no network. Replace the embeddings and the model with
yours. The second sentence of this model is wrong, and the score shows it.
"""

from typing import Any

from llama_index.core import MockEmbedding, VectorStoreIndex, set_global_tokenizer
from llama_index.core.llms import CompletionResponse, CompletionResponseGen, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback
from llama_index.core.schema import TextNode

from rag_eval_hooks import RagEval
from rag_eval_hooks_llama_index import enable

set_global_tokenizer(str.split)  # The default tokenizer is downloaded.

PASSAGES = [
    "The clock tower of Brennick was built in 1921 by the mason Ida Roth.",
    "The tower of Brennick has 7 bells, and the largest weighs 900 kilograms.",
]


class Model(CustomLLM):
    """Model that always returns the same answer."""

    answer: str = "The clock tower of Brennick was built in 1921. The tower has 12 bells."

    @property
    def metadata(self) -> LLMMetadata:
        """Properties that LlamaIndex reads."""
        return LLMMetadata(model_name="fixed")

    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Return the answer."""
        return CompletionResponse(text=self.answer)

    @llm_completion_callback()
    def stream_complete(
        self, prompt: str, formatted: bool = False, **kwargs: Any
    ) -> CompletionResponseGen:
        """Return the answer in one piece."""
        return (CompletionResponse(text=part, delta=part) for part in [self.answer])


evals = RagEval(metrics=["ragas.faithfulness"], sinks=["console"])
enable(evals)

nodes = [TextNode(id_=f"p{number}", text=text) for number, text in enumerate(PASSAGES)]
index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=8))
engine = index.as_query_engine(llm=Model())
engine.query("When was the clock tower of Brennick built?")
evals.flush()

"""Measure the CPU and time that capture adds to a request of a LlamaIndex query engine.

    python -m benchmarks.llama_index_overhead [--rounds 200] [--json FILE]

`benchmarks.added_cpu` describes the method.
"""

from __future__ import annotations

import asyncio
from typing import Any

from llama_index.core import Document, MockEmbedding, VectorStoreIndex, set_global_tokenizer
from llama_index.core.llms import MockLLM

from benchmarks.added_cpu import Request, both, compared, overhead_parser
from rag_eval_hooks_llama_index import enable

QUESTION = "At what time does the ferry to Skarn leave the quay?"
PASSAGES = (
    "The ferry to Skarn leaves at 07:40 from the north quay on every working day of the year.",
    "The ferry from Skarn to the mainland returns at 18:15, and in summer also at 21:30.",
)
LOOP = asyncio.new_event_loop()
set_global_tokenizer(str.split)  # else LlamaIndex downloads its default tokenizer


def engine(streaming: bool = False) -> Any:
    documents = [Document(text=text) for text in PASSAGES]
    index = VectorStoreIndex.from_documents(documents, embed_model=MockEmbedding(embed_dim=8))
    model = MockLLM(max_tokens=300)
    return index.as_query_engine(llm=model, similarity_top_k=2, streaming=streaming)


def main() -> None:
    options = overhead_parser(__doc__).parse_args()
    called, streamed = engine(), engine(streaming=True)
    requests: list[Request] = [
        ("query", lambda _: called.query(QUESTION)),
        ("aquery", lambda _: LOOP.run_until_complete(called.aquery(QUESTION))),
        ("stream 300", lambda _: list(streamed.query(QUESTION).response_gen)),
    ]
    compared("llama_index", requests, both(enable=enable), options.rounds, options.json)


if __name__ == "__main__":
    main()

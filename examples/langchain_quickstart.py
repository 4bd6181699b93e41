"""Score every answer of a LangChain chain in the background, with one callback.

    pip install "rag-eval-hooks[langchain]"
    python examples/langchain_quickstart.py

The built-in judge needs no key and no network. Replace the retriever and the model with
yours. The second sentence of this model is wrong, and the score shows it.
"""

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnablePassthrough

from rag_eval_hooks import RagEval
from rag_eval_hooks_langchain import RagEvalCallbackHandler

PASSAGES = [
    "The clock tower of Brennick was built in 1921 by the mason Ida Roth.",
    "The tower of Brennick has 7 bells, and the largest weighs 900 kilograms.",
    "The market of Brennick takes place on Thursdays.",
]


class WordRetriever(BaseRetriever):
    """Return the two passages that share most words with the question."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        asked = set(query.lower().split())
        ranked = sorted(PASSAGES, key=lambda text: -len(asked & set(text.lower().split())))
        return [Document(text) for text in ranked[:2]]


evals = RagEval(metrics=["ragas.faithfulness"], sinks=["console"])

prompt = ChatPromptTemplate.from_template("Answer from this:\n{passages}\n\nQuestion: {question}")
model = FakeListChatModel(
    responses=["The clock tower of Brennick was built in 1921. The tower has 12 bells."]
)
chain = (
    {"passages": WordRetriever(), "question": RunnablePassthrough()}
    | prompt
    | model
    | StrOutputParser()
)

chain.invoke(
    "When was the clock tower of Brennick built?",
    config={"callbacks": [RagEvalCallbackHandler(evals)]},
)
evals.flush()

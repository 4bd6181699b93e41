"""Interface of the demo to a framework's package: one module with two functions.

`rag-eval-hooks demo --framework NAME` loads the module `rag_eval_hooks_<name>.demo`, which the
command line does not import otherwise. `Framework` describes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

from rag_eval_hooks.cli import UsageError
from rag_eval_hooks.cli.quoting import Mistake

if TYPE_CHECKING:
    from pydantic import SecretStr

    from rag_eval_hooks import RagEval

__all__ = ["AskPipeline", "Framework", "PipelineSettings", "load_framework"]


class AskPipeline(Protocol):
    """Pipeline with the callback attached."""

    def __call__(self, question: str, metadata: Mapping[str, Any]) -> str:
        """Answer one question.

        Args:
            question: The user's question.
            metadata: Passed to the framework as a user would: `question_id`, `reference`,
                and free keys.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Parts of the pipeline.

    Attributes:
        k: Passages to retrieve per question.
        embeddings: Name or folder of a sentence-transformers model; hashed words if `None`.
        model: Name of an OpenAI chat model; the quoting model of the demo if `None`.
        api_key: Key for that model.
        base_url: Its endpoint, unless that is OpenAI's.
        mistakes: Mistakes of the quoting model, by question.
    """

    k: int = 5
    embeddings: str | None = None
    model: str | None = None
    api_key: SecretStr | None = None
    base_url: str | None = None
    mistakes: Mapping[str, Mistake] = field(default_factory=lambda: MappingProxyType({}))


class Framework(Protocol):
    """Module `rag_eval_hooks_<name>.demo`."""

    def has_openai(self) -> bool:
        """Return whether the framework's package for OpenAI models is installed."""
        ...

    def build(
        self, evals: RagEval, passages: Sequence[str], settings: PipelineSettings
    ) -> AskPipeline:
        """Build a pipeline of the framework's own parts over the passages, observed by `evals`.

        Raises:
            ImportError: An optional package is missing; the message names the pip command.
        """
        ...


def load_framework(name: str) -> Framework:
    """Return the module for a framework's name, such as `langchain` or `llama-index`.

    Raises:
        UsageError: There is no such module, or a package that it needs is missing.
    """
    package = "rag_eval_hooks_" + name.replace("-", "_")
    try:
        return cast(Framework, import_module(f"{package}.demo"))
    except ModuleNotFoundError as error:
        if error.name in (package, f"{package}.demo"):
            raise UsageError(f"--framework: got {name!r}; no module {package}.demo") from None
        raise missing_package(error) from None
    except ImportError as error:
        raise missing_package(error) from None


def missing_package(error: ImportError) -> UsageError:
    """Return the error for a package that the demo needs, with the command that installs it."""
    return UsageError(f'{error}; to install it: pip install "rag-eval-hooks[demo]"')

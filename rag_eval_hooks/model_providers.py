"""Tables of the judges, embedders and token scorers that settings can name.

A new one is a module with a factory, and a row here: settings, error texts, `doctor` and the
choice at start-up read these tables. Factories are named by text, as nothing may be imported
before it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rag_eval_hooks.errors import ConfigError, masked, nearest

__all__ = ["EMBEDDERS", "JUDGES", "TOKEN_SCORERS", "Provider", "ProviderTable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One row: what a name in the settings stands for.

    Attributes:
        name: Name before the colon.
        model: Part behind the colon: `required`, `optional`, or `none` where there is no colon.
        what: Word for that part in error texts.
        factory: `module:function` that makes it, or None for a name that stands for nothing.
            Judges take (config, model, embedder), all others (config, model).
        module: Module that must be importable, or None.
        extra: Extra of this package that installs the module.
        package: Distribution of the module.
        embedder: For a judge: the embedder that `auto` stands for beside it, or None for a model
            on this machine.
    """

    name: str
    model: Literal["required", "optional", "none"] = "none"
    what: str = "<model>"
    factory: str | None = None
    module: str | None = None
    extra: str | None = None
    package: str | None = None
    embedder: str | None = None

    @property
    def form(self) -> str:
        """Form of the setting, such as `openai:<model>`."""
        rest = {"required": f":{self.what}", "optional": f"[:{self.what}]", "none": ""}
        return self.name + rest[self.model]

    def fits(self, setting: str) -> bool:
        """Return whether a setting names this row."""
        name, colon, model = setting.partition(":")
        if name != self.name:
            return False
        return (
            bool(model.strip()) if self.model == "required" else self.model != "none" or not colon
        )

    def make(self, config: Any, setting: str, *parts: Any, **options: Any) -> Any:
        """Call the factory.

        Args:
            config: The settings.
            setting: The setting that names this row.
            *parts: Further arguments of the factory.
            **options: Options of the client, for a row with an endpoint.

        Raises:
            ImportError: The extra is not installed; the text names the pip command.
            ConfigError: A setting that it needs is missing or cannot be used.
        """
        if self.factory is None:
            return None
        if self.module is not None and importlib.util.find_spec(self.module) is None:
            text = f'{self.package} is not installed: pip install "rag-eval-hooks[{self.extra}]"'
            raise ImportError(text)
        module, _, function = self.factory.partition(":")
        make = getattr(importlib.import_module(module), function)
        return make(config, setting.partition(":")[2].strip(), *parts, **options)


class ProviderTable:
    """One table.

    Args:
        setting: Name of the setting whose values it holds.
        rows: Rows by name.
    """

    def __init__(self, setting: str, rows: Sequence[Provider]) -> None:
        self.setting = setting
        self._rows: Mapping[str, Provider] = {row.name: row for row in rows}

    @property
    def wanted(self) -> str:
        """Accepted values in words."""
        *first, last = (f"'{row.form}'" for row in self._rows.values())
        return f"{', '.join(first)} or {last}"

    @property
    def rows(self) -> Sequence[Provider]:
        """All rows, in the order in which error texts list them."""
        return tuple(self._rows.values())

    def check(self, value: str) -> str:
        """Return a value of the setting.

        Raises:
            ConfigError: It names no row.
        """
        self.find(value)
        return value

    def _hint(self, value: str) -> str:
        """Return the way to a model that no row serves, or to the row that was meant."""
        name, colon, model = value.partition(":")
        if name in self._rows:
            return ""
        if self.setting == "judge":
            for start, chat_model in _OTHER_JUDGES.items():
                if value.lower().startswith(start):
                    return f"; for this one: RagEval(judge=LangChainJudge({chat_model}))"
        if (near := nearest(name.lower(), list(self._rows))) is not None:
            return f"; did you mean '{near}{colon}{masked(model)}'?"
        if self.setting != "judge" or not value:
            return ""
        if colon:
            return "; a server with the interface of OpenAI: 'openai:<model>' and judge_base_url"
        return f"; did you mean 'openai:{value}'?"

    def find(self, value: str) -> Provider:
        """Return the row that a value of the setting names.

        Raises:
            ConfigError: It names none.
        """
        row = self._rows.get(value.partition(":")[0])
        if row is None or not row.fits(value):
            raise ConfigError(self.setting, value, self.wanted + self._hint(value))
        return row


_CHOOSE: Final = "rag_eval_hooks.judges.choose"
_OTHER_JUDGES: Final = {
    "anthropic": "ChatAnthropic(...)",
    "bedrock": "ChatBedrockConverse(...)",
    "claude": "ChatAnthropic(...)",
    "cohere": "ChatCohere(...)",
    "command": "ChatCohere(...)",
    "gemini": "ChatGoogleGenerativeAI(...)",
    "google": "ChatGoogleGenerativeAI(...)",
    "mistral": "ChatMistralAI(...)",
    "vertex": "ChatVertexAI(...)",
}
"""Models that no row serves but a chat model of LangChain, by the beginning of their names."""


def _by_openai(name: str, what: str, kind: str, embedder: str | None = None) -> Provider:
    """Return the row of models that the client of OpenAI serves."""
    return Provider(
        name=name,
        model="required",
        what=what,
        factory=f"{_CHOOSE}:{name}_{kind}",
        module="openai",
        extra="openai",
        package="openai",
        embedder=embedder,
    )


JUDGES: Final = ProviderTable(
    "judge",
    (
        Provider(name="local", factory=f"{_CHOOSE}:local_judge"),
        Provider(
            name="nli",
            model="required",
            what="<minilm, path or name>",
            factory=f"{_CHOOSE}:nli_judge",
        ),
        _by_openai("openai", "<model>", "judge", "openai:text-embedding-3-small"),
        _by_openai("azure", "<deployment>", "judge", "none"),
        _by_openai("ollama", "<model>", "judge", "none"),
    ),
)
EMBEDDERS: Final = ProviderTable(
    "embedder",
    (
        Provider(name="auto", factory=f"{_CHOOSE}:auto_embedder"),
        Provider(name="none"),
        _by_openai("openai", "<model>", "embedder"),
        _by_openai("azure", "<deployment>", "embedder"),
        _by_openai("ollama", "<model>", "embedder"),
        Provider(
            name="sentence-transformers",
            model="optional",
            what="<name or path>",
            factory=f"{_CHOOSE}:sentence_embedder",
            module="sentence_transformers",
            extra="embeddings",
            package="sentence-transformers",
        ),
    ),
)
TOKEN_SCORERS: Final = ProviderTable(
    "token_scorer",
    (
        Provider(name="none"),
        Provider(
            name="bert-score",
            model="optional",
            what="<name or path>",
            factory=f"{_CHOOSE}:bert_scorer",
            module="bert_score",
            extra="bertscore",
            package="bert-score",
        ),
    ),
)

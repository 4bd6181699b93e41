"""Names of judges, embedders and token scorers that settings accept.

A new one is a row here and a case in `judges/choose.py`: settings, error texts and help read these
tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rag_eval_hooks.errors import ConfigError, masked, nearest

__all__ = ["EMBEDDERS", "JUDGES", "TOKEN_SCORERS", "NameTable"]


@dataclass(frozen=True, slots=True)
class NameTable:
    """Names that one setting accepts."""

    setting: str
    rows: Mapping[str, str]

    @property
    def wanted(self) -> str:
        """Accepted values in words."""
        *first, last = (f"'{name}{rest}'" for name, rest in self.rows.items())
        return f"{', '.join(first)} or {last}"

    def check(self, value: str) -> str:
        """Return the value; raise as `parts` does."""
        self.parts(value)
        return value

    def parts(self, value: str) -> tuple[str, str]:
        """Return a name of the table and the model behind it, empty for none.

        Raises:
            ConfigError: The value names no row.
        """
        name, colon, model = value.partition(":")
        rest, model = self.rows.get(name), model.strip()
        if rest is None or not (model if rest.startswith(":") else rest or not colon):
            raise ConfigError(self.setting, value, self.wanted + self._hint(value))
        return name, model

    def _hint(self, value: str) -> str:
        """Return the way to a model that no row serves, or to the row that was meant."""
        name, colon, model = value.partition(":")
        if name in self.rows:
            return ""
        others = _OTHER_JUDGES if self.setting == "judge" else {}
        for start, chat_model in others.items():
            if value.lower().startswith(start):
                return f"; for this one: RagEval(judge=LangChainJudge({chat_model}))"
        if (near := nearest(name.lower(), list(self.rows))) is not None:
            return f"; did you mean '{near}{colon}{masked(model)}'?"
        if not (others and value):
            return ""
        if colon:
            return "; a server with the interface of OpenAI: 'openai:<model>' and judge_base_url"
        return f"; did you mean 'openai:{value}'?"


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
_BY_OPENAI: Final = {"openai": ":<model>", "azure": ":<deployment>", "ollama": ":<model>"}
JUDGES: Final = NameTable(
    "judge", {"heuristic": "", "nli": ":<minilm, path or name>", **_BY_OPENAI}
)
EMBEDDERS: Final = NameTable(
    "embedder",
    {"auto": "", "none": "", **_BY_OPENAI, "sentence-transformers": "[:<name or path>]"},
)
TOKEN_SCORERS: Final = NameTable("token_scorer", {"none": "", "bert-score": "[:<name or path>]"})

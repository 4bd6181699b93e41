"""Names of judges, embedders, token scorers and sinks in settings.

To add a name, add a row here and a case in `judges/__init__.py` or `delivery/dispatch.py`.
Settings, errors and the command line's help read these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from rag_eval_hooks.errors import ConfigError, masked, nearest


@dataclass(frozen=True, slots=True)
class NameTable:
    """Names that a setting accepts, each with a pattern for the text after the name.

    `:<model>` is mandatory text, `[:<model>]` is optional text, and an empty pattern allows no
    text.
    """

    setting: str
    rows: Mapping[str, str]
    other: Callable[[str], str] = lambda _value: ""
    """Returns a hint for a value that resembles no name, or empty text."""

    @property
    def wanted(self) -> str:
        *first, last = (f"'{name}{rest}'" for name, rest in self.rows.items())
        return f"{', '.join(first)} or {last}"

    def check(self, value: str) -> str:
        self.parts(value)
        return value

    def parts(self, value: str) -> tuple[str, str]:
        """Split a value into a known name and the text after the name.

        Raises:
            ConfigError: The name is unknown, or the text after the name does not match the pattern.
        """
        name, colon, behind = value.partition(":")
        rest, behind = self.rows.get(name), behind.strip()
        if rest is None or not (behind if rest.startswith(":") else rest or not colon):
            raise ConfigError(self.setting, value, self.wanted + self._hint(value))
        if rest == _URL and not is_url(behind):
            # The error must not repeat a URL with credentials.
            shown = f"{name}:**********" if "@" in value else value
            wants = f"'{name}{rest}' with a URL without credentials or parameters"
            raise ConfigError(self.setting, shown, wants)
        return name, behind

    def _hint(self, value: str) -> str:
        name, colon, behind = value.partition(":")
        if name in self.rows:
            return ""
        near = nearest(name.lower(), list(self.rows))
        if (hint := self.other(value)) or near is None:
            return hint
        return f"; did you mean '{near}{colon}{masked(behind)}'?"


def is_url(text: str) -> bool:
    """Return whether a text is an HTTP URL without credentials or query parameters.

    Errors and logs show URLs, so a key in a URL would leak.
    """
    try:
        parts = urlsplit(text)
        is_plain = parts.username is None and not parts.query and parts.port != 0
    except ValueError:
        return False
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _other_judge(value: str) -> str:
    for start, chat_model in _OTHER_JUDGES.items():
        if value.lower().startswith(start):
            return f"; for this model, write RagEval(judge=LangChainJudge({chat_model}))"
    name, colon, _ = value.partition(":")
    if not value or nearest(name.lower(), list(JUDGES.rows)) is not None:
        return ""
    if colon:
        return (
            "; for a server with an OpenAI-compatible API, set judge='openai:<model>' and "
            "judge_base_url"
        )
    return f"; did you mean 'openai:{value}'?"


def _other_sink(value: str) -> str:
    if value.endswith((".jsonl", ".json")) and ":" not in value:
        return f"; did you mean 'jsonl:{masked(value)}'?"
    return "; did you mean 'console'?" if value in ("stdout", "stderr", "print", "log") else ""


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
"""LangChain models for the hosted models that we support only through LangChain, by prefix."""
_BY_OPENAI: Final = {"openai": ":<model>", "azure": ":<deployment>", "ollama": ":<model>"}
_URL: Final = ":<url>"
JUDGES: Final = NameTable(
    "judge",
    {"heuristic": "", "nli": ":<minilm, path or name>", **_BY_OPENAI}
    | {"openai-decisions": ":<model>", "systemone": ":<model or url>"},
    _other_judge,
)
EMBEDDERS: Final = NameTable(
    "embedder",
    {"auto": "", "none": "", **_BY_OPENAI, "sentence-transformers": "[:<name or path>]"},
)
TOKEN_SCORERS: Final = NameTable("token_scorer", {"none": "", "bert-score": "[:<name or path>]"})
SINKS: Final = NameTable(
    "sinks",
    {"console": "", "jsonl": ":<path>", "phoenix": _URL, "mlflow": _URL, "langfuse": _URL},
    _other_sink,
)
SINK_KEYS: Final = {
    "phoenix": "<key>",
    "mlflow": "<token>",
    "langfuse": "<public key>:<secret key>",
}
"""Example keys of each platform. Errors show these keys."""

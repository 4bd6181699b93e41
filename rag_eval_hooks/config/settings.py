"""All settings: one frozen, validated object from arguments, environment and file.

Explicit arguments win over `RAG_EVAL_*` variables, these over `rag_eval_hooks.toml` or the
`[tool.rag_eval_hooks]` table of `pyproject.toml` in the working directory, these over a few
variables that are shared with other software (`OPENAI_API_KEY`, `OPENAI_BASE_URL`,
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from rag_eval_hooks.config.env_and_file import Origins, merged
from rag_eval_hooks.config.evaluation_groups import (
    JudgeSettings,
    SamplingSettings,
    ScoringSettings,
)
from rag_eval_hooks.config.fields import SettingsGroup
from rag_eval_hooks.config.groups import (
    DeliverySettings,
    LimitSettings,
    PrivacySettings,
    TelemetrySettings,
)
from rag_eval_hooks.config.keywords import ArgumentKeywords
from rag_eval_hooks.errors import ConfigError

__all__ = ["GROUPS", "RagEvalConfig", "ungrouped"]

GROUPS: Final[Mapping[str, type[SettingsGroup]]] = {
    "scoring": ScoringSettings,
    "judging": JudgeSettings,
    "sampling": SamplingSettings,
    "limits": LimitSettings,
    "telemetry": TelemetrySettings,
    "delivery": DeliverySettings,
    "privacy": PrivacySettings,
}
"""Groups of settings by the keyword, or table of a file, that takes one."""


class RagEvalConfig(
    PrivacySettings,
    DeliverySettings,
    TelemetrySettings,
    LimitSettings,
    SamplingSettings,
    JudgeSettings,
    ScoringSettings,
):
    """Every setting of every group, by its own name.

    Each is also a variable `RAG_EVAL_<NAME>` and a key in the file; docs/configuration.md lists
    them. A group may be given as a whole: `RagEvalConfig(sampling=SamplingSettings(...))`, or as a
    table of the file; a setting given by its own name wins over the group.
    """

    def __init__(self, **values: Unpack[ArgumentKeywords]) -> None:
        """Validate the values given; `load` adds those of environment and file.

        Raises:
            ConfigError: A name is unknown or a value is not accepted.
        """
        super().__init__(**ungrouped(values))

    @classmethod
    def load(cls, **explicit: Any) -> RagEvalConfig:
        """Return the settings of this process: explicit values over environment over file.

        Raises:
            ConfigError: A name is unknown, a value is not accepted, or the file is no TOML.
        """
        return cls.load_with_origins(explicit)[0]

    @classmethod
    def load_with_origins(cls, explicit: Mapping[str, Any]) -> tuple[RagEvalConfig, Origins]:
        """Return the settings of this process, and the origin of each that is not a default."""
        values, origins = merged(cls.model_fields, ungrouped(explicit), ungrouped)
        return cls(**values), origins


def ungrouped(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each group replaced by the settings given in it.

    Raises:
        ConfigError: A group is of another type, or one given as a table is not accepted.
    """
    flat: dict[str, Any] = {}
    for keyword, group in GROUPS.items():
        given = values.get(keyword)
        if isinstance(given, Mapping):
            given = group(**given)
        if isinstance(given, group):
            flat |= {name: getattr(given, name) for name in given.model_fields_set}
        elif given is not None:
            raise ConfigError(keyword, type(given).__name__, f"a {group.__name__}")
    return flat | {name: value for name, value in values.items() if name not in GROUPS}

"""Types of settings: each with its check and, in words, the values that it accepts."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo

from rag_eval_hooks.config.removed import unknown_setting
from rag_eval_hooks.config.rules import wanted_in
from rag_eval_hooks.errors import ConfigError, masked

__all__ = [
    "Count",
    "Names",
    "NumberByName",
    "OptionalShare",
    "OptionalText",
    "Redactions",
    "Seconds",
    "SecretByName",
    "SettingsGroup",
    "Share",
    "Switch",
    "TelemetryDetails",
    "Url",
    "Variants",
    "Wants",
    "Weights",
    "is_secret",
    "setting",
    "wants_of",
]


@dataclass(frozen=True, slots=True)
class Wants:
    """Accepted values of a setting, in words for error texts and the documentation.

    Attributes:
        text: The words.
        secret: Whether a refused value must not be shown, although its type does not say so.
    """

    text: str
    secret: bool = False


def _split(value: object) -> object:
    """Split comma-separated text, the form that lists have in environment variables."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _none(value: object) -> object:
    """Read `none` as None, which neither environment variables nor TOML can say."""
    return None if value == "none" else value


def _url(value: str) -> str:
    parts = urlsplit(value)
    # Credentials or a key among the parameters would stand in every error and log.
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise ValueError
    if parts.port == 0 or parts.query:
        raise ValueError
    return value


_Finite = Field(allow_inf_nan=False)
_OrNone = BeforeValidator(_none)

Switch: TypeAlias = Annotated[bool, Wants("true or false")]
Count: TypeAlias = Annotated[int, Field(ge=1), Wants("a whole number, 1 or more")]
Seconds: TypeAlias = Annotated[float, Field(gt=0), _Finite, Wants("seconds, above 0")]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1), Wants("a number from 0 to 1")]
OptionalShare: TypeAlias = Annotated[
    Annotated[float, Field(gt=0, le=1)] | None,
    _OrNone,
    Wants("a number above 0, up to 1, or 'none'"),
]
OptionalText: TypeAlias = Annotated[str | None, _OrNone]
Names: TypeAlias = Annotated[tuple[str, ...], BeforeValidator(_split)]
NumberByName: TypeAlias = dict[str, Annotated[float, _Finite]]
Weights: TypeAlias = Annotated[
    dict[
        Annotated[str, Field(pattern=r"^(graphrag|whitepaper)\.\w+$")],
        Annotated[float, Field(ge=0), _Finite],
    ],
    Wants("numbers, 0 or more, by graphrag.<part> or whitepaper.<part>"),
]
SecretByName: TypeAlias = Annotated[dict[str, SecretStr], Wants("names and values")]
Url: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_url)] | None,
    Wants("a URL without credentials or parameters, such as http://localhost:8000/v1", secret=True),
]
Variants: TypeAlias = Annotated[
    tuple[
        Literal["dont_know_phrases", "rank_aware_precision", "independent_ratings", "single_calls"],
        ...,
    ],
    BeforeValidator(_split),
    Wants(
        "'dont_know_phrases', 'rank_aware_precision', 'independent_ratings' and 'single_calls', "
        "separated by commas"
    ),
]
TelemetryDetails: TypeAlias = Annotated[
    tuple[Literal["judge_calls", "score_events", "event_quotes"], ...],
    BeforeValidator(_split),
    Wants("'judge_calls', 'score_events' and 'event_quotes', separated by commas"),
]
_REDACTIONS = "^(none|all|email|phone(:[A-Z]{2})?|card|iban|key|ip|presidio)$"
Redactions: TypeAlias = Annotated[
    tuple[
        Annotated[str, Field(pattern=_REDACTIONS)],
        ...,
    ],
    BeforeValidator(_split),
]


def setting(default: Any, description: str) -> Any:
    """Return a field with its default and the only description that the setting has."""
    return Field(default, description=description)


def wants_of(field: FieldInfo) -> str:
    """Return the values that a setting accepts, in words."""
    return next(each.text for each in reversed(field.metadata) if isinstance(each, Wants))


def is_secret(field: FieldInfo) -> bool:
    """Return whether a setting's value must never be shown."""
    marked = any(isinstance(each, Wants) and each.secret for each in field.metadata)
    return marked or SecretStr in _types_in(field.annotation)


def _types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from _types_in(part)


class SettingsGroup(BaseModel):
    """Frozen settings whose errors name the setting, the value and what to write instead."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    if not typing.TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            """Validate the values given; variables and files are not looked at.

            Raises:
                ConfigError: A name is unknown or a value is not accepted.
            """
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _config_error(type(self), error, values) from None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Yield all settings. A sink's address may hold a key: the sink refuses it later."""
        for name, value in super().__repr_args__():
            yield name, tuple(map(masked, value)) if name == "sinks" else value

    @field_validator("*", mode="before")
    @classmethod
    def _by_type(cls, value: object, info: ValidationInfo) -> object:
        """Read the text of a mapping, and refuse `True` for a number, which Python allows."""
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and bool not in _types_in(annotation):
            raise ValueError
        if isinstance(value, str) and typing.get_origin(annotation) is dict:
            return _pairs(value)
        return value


def _pairs(text: str) -> dict[str, str]:
    """Read `name=value,name=value`, the form that mappings have in environment variables."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError
    return {name.strip(): value.strip() for name, _, value in pairs}


def _config_error(
    group: type[SettingsGroup], error: ValidationError, values: Mapping[str, Any]
) -> ConfigError:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0])
    if name not in group.model_fields:
        return unknown_setting(name, group.model_fields)
    if (nested := wanted_in(first["loc"], first["type"])) is not None:
        return ConfigError(nested[0], first["input"], nested[1])
    field = group.model_fields[name]
    value, wants = values.get(name), wants_of(field)
    if isinstance(raised := first.get("ctx", {}).get("error"), ConfigError):
        wants = raised.wants
    if isinstance(value, str) and typing.get_origin(field.annotation) is dict:
        wants += "; as text, name=value pairs, separated by commas"
    # A URL without credentials and parameters is shown, as it is no secret.
    hides = is_secret(field) and (SecretStr in _types_in(field.annotation) or _may_hide(value))
    return ConfigError(name, "**********" if hides else value, wants)


def _may_hide(url: object) -> bool:
    """Return whether a URL may hold credentials or parameters."""
    return not isinstance(url, str) or bool(set("@?;=&#").intersection(url))

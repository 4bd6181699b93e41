"""Types of settings, with validation and a description of accepted values."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from rag_eval_hooks.providers import is_url


@dataclass(frozen=True, slots=True)
class Expected:
    text: str


def _no_bool(value: object) -> object:
    """Reject booleans, because pydantic would accept `True` as 1."""
    if isinstance(value, bool):
        raise ValueError
    return value


def _one_item(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _none(value: object) -> object:
    return None if value == "none" else value


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"a regular expression ({error})") from None
    return value


def _url(value: str) -> str:
    if not is_url(value):
        raise ValueError
    return value


ONE_OR_MORE = BeforeValidator(_one_item)
_NoBool = BeforeValidator(_no_bool)
_Finite = Field(allow_inf_nan=False)
_URL = "a URL without credentials or parameters, such as http://localhost:8000/v1"

Switch: TypeAlias = Annotated[bool, Expected("true or false")]
Count: TypeAlias = Annotated[int, _NoBool, Field(ge=1), Expected("a whole number, 1 or more")]
Number: TypeAlias = Annotated[float, _NoBool, _Finite, Expected("a number")]
Seconds: TypeAlias = Annotated[float, _NoBool, _Finite, Field(gt=0), Expected("seconds, above 0")]
Rate: TypeAlias = Annotated[float, _NoBool, Field(ge=0, le=1), Expected("a number from 0 to 1")]
Names: TypeAlias = Annotated[tuple[str, ...], ONE_OR_MORE]
Path: TypeAlias = Annotated[str | None, BeforeValidator(_none), Expected("a path, or 'none'")]
Pattern: TypeAlias = Annotated[str, AfterValidator(_pattern), Expected("a regular expression")]
Secret: TypeAlias = Annotated[SecretStr | None, Expected("a key")]
SecretByName: TypeAlias = Annotated[dict[str, SecretStr], Expected("names and values")]
Url: TypeAlias = Annotated[Annotated[str, AfterValidator(_url)] | None, Expected(_URL)]


def setting(default: Any, description: str, expected: str = "") -> Any:
    return Field(default, description=description, json_schema_extra={"expected": expected})


def expected_by(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and extra["expected"]:
        return str(extra["expected"])
    if typing.get_origin(field.annotation) is typing.Literal:
        *names, last = map(repr, typing.get_args(field.annotation))
        return f"{', '.join(names)} or {last}"
    words = [each.text for each in field.metadata if isinstance(each, Expected)]
    return words[-1] if words else "a value of the setting's type"


def is_mapping(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) is dict or is_typeddict(field.annotation)


def is_secret(field: FieldInfo, value: object) -> bool:
    """Return True if errors must mask the value. A URL without user, query or fragment is safe."""
    if SecretStr in types_in(field.annotation):
        return True
    is_plain = isinstance(value, str) and not set("@?;=&#").intersection(value)
    return expected_by(field) == _URL and not is_plain


def types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from types_in(part)

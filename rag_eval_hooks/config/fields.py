"""Types of settings, with validation."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection, Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, SecretStr
from pydantic.fields import FieldInfo
from typing_extensions import is_typeddict

from rag_eval_hooks.providers import is_url


def _no_bool(value: object) -> object:
    # pydantic would accept `True` as 1.
    if isinstance(value, bool):
        raise ValueError("a number")
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
        raise ValueError(
            "a URL without credentials or parameters, such as http://localhost:8000/v1"
        )
    return value


ONE_OR_MORE = BeforeValidator(_one_item)
_URL = AfterValidator(_url)
_NoBool = BeforeValidator(_no_bool)
_Finite = Field(allow_inf_nan=False)

Count: TypeAlias = Annotated[int, _NoBool, Field(ge=1)]
Number: TypeAlias = Annotated[float, _NoBool, _Finite]
Seconds: TypeAlias = Annotated[float, _NoBool, _Finite, Field(gt=0)]
Rate: TypeAlias = Annotated[float, _NoBool, Field(ge=0, le=1)]
Names: TypeAlias = Annotated[tuple[str, ...], ONE_OR_MORE]
Path: TypeAlias = Annotated[str | None, BeforeValidator(_none)]
Pattern: TypeAlias = Annotated[str, AfterValidator(_pattern)]
Secret: TypeAlias = SecretStr | None
SecretByName: TypeAlias = dict[str, SecretStr]
Url: TypeAlias = Annotated[str, _URL] | None


def setting(default: Any, description: str) -> Any:
    return Field(default, description=description)


def is_mapping(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) is dict or is_typeddict(field.annotation)


def is_secret(field: FieldInfo, value: object) -> bool:
    # A URL with a user, query or fragment may contain a secret.
    types = [*types_in(field.annotation)]
    is_plain = isinstance(value, str) and not set("@?;=&#").intersection(value)
    return SecretStr in types or (_URL in types and not is_plain)


def keys_in(field: FieldInfo) -> Collection[str]:
    """An empty result means that any key is valid."""
    for kind in types_in(field.annotation):
        if is_typeddict(kind) or (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return list(kind.__annotations__)
    return ()


def types_in(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in typing.get_args(annotation):
        yield from types_in(part)

"""Reads question and answer from what LangChain passes around."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langchain_core.prompt_values import PromptValue

from rag_eval_hooks.capture.rows import block_text
from rag_eval_hooks.context import READABLE_MAPPING
from rag_eval_hooks_langchain.structured import as_json, entries, fresh

__all__ = [
    "answer_of",
    "asked_in",
    "lone_text",
    "message_text",
    "message_texts",
    "named",
    "named_answer",
    "other_answers",
    "query_text",
    "question_of",
    "texts_in_state",
    "written",
]

Said: TypeAlias = Callable[[str], bool]

_QUESTION_KEYS = ("question", "query", "input", "user_input", "user_msg")
_SURE_KEYS = ("structured_response", "answer")
_OTHER_KEYS = ("output", "result", "response", "output_text", "generation", "text")
_ANSWER_KEYS = (*_SURE_KEYS, *_OTHER_KEYS)
_PARSED = {"raw", "parsed", "parsing_error"}
_USER = ("user", "human")
_PAIR = 2
_DEEP = 3
"""Mappings in one another in which an answer is looked for."""


def question_of(inputs: Any) -> str | None:
    """Return the question: a text, a known key, the last human message, the only text."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, PromptValue):
        return question_of(inputs.to_messages())
    if isinstance(inputs, BaseMessage):
        return _asked_text(inputs.content)
    if (values := entries(inputs)) is not None:
        found = _first(values, (*_QUESTION_KEYS, "messages"), question_of)
        return found if found is not None else _only_text(values)
    if isinstance(inputs, Sequence):
        asked = (text for item in reversed(inputs) if (text := _human_text(item)))
        return next(asked, None)
    return None


def query_text(query: Any) -> str | None:
    """Return what a retriever was asked, of any type: a mapping by its question, else its text."""
    if query is None or isinstance(query, str):
        return query
    asked = question_of(query)
    return str(query) if asked is None else asked


def asked_in(state: Any) -> str | None:
    """Return the question in a state: under a known key, or as the last human message."""
    if (values := entries(state)) is not None:
        return _first(values, (*_QUESTION_KEYS, "messages"), question_of)
    if isinstance(state, list | tuple):
        return question_of([item for item in state if not isinstance(item, str)])
    return None


def texts_in_state(state: Any) -> Iterator[str]:
    """Yield texts of a state one of which may be the question: no texts in lists but messages."""
    for value in (entries(state) or {}).values():
        text = value if isinstance(value, str) else None
        if isinstance(value, list) and any(isinstance(item, BaseMessage) for item in value):
            text = asked_in(value)
        if text:
            yield text


def answer_of(outputs: Any, given: Any = None, said: Said = lambda _: False) -> str | None:
    """Return the answer: a text, a message, a known key, the last message of a model.

    Args:
        outputs: What the root gave out.
        given: What it was given: what it hands on unchanged is no answer.
        said: Tells whether a model said a text, which then is its own in a user's message, too.
    """
    if isinstance(outputs, str):
        return outputs
    if isinstance(outputs, BaseMessage):
        return message_text(outputs)
    if (values := entries(outputs)) is not None:
        if values.keys() == _PARSED:
            return named_answer(values["parsed"]) or answer_of(values["raw"])
        values = fresh(values, given)
        return _first_answer(values, said)
    if isinstance(outputs, Sequence):
        return _last_answer(outputs, said)
    return None


def other_answers(outputs: Any, given: Any, answer: str | None) -> tuple[str, ...]:
    """Return further texts one of which may be the answer, as the replies of models show.

    Args:
        outputs: What the root gave out.
        given: What it was given.
        answer: What was read in it: without one any text in it may be the answer, beside one
            under a name that leaves doubts those under further names.
    """
    held = entries(outputs)
    if not held:
        return ()
    values = fresh(held, given)
    if not answer:
        return tuple(_texts_in(values, _DEEP))
    texts = {key: text for key, value in values.items() if (text := lone_text(value)).strip()}
    if _first(values, _SURE_KEYS, named_answer):
        return ()
    return tuple(texts[key] for key in _OTHER_KEYS if texts.get(key, answer) != answer)


def _texts_in(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the texts of a mapping and of those in it."""
    for value in values.values():
        if (text := lone_text(value)).strip():
            yield text
        elif isinstance(value, READABLE_MAPPING) and depth:
            yield from _texts_in(value, depth - 1)


def written(values: Mapping[str, Any] | None, final: Any) -> tuple[str, ...]:
    """Return the texts that a step put into a state, under names that leave doubts.

    Args:
        values: Entries that the step gave out, or None.
        final: The state in the end, of which they must still be a part.
    """
    held = entries(final) or {}
    if not values or _first(held, _SURE_KEYS, named_answer):
        return ()
    texts = ((lone_text(value), held.get(key)) for key, value in values.items())
    return tuple(text for text, last in texts if text.strip() and _is_part(text, last))


def _is_part(text: str, value: Any) -> bool:
    return value == text or (isinstance(value, list) and text in value)


def lone_text(value: Any) -> str:
    """Return a text, or the only one of a list; "" for anything else."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, str) else ""


def named(values: Any, key: str, read: Callable[[Any], str | None]) -> str | None:
    """Return the text under a key that the application named, or None."""
    found = (entries(values) or {}).get(key)
    return None if found is None else read(found)


def message_texts(messages: Sequence[Sequence[BaseMessage]]) -> tuple[str, ...]:
    """Return the texts of a chat model's input in order, with those of documents in it."""
    return tuple(_shown_text(message.content) for batch in messages for message in batch)


def _shown_text(content: Any) -> str:
    """Return the text that a message shows a model, search results and documents included."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return _content_text(content)
    texts = (_content_text([block]) or f"\n{block_text(block)}\n" for block in content)
    return "".join(texts)


def message_text(message: BaseMessage) -> str:
    """Return a message's text; of content blocks, the text blocks joined."""
    return _content_text(message.content)


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(_block_texts(content)) if isinstance(content, Sequence) else ""


def _block_texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        text = block.get("text") if isinstance(block, READABLE_MAPPING) else block
        if isinstance(text, str):
            yield text


def _asked_text(content: Any) -> str:
    """Return the text that a user wrote, without that of attached files."""
    if isinstance(content, str) or not isinstance(content, Sequence):
        return _content_text(content)
    return _content_text([b for b in content if _is_written(b)])


def _is_written(block: Any) -> bool:
    return not isinstance(block, READABLE_MAPPING) or block.get("type") in (None, "text")


def _human_text(item: Any) -> str | None:
    """Return the text of a human message: an object, a mapping, or a role and its content."""
    if isinstance(item, HumanMessage):
        return _asked_text(item.content)
    if isinstance(item, READABLE_MAPPING) and (item.get("role") or item.get("type")) in _USER:
        return _asked_text(item.get("content"))
    if isinstance(item, tuple | list) and len(item) == _PAIR and item[0] in _USER:
        return _asked_text(item[1])
    return item if isinstance(item, str) else None


def _last_answer(messages: Sequence[Any], said: Said = lambda _: False) -> str | None:
    """Return the last text of a model after the last question, else that of a tool."""
    tool: str | None = None
    for message in reversed(messages):
        if isinstance(message, AIMessage | AIMessageChunk) and (text := message_text(message)):
            return text
        if isinstance(message, HumanMessage):
            # A graph makes a user's message of a bare text, and an agent's report names its author.
            if (message.name or message is messages[-1]) and said(text := message_text(message)):
                return text
            if not message.name:
                break
        if isinstance(message, ToolMessage):
            tool = tool or message_text(message)
    return tool


def _first(
    values: Mapping[str, Any], keys: Sequence[str], read: Callable[[Any], str | None]
) -> str | None:
    """Return the first text that is not blank; a blank one if there is no other."""
    blank: str | None = None
    for key in keys:
        if key in values and (text := read(values[key])) is not None:
            if text.strip():
                return text
            blank = text if blank is None else blank
    return blank


def _first_answer(values: Mapping[str, Any], said: Said) -> str | None:
    """Return the first answer; a structured value under a doubtful name comes after messages."""
    reads: tuple[tuple[Sequence[str], Callable[[Any], str | None]], ...] = (
        (_SURE_KEYS, named_answer),
        (_OTHER_KEYS, _answer_text),
        (("messages",), partial(answer_of, said=said)),
    )
    texts = (_first(values, keys, read) for keys, read in reads)
    found = next((text for text in texts if text and text.strip()), None)
    return found or _first(values, _ANSWER_KEYS, named_answer)


def named_answer(value: Any) -> str | None:
    """Return the text in a value under the name of an answer; else the value as JSON."""
    text = _answer_text(value)
    return as_json(value) if text is None else text


def _answer_text(value: Any) -> str | None:
    if isinstance(value, str | BaseMessage):
        return answer_of(value)
    if (values := entries(value)) is not None:
        return _first(values, (*_ANSWER_KEYS, "messages"), _text_in) or None
    return _last_answer(value) if isinstance(value, Sequence) else None


def _text_in(value: Any) -> str | None:
    if isinstance(value, str | BaseMessage):
        return answer_of(value)
    return _last_answer(value) if isinstance(value, list | tuple) else None


def _only_text(values: Mapping[str, Any]) -> str | None:
    """Return the only text of a mapping and the mappings in it."""
    texts = [value for value in values.values() if isinstance(value, str)]
    inner = any(isinstance(value, READABLE_MAPPING) and value for value in values.values())
    return texts[0] if len(texts) == 1 and not inner else None

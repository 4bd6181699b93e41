"""What is evidence and what is not: tools that act, personas, a model's own words, wider texts."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from langchain_core.tools import StructuredTool

from tests.matrix.langchain import kit
from tests.matrix.langchain.agents import asks, pick
from tests.matrix.langchain.compat import AGENTS_MISSING, GRAPHS_MISSING, agent
from tests.matrix.langchain.graphs import line
from tests.support.step_texts import FORMS, StepText, step_text
from tests.support.step_texts import beside as unretrieved
from tests.support.variation import Variation, run_seed

GROUP = "texts that may be contexts"
DRAWN = Variation(run_seed() + 11)
NAME, NUMBER = DRAWN.name(), DRAWN.chance.randint(1000, 9999)
TEXT, OTHER, THIRD = DRAWN.passages(3)
QUESTION, ANSWER = DRAWN.question(), DRAWN.sentence()
SUBJECT = DRAWN.sentence(6)
WIDER = f"{OTHER} {TEXT} {THIRD}"
PART = TEXT[: len(TEXT) // 2]
VERDICT = DRAWN.chance.choice([NAME, json.dumps({NAME: OTHER}), f"{QUESTION}\n{QUESTION}"])
LINES = [" ".join(DRAWN.name() for _ in range(5)) for _ in range(2)]
HITS = [f"{QUESTION[: len(QUESTION) // 2]} {one}" for one in LINES]
BOTH = f"{' '.join(LINES)} {TEXT[:20]}"
SAID = f"It is as you said, and this is all of it: {PART}"
DRAFT = f"It is as you said, and all of it has {NUMBER} of {NAME}."
TRANSLATED = f"Das ist alles so, wie du es gesagt hast: Es hat {NUMBER} {NAME}."
FOREIGN = "Das ist alles so, wie du es gesagt hast, und es ist gut."
ODD = f'{OTHER}\n"{THIRD}" & <{NAME}>\tü 水'

Tool = tuple[str, str, Callable[[str], Any]]


def tool_of(name: str, description: str, gives: Callable[[str], Any]) -> StructuredTool:
    def run(query: str) -> Any:
        return gives(query)

    return StructuredTool.from_function(run, name=name, description=description)


def in_turn(*replies: AIMessage | str) -> kit.Chat:
    def reply(messages: list[BaseMessage]) -> AIMessage | str:
        last = max((n for n, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
        done = sum(isinstance(m, AIMessage) for m in messages[last:])
        return replies[min(done, len(replies) - 1)]

    return kit.Chat(reply=reply)


def says(text: str) -> kit.Chat:
    return kit.Chat(reply=lambda _: text)


def agentic(*tools: Tool, said: str, asked: str = "") -> Callable[[], Any]:
    picks = [pick((tool[0], asked or f"{NAME} {n}")) for n, tool in enumerate(tools)]
    return lambda: agent(in_turn(*picks, said), [tool_of(*tool) for tool in tools])


def steps(*nodes: Callable[[Any], dict[str, Any]]) -> Callable[[], Any]:
    return lambda: line({f"{NAME}{n}": node for n, node in enumerate(nodes)}).compile()


def put(key: str, value: Any) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {key: value}


def found(*nodes: Callable[[Any], dict[str, Any]]) -> Callable[[], Any]:
    return steps(put(kit.FOUND, documents(TEXT)), *nodes)


def tell(said: str, *keys: str) -> Callable[[Any], dict[str, Any]]:
    """A node that shows the model values of the state beside the question."""

    def node(state: Any) -> dict[str, Any]:
        parts = [state[key] for key in keys]
        parts = [[*p.values()] if isinstance(p, dict) else p for p in parts]
        texts = [p if isinstance(p, str) else "\n".join(map(str, p)) for p in parts]
        prompt = [SystemMessage("\n\n".join(texts)), HumanMessage(state[kit.ASKED])]
        return {kit.SAID: kit.message_text(says(said).invoke(prompt))}

    return node


def drafting(state: Any) -> dict[str, Any]:
    return {kit.SHOWN: kit.message_text(says(OTHER).invoke(f"Draft: {state[kit.ASKED]}"))}


def documents(*texts: str) -> list[Document]:
    metadata = {"source": f"files/{NAME}.pdf", "pages": [1, 2]}
    return [Document(text, id=f"d{n}", metadata=metadata) for n, text in enumerate(texts)]


BOOK: Tool = ("book_room", "Books a room.", lambda q: f"Room {NUMBER} is booked for {q}: {OTHER}")
CLOCK: Tool = ("get_current_time", "", lambda q: "It is Wednesday the 25th, 14:30 in the city.")
SUM: Tool = (NAME, "Calculates a sum.", lambda q: f"The sum of all the numbers is {NUMBER}.")
HAND: Tool = (f"transfer_to_{NAME}", "", lambda q: f"Successfully transferred the talk to {NAME}.")
TICKET: Tool = (
    "createTicket",
    "Opens a ticket.",
    lambda q: json.dumps({"id": NUMBER, "state": "open", "title": OTHER}, ensure_ascii=False),
)
SAVE: Tool = (NAME, "Saves a preference of the user.", lambda q: f"Saved for {q}: {OTHER}")
NOTHING: Tool = ("search_docs", "", lambda q: f"No results found for {q}.")
BROKEN: Tool = ("search_docs", "", lambda q: "Error: connection to the index timed out, try again.")
SEARCH: Tool = (NAME, "Searches the handbook.", lambda q: TEXT)
DESK: Tool = (f"{NAME}_desk", "", lambda q: TEXT)


def expert(joins: Callable[[str], str]) -> Tool:
    """A tool whose text is what a model in it said, with something around."""
    reply = says(OTHER)
    return "ask_expert", "Asks the expert.", lambda q: joins(kit.message_text(reply.invoke(q)))


def rules_beside(state: Any) -> dict[str, Any]:
    return {kit.FOUND: kit.store(()).as_retriever().invoke(state[kit.ASKED]), kit.SHOWN: OTHER}


def planned(state: Any) -> dict[str, Any]:
    plan = kit.message_text(says(f"{TEXT}\n{OTHER}").invoke(f"Plan: {state[kit.ASKED]}"))
    return {kit.SHOWN: plan.splitlines()}


def feedback(state: Any) -> dict[str, Any]:
    return {kit.SHOWN: f"Your reply was: {state[kit.SHOWN]}\n\nMake it shorter, please."}


def translated(state: Any) -> dict[str, Any]:
    return {kit.SHOWN: kit.message_text(says(TRANSLATED).invoke(f"Auf Deutsch: {state[kit.SAID]}"))}


def checked(verdict: str) -> Callable[[Any], dict[str, Any]]:
    """A node that shows the model a document and the answer."""
    return lambda state: {
        kit.SHOWN: kit.message_text(says(verdict).invoke(f"{TEXT}\n{state[kit.SAID]}"))
    }


def report(state: Any) -> dict[str, Any]:
    own = kit.message_text(says(PART).invoke(f"{TEXT}\n{state[kit.ASKED]}"))
    return {kit.SAID: f"{own}\n\n{state[kit.SHOWN]}"}


def counted(state: Any) -> dict[str, Any]:
    reply = kit.message_text(says(json.dumps({NAME: NUMBER})).invoke(f"{TEXT}\n{state[kit.ASKED]}"))
    return {kit.SHOWN: str(json.loads(reply)[NAME])}


def merged(state: Any) -> dict[str, Any]:
    return {kit.SHOWN: json.dumps({kit.ASKED: OTHER, NAME: int(counted(state)[kit.SHOWN])})}


def as_object(state: Any) -> dict[str, Any]:
    reply = says(json.dumps({NAME: PART, kit.SAID: NUMBER}))
    said = kit.message_text(reply.invoke(f"{TEXT}\n{state[kit.ASKED]}"))
    return {kit.SHOWN: json.loads(said)}


def routed(state: Any) -> dict[str, Any]:
    shown = "\n".join(map(json.dumps, state[kit.FOUND]))
    return {kit.SHOWN: kit.message_text(says(NAME).invoke(f"{shown}\n{state[kit.ASKED]}"))}


NOT_RETRIEVED: dict[str, Callable[[], Any]] = {
    "a booking": agentic(BOOK, said=f"Room {NUMBER} is yours."),
    "a booking in Spanish": agentic((NAME, "Pide una cita.", lambda q: TEXT), said=PART),
    "a booking in German": agentic((NAME, "Löscht einen Termin.", lambda q: TEXT), said=PART),
    "a booking in Russian": agentic((NAME, "Создаёт заявку.", lambda q: TEXT), said=PART),
    "a clock in Chinese": agentic((NAME, "返回当前时间。", lambda q: TEXT), said=PART),
    "a clock and a sum": agentic(CLOCK, SUM, said=f"It is 14:30 and {NUMBER}."),
    "a transfer": agentic(HAND, said=ANSWER),
    "a ticket as JSON": agentic(TICKET, said=f"Ticket {NUMBER} is open."),
    "a saved preference": agentic(SAVE, said=ANSWER),
    "a tool of unknown kind that is not used": agentic(DESK, said=ANSWER),
    "a search that finds nothing": agentic(NOTHING, said="I found nothing, sorry."),
    "a search that fails": agentic(BROKEN, said="I cannot search now, sorry."),
    "a model's text under a heading": agentic(
        expert(lambda text: f"Response 1:\n{text}\n\n---\nEnd of replies."), said=OTHER
    ),
    "a persona": steps(put(kit.SHOWN, OTHER), tell(ANSWER, kit.SHOWN)),
    "a profile": steps(put(kit.FOUND, {"name": NAME, "about": OTHER}), tell(ANSWER, kit.FOUND)),
    "a persona that the answer uses": steps(
        put(kit.FOUND, {NAME: TEXT, "style": f"{OTHER} {THIRD}"}), tell(SAID, kit.FOUND)
    ),
    "rules": steps(put(kit.SHOWN, LINES), tell(ANSWER, kit.SHOWN)),
    "examples": steps(put(kit.SHOWN, [{"text": t} for t in LINES]), tell(ANSWER, kit.SHOWN)),
    "examples for a label": steps(put(kit.SHOWN, HITS), tell(NAME, kit.SHOWN)),
    "choices of a router": steps(
        put(kit.FOUND, [{"id": NAME, "text": t} for t in HITS]), routed, tell(ANSWER, kit.SHOWN)
    ),
    "turns": steps(put(kit.SHOWN, [("user", OTHER), ("ai", THIRD)]), tell(ANSWER, kit.SHOWN)),
    "lines of a plan": steps(planned, tell(ANSWER, kit.SHOWN)),
    "a draft and feedback": steps(drafting, feedback, tell(OTHER[:-1], kit.SHOWN)),
    "a draft that is translated": steps(drafting, tell(ANSWER, kit.SHOWN)),
}


def in_form(write: Callable[[list[str]], str]) -> Callable[[], Any]:
    found: Any = RunnableLambda(lambda _: documents(TEXT, ODD))
    shown: Any = found | (lambda listed: write([d.page_content for d in listed]))
    template = ChatPromptTemplate.from_template(f"{{{kit.SHOWN}}}\n-- {{{kit.ASKED}}}")
    inputs: Any = {kit.SHOWN: shown, kit.ASKED: RunnablePassthrough()}
    return lambda: inputs | template | says(ANSWER) | StrOutputParser()


def as_yaml(texts: Sequence[str]) -> str:
    written = [json.dumps(text)[1:-1].replace(" ", " \\\n    ", 1) for text in texts]
    return "\n".join(f'- "{text}"' for text in written)


RETRIEVED: dict[str, tuple[Callable[[], Any], str, list[str]]] = {
    "a search and a booking": (agentic(SEARCH, BOOK, said=PART), PART, [TEXT]),
    "a search and the time": (agentic(CLOCK, SEARCH, said=PART), PART, [TEXT]),
    "an empty search, then a search": (agentic(NOTHING, SEARCH, said=PART), PART, [TEXT]),
    "a tool of unknown kind that is used": (agentic(DESK, said=PART), PART, [TEXT]),
    "a search that returns a short answer": (
        agentic(
            (NAME, "Searches.", lambda q: f"{q} {NUMBER} {NAME}"), said=str(NUMBER), asked=SUBJECT
        ),
        str(NUMBER),
        [f"{SUBJECT} {NUMBER} {NAME}"],
    ),
    "a stitched passage": (found(put(kit.SHOWN, WIDER), tell(ANSWER, kit.SHOWN)), ANSWER, [WIDER]),
    "documents that a tool returns": (
        agentic((NAME, "", lambda _: documents(TEXT, ODD)), said=ANSWER),
        ANSWER,
        [TEXT, ODD],
    ),
    "short hits that are not used": (
        steps(put(kit.SHOWN, HITS), tell(ANSWER, kit.SHOWN)),
        ANSWER,
        HITS,
    ),
    "a hit next to other hits": (
        steps(put(kit.FOUND, HITS), put(kit.SHOWN, [TEXT]), tell(BOTH, kit.FOUND, kit.SHOWN)),
        BOTH,
        [*HITS, TEXT],
    ),
    "a passage as JSON": (
        steps(put(kit.SHOWN, json.dumps([TEXT], ensure_ascii=False)), tell(PART, kit.SHOWN)),
        PART,
        [TEXT],
    ),
    "a passage next to its prompt": (
        steps(lambda _: {kit.SHOWN: TEXT, kit.FOUND: f"{THIRD}\n{TEXT}"}, tell(PART, kit.SHOWN)),
        PART,
        [TEXT],
    ),
    "rows with a score": (
        steps(put(kit.SHOWN, [(TEXT, 0.5), ({"text": OTHER}, 0.4)]), tell(PART, kit.SHOWN)),
        PART,
        [TEXT, OTHER],
    ),
    "an empty retrieval next to rules": (steps(rules_beside, tell(ANSWER, kit.SHOWN)), ANSWER, []),
    "documents as JSON": (in_form(json.dumps), ANSWER, [TEXT, ODD]),
    "documents as YAML": (in_form(as_yaml), ANSWER, [TEXT, ODD]),
    "documents as HTML": (in_form(lambda t: html.escape("\n".join(t))), ANSWER, [TEXT, ODD]),
    "documents in tags": (
        in_form(lambda t: "".join(f'<{NAME} about="{PART}">{one}</{NAME}>' for one in t)),
        ANSWER,
        [TEXT, ODD],
    ),
    "documents as Python writes them": (in_form(repr), ANSWER, [TEXT, ODD]),
    "a check after the answer": (found(tell(PART, kit.FOUND), checked(VERDICT)), PART, [TEXT]),
    "a verdict after the answer": (
        found(tell(SAID, kit.FOUND), checked(f"{NUMBER}: the {NAME} has all of it.")),
        SAID,
        [TEXT],
    ),
    "a translated answer": (found(tell(DRAFT, kit.FOUND), translated), TRANSLATED, [TEXT]),
    "a verdict in another language": (found(tell(SAID, kit.FOUND), checked(FOREIGN)), SAID, [TEXT]),
    "a report of two replies": (found(drafting, report), f"{PART}\n\n{OTHER}", [TEXT]),
    "a number parsed from a reply": (found(counted, tell(PART, kit.SHOWN)), PART, [TEXT]),
    "a reply merged into JSON": (found(merged, tell(ANSWER, kit.SHOWN)), ANSWER, [TEXT]),
    "a reply that stays an object": (found(as_object), PART, [TEXT]),
    "passages by id": (
        steps(put(kit.SHOWN, {"d1": TEXT, "d2": THIRD}), tell(ANSWER, kit.SHOWN)),
        ANSWER,
        [TEXT, THIRD],
    ),
    "a passage as a message": (steps(put(kit.SHOWN, [TEXT]), tell(PART, kit.SHOWN)), PART, [TEXT]),
}


def beside(one: StepText, said: str) -> Callable[[], Any]:
    """A step finds something beside the documents, and the model is shown both."""

    def tell_both(state: Any) -> dict[str, Any]:
        prompt = f"{kit.joined(state[kit.FOUND])}\n\n{one.written}\n-- {state[kit.ASKED]}"
        return {kit.SAID: kit.message_text(says(said).invoke(prompt))}

    return found(put(kit.SHOWN, one.value), tell_both)


for _form in DRAWN.chance.sample(list(FORMS), 4):
    _one = step_text(DRAWN, _form)
    _said = _one.answer(DRAWN)
    RETRIEVED[f"{_form} next to a document"] = beside(_one, _said), _said, [TEXT, *_one.shown]
for _form, _one in unretrieved(DRAWN).items():
    _said = DRAWN.sentence()
    RETRIEVED[f"{_form} next to a document"] = beside(_one, _said), _said, [TEXT]


def register(
    name: str, build: Callable[[], Any], said: str = "", contexts: list[str] | None = None
) -> None:
    kind = build.__qualname__.partition(".")[0]
    kinds: dict[str, tuple[Callable[[str], Any], str | None]] = {
        "agentic": (asks, AGENTS_MISSING),
        "steps": (lambda question: {kit.ASKED: question}, GRAPHS_MISSING),
        "in_form": (str, None),
    }
    inputs, missing = kinds[kind]
    told: dict[str, Any] = {"contexts": lambda _: contexts, "answer": lambda _: said}
    told |= {"captured": contexts is not None, "questions": [QUESTION], "spans": None}
    kit.shape(GROUP, name, ways=kit.GRAPH_WAYS[:7], inputs=inputs, missing=missing, **told)(build)


for _name, _build in NOT_RETRIEVED.items():
    register(_name, _build)
for _name, _row in RETRIEVED.items():
    register(_name, *_row)

"""Check the words of pages, docstrings, comments and messages: `python tools/prose.py [PATH...]`.

The rules are in prose.toml. An error fails the check. `--warnings` also prints the warnings.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

STYLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
Text = tuple[int, str]


def texts_of_page(source: str) -> Iterator[Text]:
    """Yield paragraphs, list items and table cells of a Markdown page, without its code."""
    source = re.sub(
        r"^ *```.*?^ *```", lambda m: "\n" * m[0].count("\n"), source, flags=re.M | re.S
    )
    start, lines = 1, list[str]()
    for number, line in enumerate([*source.splitlines(), ""], 1):
        if not line.strip() or re.match(r"\s*([-*#|>]|\d+\.)", line):
            yield start, " ".join(lines)
            start, lines = number, []
        if line.lstrip().startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|"))
        elif line.strip():
            lines.append(line.strip())


def texts_of_code(source: str) -> Iterator[Text]:
    """Yield the paragraphs of docstrings, the comments and the messages of a module."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if not isinstance(node, ast.Constant | ast.JoinedStr) or id(node) in inner:
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(p.value) if isinstance(p, ast.Constant) else "x" for p in parts)
        if id(node) in docstrings:
            yield from ((node.lineno, part) for part in re.split(r"\n\s*\n|\n +(?=\w+: )", text))
        elif len(text.split()) > 3 and "\\w" not in text:  # skip regular expressions
            yield node.lineno, text
    for block in re.finditer(r"(?:(?:^|\s)# .*\n?)+", source):
        yield source.count("\n", 0, block.end()), re.sub(r"\s*# ", " ", block[0])


def problems(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each problem of a text. The flag is True for an error, False for a warning."""
    plain = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+", " x ", text)
    plain = " ".join(re.sub(r"^\s*\w+: ", "", plain).split())  # Remove an argument's name.
    for pattern, better in STYLE["substitutions"].items():
        for match in re.finditer(rf"\b(?:{pattern})\b", plain, re.I):
            yield True, f"'{match[0]}': write {better}"
    for pattern in STYLE["headless"]:
        for match in re.finditer(pattern, plain):
            yield True, f"'{match[0].strip()}': name the noun"
    for sentence in re.split(r"(?<=[.!?:;]) (?=\S)", plain):
        words = len(re.findall(r"\b\w[\w'-]*", sentence))
        if words > STYLE["words"]["warning"]:
            yield words > STYLE["words"]["error"], f"{words} words: {sentence[:60]}"
    for match in re.finditer(STYLE["passive"], plain):
        yield False, f"'{match[0]}': name the actor"


def main(arguments: list[str]) -> int:
    """Print the problems of the files. Return 1 if a problem is an error."""
    root = Path(__file__).parent.parent
    chosen = [Path(part) for part in arguments if not part.startswith("-")]
    files = chosen or sorted({path for part in STYLE["files"] for path in root.glob(part)})
    counts = {True: 0, False: 0}
    for path in files:
        texts = texts_of_code if path.suffix == ".py" else texts_of_page
        for line, text in texts(path.read_text("utf-8")):
            for is_error, problem in problems(text):
                counts[is_error] += 1
                if is_error or "--warnings" in arguments:
                    print(f"{path}:{line}: {'error' if is_error else 'warning'}: {problem}")
    print(f"{len(files)} files, {counts[True]} errors, {counts[False]} warnings")
    return int(counts[True] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

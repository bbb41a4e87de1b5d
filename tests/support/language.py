"""Print how plainly the code is written: counts by room, and their totals.

    python -m tests.support.language
    python -m tests.support.language /path/to/another/checkout
    python -m tests.support.language --sample 30 --seed 1

Counted are docstrings that begin with a relative word instead of a verb or a noun, the verb "tell",
phrases of the old dialect, and functions named by one preposition, pronoun or adjective.
``--sample`` prints texts drawn at random for a reader who has not seen the code: a third each of
docstrings (with the signature and the first line of the module, as an editor shows them), errors
and paragraphs of pages.  ``tests/test_house.py`` keeps the totals below their limits.
"""

import argparse
import ast
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.support.house import ROOT, TOPS, nodes, room_of, sources

#: Words with which a docstring does not begin.
RELATIVE = {"What", "Those", "Whether", "That", "Which", "Who", "Of", "So", "Where"}
_TELL = re.compile(r"\b(?:told|tells?|telling)\b", re.IGNORECASE)
_PHRASE = re.compile(
    r"\bthat there (?:is|are)\b|\bso many\b|\bin the place of\b|\bwhoever\b|\bthose of\b"
    r"|\blikewise\b|\bgone on\b|\bwhose like\b",
    re.IGNORECASE,
)
#: Words that are no name of a function on their own.
_NO_NAME = re.compile(
    r"of|at|in|on|by|to|for|from|with|within|beside|among|between|beyond|behind|before|"
    r"after|under|over|above|below|up|off|out|into|onto|per|about|around|against|along|"
    r"during|since|until|via|than|as|and|or|not|alike|some|apart|least|most|whole|there|"
    r"those|these|that|this|such|same|other|others|any|all|each|every|both|alone|many|"
    r"much|more|few|own|told|likewise|together|here|when|where|who|what|which|whose|how|"
    r"near|far|only|even|still|again|once|else|well|better|worse"
)
COUNTS = ("lines", "docstrings", "relative", "tell", "phrases", "names")


def docstrings(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each module, class and function of a file."""
    for node in nodes(file):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "name", "module"), text


def errors(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the line and the source of each error that a file raises with a text of its own."""
    text = file.read_text(encoding="utf-8")
    for node in nodes(file):
        if not isinstance(node, ast.Call) or "Error" not in ast.unparse(node.func):
            continue
        if any(isinstance(argument, ast.Constant | ast.JoinedStr) for argument in node.args):
            yield f"line {node.lineno}", ast.get_source_segment(text, node) or ""


def counts(root: Path = ROOT) -> dict[str, Counter[str]]:
    """Return the counts of each room of a checkout."""
    found: dict[str, Counter[str]] = {}
    for top in TOPS:
        for file in sources(top, root):
            room = found.setdefault(room_of(file.relative_to(root)), Counter())
            text = file.read_text(encoding="utf-8")
            room["lines"] += text.count("\n")
            room["tell"] += len(_TELL.findall(text))
            room["phrases"] += len(_PHRASE.findall(text))
            for _, docstring in docstrings(file):
                room["docstrings"] += 1
                room["relative"] += docstring.split(maxsplit=1)[0].strip(",.:;") in RELATIVE
            for node in nodes(file):
                if isinstance(node, ast.FunctionDef):
                    room["names"] += bool(_NO_NAME.fullmatch(node.name.strip("_")))
    return found


def signed_docstrings(file: Path) -> Iterator[tuple[str, str]]:
    """Yield each signature of a file and its docstring, below the summary of the module."""
    about = ""
    for node in nodes(file):
        if isinstance(node, ast.Module):
            about = (ast.get_docstring(node) or "").partition("\n")[0]
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            signature = f"class {node.name}"
            if isinstance(node, ast.FunctionDef):
                result = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
                signature = f"def {node.name}({ast.unparse(node.args)}){result}"
            yield f"module: {about}", f"{signature}\n{ast.get_docstring(node)}"


def paragraphs(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the last heading and the text of each paragraph of a page."""
    heading = ""
    for block in re.split(r"```.*?```|\n\s*\n", file.read_text(encoding="utf-8"), flags=re.DOTALL):
        text = block.strip()
        if text.startswith("#"):
            heading = text
        elif len(text) > 100 and text[0] not in "|<!":
            yield heading, text


def sample(number: int, seed: int, root: Path = ROOT) -> list[str]:
    """Return texts drawn at random: a third each of docstrings, errors and paragraphs."""
    files = [file for top in TOPS for file in sources(top, root)]
    pages = [root / "README.md", *(root / "docs").rglob("*.md")]
    draw = random.Random(seed)
    chosen = []
    for kind, places in ((signed_docstrings, files), (errors, files), (paragraphs, sorted(pages))):
        pool = [
            f"{file.relative_to(root)}, {name}:\n{text}"
            for file in places
            for name, text in kind(file)
        ]
        chosen += draw.sample(pool, number // 3)
    return chosen


def main() -> None:
    """Print the counts of a checkout, or a sample."""
    parser = argparse.ArgumentParser(description="Count how plainly the code is written.")
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--sample", type=int, metavar="N", help="print N texts drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.sample:
        print("\n\n".join(sample(options.sample, options.seed, options.checkout)))
        return
    found = counts(options.checkout)
    found["total"] = sum(found.values(), Counter())
    print(f"{'room':32}", *(f"{count:>10}" for count in COUNTS))
    for room, counted in found.items():
        print(f"{room:32}", *(f"{counted[count]:10,}" for count in COUNTS))


if __name__ == "__main__":
    main()

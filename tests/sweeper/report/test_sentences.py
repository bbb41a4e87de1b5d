"""Sentences are templates: each is filled in with exactly its fields, and each is used."""

import ast
from pathlib import Path
from string import Formatter

from dimsweep.sweeper.report import sentences

SWEEPER = Path(sentences.__file__).resolve().parents[1]
TEMPLATES = {
    name: {field for _, field, _, _ in Formatter().parse(template) if field is not None}
    for name, template in vars(sentences).items()
    if isinstance(template, sentences.Sentence)
}


def _uses() -> list[tuple[str, ast.AST, ast.Call | None]]:
    """The name of each template that is used, where, and the call that fills it in."""
    found = []
    for file in sorted(SWEEPER.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "sentences" not in text:
            continue
        tree = ast.parse(text)
        calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
            if name in TEMPLATES and not isinstance(getattr(node, "ctx", None), ast.Store):
                found.append((name, node, calls.get(id(node))))
    return found


def test_each_sentence_is_filled_in_with_exactly_its_fields() -> None:
    wrong = [
        (name, [keyword.arg for keyword in call.keywords])
        for name, _, call in _uses()
        if call is not None and {keyword.arg for keyword in call.keywords} != TEMPLATES[name]
    ]
    assert not wrong


def test_each_sentence_is_used() -> None:
    assert TEMPLATES.keys() - {name for name, *_ in _uses()} == set()


def test_no_sentence_has_a_full_stop() -> None:
    assert not [name for name in TEMPLATES if getattr(sentences, name).endswith(".")]


def test_what_says_nothing_is_left_out() -> None:
    assert sentences.join("", "a", "", "b") == "a; b"
    assert sentences.capitalise("message by message") == "Message by message"

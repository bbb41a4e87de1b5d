"""Files and texts as nobody wrote them: bytes, values, keys, cells, columns, changed at random."""

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

JUNK = (
    *(b"", b"\0", b"\xff" * 9, b"\x80\x80\x80", b"-1", b"1e999", b"1e-20", b"nan", b"null", b"[]"),
    *(b"inf", b".inf", b"1.0e+999"),
    *(b"{", b"[[1], 2]", b'"', b"[bold]", b"\x1b[31m", b",", b"\n", b"9" * 40, b"\xe9"),
    *(b"[" * 1500, b'{"a":' * 1500, b"&a [*a]", b"true", b"0", b":", b"<", b"&#0;", b"1.5"),
)
NUMBERS = (0, 1, -1, 2, 7, 2**31, 2**63, 2**70, 1e300, -1e300, 1e-300, -0.5, 0.0, -0.0)
VALUES = (
    *NUMBERS,
    *(float("nan"), float("inf"), -float("inf"), None, True, False),
    *("", "x", "nan", "inf", "-1 GB/s", "1e999 ns", "2:30", "\u0000", "é" * 300),
    *([], {}, [1], [[]], {"x": 1}, [None]),
)
Mutation = Callable[[random.Random, bytes], bytes]


def of_bytes(draw: random.Random, whole: bytes) -> bytes:
    """Bytes that are flipped, cut out, doubled or exchanged for what some reader dislikes."""
    data = bytearray(whole)
    for _ in range(draw.randint(1, 3)):
        at, length = draw.randrange(len(data) + 1), draw.randint(0, 8)
        data[at : at + length] = draw.choice([*JUNK, bytes(data[at : at + 40]), bytes([at % 256])])
    return bytes(data)


def of_values(draw: random.Random, whole: bytes) -> bytes:
    """JSON, one document or several, of which values are left out or exchanged for others, keys
    missing, renamed or there twice, and words of texts likewise."""
    documents = list(_documents(whole.decode()))
    at = draw.randrange(len(documents))
    if len(documents) > 1 and draw.random() < 0.2:
        documents[at : at + 1] = draw.choice([[], [documents[at]] * 2])
        return "\n".join(map(json.dumps, documents)).encode()
    content = documents[at] = _changed(draw, documents[at])
    texts = [json.dumps(each) for each in documents]
    if draw.random() < 0.05 and isinstance(content, dict) and content:  # a key that is there twice
        name = draw.choice([*content])
        texts[at] = f"{{{json.dumps(name)}: {json.dumps(draw.choice(VALUES))}, {texts[at][1:]}"
    return "\n".join(texts).encode()


def _documents(text: str) -> Iterator[Any]:
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        document, at = decoder.raw_decode(text, at)
        yield document


def of_yaml(draw: random.Random, whole: bytes) -> bytes:
    """YAML, changed as :func:`of_values` does; its comments, which Hydra reads too, stay."""
    head = b"".join(line for line in whole.splitlines(keepends=True) if line.startswith(b"#"))
    content = _changed(draw, yaml.safe_load(whole))
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    if draw.random() < 0.05 and (keys := [line for line in text.splitlines() if ":" in line]):
        text += draw.choice(keys).strip() + "\n"  # a key that is there twice, or out of its place
    return head + text.encode()


def of_cells(draw: random.Random, whole: bytes) -> bytes:
    """CSV of which cells are exchanged, columns or lines left out or doubled."""
    rows = list(csv.reader(io.StringIO(whole.decode())))
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(rows))
        column = draw.randrange(max(map(len, rows)) or 1)
        kind = draw.random()
        if kind < 0.6 and column < len(rows[at]):
            rows[at][column] = _word(draw, rows[at][column])
        elif kind < 0.7:
            rows = [row[:column] + row[column + 1 :] for row in rows]
        elif kind < 0.8:
            rows = [[*row, *row[column : column + 1]] for row in rows]
        elif kind < 0.9 and len(rows) > 1:
            rows.pop(at)
        else:
            rows.insert(at, list(rows[at]))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def of_words(draw: random.Random, whole: bytes) -> bytes:
    """A text of which words are exchanged, left out or doubled."""
    lines = [line.split(" ") for line in whole.decode().split("\n")]
    for _ in range(draw.randint(1, 3)):
        words = draw.choice([line for line in lines if line])
        at = draw.randrange(len(words)) if words else 0
        words[at : at + 1] = draw.choice(
            [[], words[at : at + 1] * 2, *[[_word(draw, w) for w in words[at : at + 1]]] * 3]
        )
        if not words:
            words.append("")
    return "\n".join(" ".join(line) for line in lines).encode("utf-8", "surrogatepass")


def of_columns(draw: random.Random, whole: bytes) -> bytes:
    """Parquet of which columns are left out, renamed, doubled, of another type, without values, or
    with values that no sweep writes."""
    rows = pq.read_table(pa.BufferReader(whole))
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(rows.num_columns)
        name, column = rows.column_names[at], rows.column(at)
        kind = draw.choice(
            ["drop", "rename", "double", "cast", "null", "some", "value", "value", "rows"]
        )
        if kind == "drop" and rows.num_columns > 1:
            rows = rows.remove_column(at)
        elif kind == "rename":
            rows = rows.rename_columns(
                [f"{each}_" if each == name else each for each in rows.column_names]
            )
        elif kind == "double":
            rows = rows.append_column(name, column)
        elif kind == "rows":
            n = draw.choice([0, 1, len(rows)])
            rows = pa.concat_tables([rows.slice(0, n), rows.slice(0, draw.choice([0, n]))])
        else:
            rows = rows.set_column(at, name, _column(draw, kind, column))
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return sink.getvalue().to_pybytes()


def _column(draw: random.Random, kind: str, column: pa.ChunkedArray) -> pa.Array:
    values = column.to_pylist()
    if kind == "cast":
        return pa.array(
            draw.choice(
                [
                    [str(value) for value in values],
                    [float("nan")] * len(values),
                    [i for i, _ in enumerate(values)],
                    [[1.0, 2.0]] * len(values),
                    [{"x": 1}] * len(values),
                    [b"\xff\0"] * len(values),
                    [True] * len(values),
                    [None] * len(values),
                ]
            )
        )
    if kind == "null":
        return pa.nulls(len(values), column.type)
    at = draw.randrange(len(values)) if values else 0
    changed = None if kind == "some" else draw.choice(VALUES)
    places = {at} if draw.random() < 0.5 else set(range(len(values)))
    try:
        given = [changed if i in places else value for i, value in enumerate(values)]
        return pa.array(given, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.nulls(len(values), column.type)


FORMS: dict[str, Mutation] = {
    ".json": of_values,
    ".plain": of_values,
    ".jsonl": of_values,
    ".yaml": of_yaml,
    ".yml": of_yaml,
    ".csv": of_cells,
    ".parquet": of_columns,
    ".txt": of_words,
    ".py": of_words,
    ".sql": of_words,
}
WHOLE = {".plain", ".parquet"}  # what no byte of is changed: plain data of Python, rows of a part


def changed(draw: random.Random, name: str, whole: bytes) -> bytes:
    """A file of that name, changed by what it holds, or else byte by byte."""
    ending = name[name.rindex(".") :]
    structured = FORMS.get(ending)
    if structured is None or not whole or (ending not in WHOLE and draw.random() < 0.25):
        return of_bytes(draw, whole)
    return structured(draw, whole)


def _changed(draw: random.Random, content: Any) -> Any:
    """Plain data of which some values are exchanged, left out, or under another key."""
    for _ in range(draw.randint(1, 3)):
        inside, key = content, None
        while isinstance(inside, dict | list) and inside and (key is None or draw.random() < 0.9):
            outside = inside
            key = draw.choice([*(outside if isinstance(outside, dict) else range(len(outside)))])
            inside = outside[key]
        if key is None:
            return draw.choice(VALUES)
        if draw.random() < 0.15:
            outside.pop(key)
        elif isinstance(outside, dict) and draw.random() < 0.05:
            outside[draw.choice([*map(str, VALUES), *outside])] = outside.pop(key)
        elif isinstance(inside, str) and draw.random() < 0.7:
            words = inside.split(" ")
            at = draw.randrange(len(words))
            words[at] = _word(draw, words[at])
            outside[key] = " ".join(words)
        elif isinstance(inside, list) and inside and draw.random() < 0.5:
            outside[key] = draw.choice([inside * 2, inside[:-1], [*inside, draw.choice(VALUES)]])
        elif isinstance(inside, int | float) and draw.random() < 0.5:
            outside[key] = draw.choice([*NUMBERS, inside + 1, -inside, str(inside)])
        else:
            outside[key] = draw.choice(VALUES)
    return content


def _word(draw: random.Random, word: str) -> str:
    """Another word in its place, or the same with another number in it."""
    digits = [i for i, letter in enumerate(word) if letter.isdigit()]
    if digits and draw.random() < 0.5:
        at = draw.choice(digits)
        other = draw.choice(["", "0", "-1", "9" * 20, ".", "e400", "1:30"])
        return word[:at] + other + word[at + 1 :]
    return str(draw.choice([*VALUES, *",=:.~+[](){}'\"$#%\\/*"]))

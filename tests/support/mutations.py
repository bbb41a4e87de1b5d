"""Files as nobody wrote them, and what a reader must make of them."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from engine import DimsweepError

JUNK = (
    *(b"", b"\0", b"\xff" * 9, b"\x80\x80\x80", b"-1", b"1e999", b"1e-20", b"nan", b"null", b"[]"),
    *(b"inf", b".inf", b"1.0e+999"),
    *(b"{", b"[[1], 2]", b'"', b"[bold]", b"\x1b[31m", b",", b"\n", b"9" * 40, b"\xe9"),
    *(b"[" * 1500, b'{"a":' * 1500, b"&a [*a]", b"true", b"0", b":", b"<", b"&#0;", b"1.5"),
)
VALUES = (
    0,
    1,
    -1,
    2**70,
    1e300,
    -0.5,
    float("nan"),
    float("inf"),
    None,
    True,
    "",
    "x",
    [],
    {},
    [1],
)


def of_bytes(draw: random.Random, whole: bytes) -> bytes:
    """Bytes that are flipped, cut out, doubled or exchanged for what some reader dislikes."""
    data = bytearray(whole)
    for _ in range(draw.randint(1, 3)):
        at, length = draw.randrange(len(data) + 1), draw.randint(0, 8)
        data[at : at + length] = draw.choice([*JUNK, bytes(data[at : at + 40]), bytes([at % 256])])
    return bytes(data)


def of_values(draw: random.Random, whole: bytes) -> bytes:
    """JSON of which values are left out or exchanged for others, and words of texts likewise."""
    content = json.loads(whole)
    for _ in range(draw.randint(1, 3)):
        inside, key = content, None
        while isinstance(inside, dict | list) and inside and (key is None or draw.random() < 0.9):
            outside = inside
            key = draw.choice([*(outside if isinstance(outside, dict) else range(len(outside)))])
            inside = outside[key]
        if key is None or draw.random() < 0.2:
            outside.pop(key)
        elif isinstance(inside, str) and draw.random() < 0.7:
            words = inside.split(" ")
            words[draw.randrange(len(words))] = str(draw.choice(VALUES))
            outside[key] = " ".join(words)
        else:
            outside[key] = draw.choice(VALUES)
    return json.dumps(content).encode()


def end_in_a_sentence(
    seed: str,
    whole: bytes,
    file: Path,
    read: Callable[[Path], object],
    times: int,
    mutate: Callable[[random.Random, bytes], bytes] = of_bytes,
) -> None:
    """Read ``times`` mutations of a file.  Each ends in what it says or in a
    :class:`DimsweepError`."""
    draw, told = random.Random(seed), 0
    for _ in range(times):
        data = mutate(draw, whole)
        file.write_bytes(data)
        try:
            read(file)
        except DimsweepError as error:
            told += 1
            assert error.what.strip(), bytes(data)[:300]
        except Exception as error:
            raise AssertionError(f"{error!r} of {bytes(data)[:400]!r}") from error
    assert told > times // 20, "these were no mutations"

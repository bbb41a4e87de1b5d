"""Files as nobody wrote them, and what a reader must make of them."""

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


def end_in_a_sentence(
    seed: str, whole: bytes, file: Path, read: Callable[[Path], object], times: int
) -> None:
    """Read ``times`` mutations of a file: bytes are flipped, cut out, doubled or exchanged for what
    some reader dislikes.  Each ends in what it says or in a :class:`DimsweepError`."""
    draw, told = random.Random(seed), 0
    for _ in range(times):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            at, length = draw.randrange(len(data) + 1), draw.randint(0, 8)
            data[at : at + length] = draw.choice(
                [*JUNK, bytes(data[at : at + 40]), bytes([at % 256])]
            )
        file.write_bytes(data)
        try:
            read(file)
        except DimsweepError as error:
            told += 1
            assert error.what.strip(), bytes(data)[:300]
        except Exception as error:
            raise AssertionError(f"{error!r} of {bytes(data)[:400]!r}") from error
    assert told > times // 10, "these were no mutations"

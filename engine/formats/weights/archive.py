"""Zip archives of weights, their largest size, and conversion of floats that NumPy lacks."""

import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dimsweep.engine.errors import DimsweepError

MOST_BYTES = 4 << 30
# Damaged or encrypted archives, unknown compressions, and invalid headers of arrays.
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError),
    *(ValueError, tokenize.TokenError),
)


def check_size(n_bytes: int, where: str = "") -> None:
    """Raise :class:`DimsweepError` if ``n_bytes`` exceeds :data:`MOST_BYTES`."""
    if n_bytes > MOST_BYTES:
        problem = f"{n_bytes / 2**30:.3g} GiB of weights; the limit is {MOST_BYTES >> 30} GiB"
        raise DimsweepError(
            problem, where=where, hint="save fewer layers, or narrower numbers", code="too-many"
        )


@contextmanager
def opened(path: Path, noun: str, hint: str = "") -> Iterator[zipfile.ZipFile]:
    """Open the zip archive ``path``, which errors call ``noun``.

    Raises :class:`DimsweepError` for an archive that is damaged, or larger than :data:`MOST_BYTES`
    when it is unpacked, and converts errors about damage while its content is read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            check_size(sum(entry.file_size for entry in archive.infolist()))
            yield archive
    except _DAMAGED as error:
        problem = f"it is not a valid {noun}: {error or type(error).__name__}"
        raise DimsweepError(problem, hint=hint, code="bad-syntax") from error


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return bfloat16 values as float32: each is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def from_float8(bits: NDArray[np.uint8], exponent: int) -> NDArray[np.float32]:
    """Return 8-bit floats as float32; ``exponent`` is the number of exponent bits, 5 or 4.

    E5M2 is the upper half of a float16.  E4M3 has a bias of 7, no infinity, and one NaN of each
    sign (Micikevicius et al., FP8 formats for deep learning, 2022).
    """
    if exponent == 5:
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    sign = np.where(bits & 0x80, -1.0, 1.0)
    power, mantissa = bits >> 3 & 0xF, bits & 7
    size = np.where(power, np.ldexp(8.0 + mantissa, power.astype(int) - 10), mantissa * 2.0**-9)
    return np.where(bits & 0x7F == 0x7F, np.nan, sign * size).astype(np.float32)

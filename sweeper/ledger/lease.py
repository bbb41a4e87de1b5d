"""The lease that keeps a second sweep out of a study where there are no locks: on object stores.

    lease-00001.json    who writes the study, and a number that changes with every beat

A lease is made only if there is none of its name yet, and the newest one counts.  A sweep renews
its lease every few seconds.  One that does not change for a while is a dead sweep's, and the next
sweep makes a newer one; should the first be alive after all, it sees that and stops.
"""

import json
import os
import secrets
import socket
import time
from contextlib import suppress

from dimsweep.engine import DimsweepError
from dimsweep.sweeper.ledger.place import Place, create, entries, reaching, read, write

BEAT = 3.0  # seconds
PATIENCE = 5  # beats without a sign of life


class Lease:
    """The lease of ``folder``, this process's until it is released or not renewed in time.

    ``notes`` say whose it was, if it was taken from a sweep that seems dead.  Raises
    :class:`DimsweepError` if another sweep has it, and :class:`OSError` if the folder cannot be
    written.
    """

    def __init__(self, folder: Place) -> None:
        self._folder, self._token, self._beats = folder, secrets.token_hex(8), 0
        self.notes: list[str] = []
        while not self._taken():
            pass
        for older in _leases(folder):
            if older.name < self._file.name:
                older.unlink(missing_ok=True)

    def renew(self) -> bool:
        """Show that this sweep lives; whether the lease is still its own."""
        newest = next(reversed(_leases(self._folder)), None)
        if newest is None or newest.name != self._file.name or not self._is_mine():
            return False
        self._beats += 1
        write(self._file, self._text())
        return True

    def release(self) -> None:
        """Let others write.  If that fails, they will once the lease is old."""
        with suppress(OSError), reaching(self._folder):
            if self._is_mine():
                self._file.unlink(missing_ok=True)

    def _taken(self) -> bool:
        """Try to take the lease; it fails if another takes it in the same moment."""
        newest = next(reversed(_leases(self._folder)), None)
        number = 1
        if newest is not None:
            who, alive = _watched(newest)
            if alive:
                raise DimsweepError(
                    "another sweep is writing this study", where=str(self._folder), hint=who
                )
            self.notes.append(f"the sweep that wrote this study before seems dead: {who}")
            number += int(newest.stem.removeprefix("lease-"))
        self._file = self._folder / f"lease-{number:05d}.json"
        try:
            create(self._file, self._text())
        except NotImplementedError as error:
            raise OSError("this file system cannot make a file only if there is none") from error
        except OSError:
            if not self._file.exists():
                raise
        if not _leases(self._folder):
            raise OSError(f"{self._file} was written, and is not there")
        return self._is_mine()  # also where a lost answer was asked for once more

    def _is_mine(self) -> bool:
        try:
            return bool(_content(self._file).get("token") == self._token)
        except FileNotFoundError:
            return False

    def _text(self) -> bytes:
        who = f"process {os.getpid()} on {socket.gethostname()}"
        return json.dumps({"who": who, "token": self._token, "beats": self._beats}).encode()


def _leases(folder: Place) -> list[Place]:
    return [file for file in entries(folder) if file.name.startswith("lease-")]


def _watched(lease: Place) -> tuple[str, bool]:
    """Whose the lease is, and whether it is renewed."""
    try:
        before = _content(lease)
        who = f"its lease {lease} is that of {before.get('who')}"
        end = time.monotonic() + PATIENCE * BEAT
        while time.monotonic() < end:
            time.sleep(BEAT / 2)
            if _content(lease) != before:
                return who, True
    except FileNotFoundError:  # it was released
        return f"its lease {lease} is gone", False
    return f"{who}, and was not renewed in {PATIENCE * BEAT:.0f} s", False


def _content(lease: Place) -> dict[str, object]:
    try:
        content = json.loads(read(lease).to_pybytes())
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}

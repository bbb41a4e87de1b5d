"""What a sweep does every few seconds for a study that lies on an object store."""

import threading

from dimsweep.sweeper.ledger import lease
from dimsweep.sweeper.ledger.place import Place, reaching
from dimsweep.sweeper.ledger.sink import ObjectSink


class Keeper:
    """Holds the lease of ``folder``, and saves the log, in a thread of its own.

    Raises what :class:`Lease` does.
    """

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._lease = lease.Lease(folder)
        self.notes = self._lease.notes
        self._logs: list[ObjectSink] = []
        self._lost, self._failures = False, 0
        self._error: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="dimsweep-lease", daemon=True)
        self._thread.start()

    def sink(self, path: Place) -> ObjectSink:
        """Where the bytes of the log at ``path`` go."""
        sink = ObjectSink(path, self._is_ours)
        self._logs = [each for each in self._logs if not each.closed] + [sink]
        return sink

    def release(self) -> None:
        """Let others write the study."""
        self._stop.set()
        self._thread.join()
        self._lease.release()

    def _is_ours(self) -> bool:
        """Whether no other sweep has taken the study over; raises :class:`OSError` if the store has
        not been reached for longer than others wait."""
        if self._failures >= lease.PATIENCE:
            raise OSError(f"{self._folder} cannot be reached: {self._error}") from self._error
        return not self._lost

    def _keep(self) -> None:
        while not self._stop.wait(lease.BEAT) and not self._lost:
            try:
                with reaching(self._folder):
                    self._lost = not self._lease.renew()
                    for log in self._logs if not self._lost else ():
                        log.save()
                self._failures = 0
            except Exception as error:  # told by the thread that writes rows
                self._error, self._failures = error, self._failures + 1

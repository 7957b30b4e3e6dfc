"""A folder in which the worker processes of an application see each other.

Each worker has a file of one record, mapped into its memory and locked as long as the worker lives. The
kernel lets go of the lock when the worker dies, however it dies; the next reader removes the file.
Times are those of CLOCK_MONOTONIC, which the processes of a host share.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import tempfile
import time
import zlib
from pathlib import Path
from typing import List, Optional, Union

from ._report import Report

_RECORD = struct.Struct("<dQqqqq")
"""The level; requests; the longest latency, and until when it is in the window; the beginning of the oldest
unfinished request; the last end of a request. A time that there is none of is -1."""
_SUM = struct.Struct("<I")
_SIZE = _RECORD.size + _SUM.size
_PREFIX = "worker-"
_READS_MOST = 100


class WorkerFolder:
    """The records of all workers, and the one of this process."""

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self._folder = Path(folder)
        self._own: Optional[Path] = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            # Whether the folder takes files is a matter of this moment, not of the first request.
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise ValueError(
                f"workers: {str(folder)!r} cannot be used: {error.strerror}; "
                "give a folder in which the workers may write, on a file system in memory"
            ) from error

    @property
    def has_joined(self) -> bool:
        """Whether this process has a record."""
        return self._own is not None

    def join(self) -> None:
        """Makes a record for this process."""
        # The file gets its name when it is locked: without a lock it would be that of a dead worker.
        self._file, path = tempfile.mkstemp(prefix=f".{_PREFIX}", dir=self._folder)
        # Memory that a full file system could not give at the first write would kill the process.
        os.posix_fallocate(self._file, 0, _SIZE)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._memory = mmap.mmap(self._file, _SIZE)
        own = self._folder / os.path.basename(path)[1:]
        os.rename(path, own)
        self._own = own

    def leave(self) -> None:
        """Lets go of the record. A process that was forked leaves that of its parent so."""
        if self._own is not None:
            self._own = None
            self._memory.close()
            os.close(self._file)

    def write(
        self,
        report: Report,
        now_ns: int,
        kept_ns: int,
        oldest_ns: Optional[int],
    ) -> None:
        """Publishes this worker's report, how long its latency holds, and the age of its oldest request."""
        record = _RECORD.pack(
            report.service_level,
            report.requests,
            -1 if report.latency_ns is None else report.latency_ns,
            now_ns + kept_ns,
            -1 if oldest_ns is None else now_ns - oldest_ns,
            -1 if report.age_ns is None else now_ns - report.age_ns,
        )
        self._memory[:] = record + _SUM.pack(zlib.crc32(record))

    def others(self, deadline_ns: int, now_ns: int) -> List[Report]:
        """The reports of the other workers that live."""
        reports = []
        for path in self._folder.glob(f"{_PREFIX}*"):
            if path != self._own:
                record = _read(path)
                if record is not None:
                    reports.append(_report(record, deadline_ns, now_ns))
        return reports


def _read(path: Path) -> Optional[bytes]:
    """The record of a worker; none, and no file any more, of one that is dead."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _whole_record(file)
        path.unlink(missing_ok=True)
        return None
    finally:
        os.close(file)


def _whole_record(file: int) -> Optional[bytes]:
    """The record, read again where the worker wrote meanwhile; none before the worker's first."""
    for _ in range(_READS_MOST):
        content = os.pread(file, _SIZE, 0)
        record = content[: _RECORD.size]
        if len(content) == _SIZE and _SUM.pack(zlib.crc32(record)) == content[_RECORD.size :]:
            return record
        if not any(content):
            return None
        time.sleep(0)
    return None


def _report(record: bytes, deadline_ns: int, now_ns: int) -> Report:
    level, requests, latency_ns, until_ns, start_ns, end_ns = _RECORD.unpack(record)
    latencies = [latency_ns] if latency_ns >= 0 and now_ns < until_ns else []
    if start_ns >= 0 and now_ns - start_ns > deadline_ns:
        latencies.append(now_ns - start_ns)
    age_ns = None if end_ns < 0 else max(0, now_ns - end_ns)
    return Report(level, max(latencies, default=None), deadline_ns, requests, age_ns)

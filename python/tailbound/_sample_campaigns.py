"""Campaigns of ``tailbound sample`` on several hosts: a part of the campaign on each, one at a time.

Points are timed, so two of them never run on one host at once. A worker measures a part while it holds a lock of its
host; whoever shares a host with it waits, whichever cluster or process sent the work.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import io
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from ._executors import Executor, _is_of_dask
from ._optional import need
from ._times import refuse

_LOCK_FILE = "tailbound-sampling.lock"
# What `tailbound sample` ends with where a condition has no answer, and where all have one.
_MEASURED = (0, 2)


@dataclass(frozen=True)
class CampaignPart:
    """A part of a campaign that was measured on one host."""

    values: Mapping[str, str]
    """The values of axes that the part is restricted to."""
    host: str
    """The name of the host that measured it."""
    folder: Path
    """The data set of the part, which :func:`read` takes."""


def sample(
    file: Union[str, "os.PathLike[str]"],
    out: Union[str, "os.PathLike[str]"],
    by: Mapping[str, Sequence[str]],
    executor: Executor,
    program: str = "tailbound",
    arguments: Sequence[str] = (),
) -> list[CampaignPart]:
    """Measures the campaign of a description in parts, each on one host of a cluster.

    Parameters
    ----------
    file:
        The description. All files of its folder are sent to the hosts, without the folder ``out``.
    out:
        The folder of the parts. A part that is there already is not measured again.
    by:
        The axis that divides the campaign, with its values: ``{"services.web.users.count": ["30", "60"]}``. Each value is
        a part. Points of different parts are compared across hosts, which is fair where the hosts are alike.
    executor:
        Who measures: the ``distributed.Client`` of a Dask cluster, ``"ray"``, or a ``concurrent.futures.Executor``.
    program:
        The command ``tailbound`` on the hosts.
    arguments:
        Further arguments of ``tailbound sample``, such as ``["--time-budget", "1h"]``.

    One point is measured at a time on a host, even if several workers live there.
    """
    if len(by) != 1:
        raise refuse("a campaign is divided by one axis; give one key with its values")
    ((key, values),) = by.items()
    if not values:
        raise refuse(f"the axis {key!r} has no values")
    description, folder = Path(file), Path(out)
    if not description.is_file():
        raise refuse(f"{description} is no file")
    parcel = _packed(description, folder)
    orders = [
        (parcel, description.name, program, (f"{key}={value}", *arguments)) for value in values
    ]
    parts = [CampaignPart({key: value}, "", folder / _folder_name(value)) for value in values]
    missing = [place for place, part in enumerate(parts) if not _is_whole(part.folder)]
    for place, (host, measured) in _measured(executor, [orders[place] for place in missing]):
        part = parts[missing[place]]
        _unpack(measured, part.folder)
        (part.folder / "host").write_text(host + "\n")
    return [
        CampaignPart(part.values, (part.folder / "host").read_text().strip(), part.folder)
        for part in parts
    ]


Order = tuple[bytes, str, str, tuple[str, ...]]
"""The packed folder, the description's name, the program, and its arguments."""
Outcome = tuple[str, bytes]
"""The host, and the packed data set."""


def _measured(executor: Executor, orders: list[Order]) -> Iterator[tuple[int, Outcome]]:
    if executor == "ray":
        yield from _by_ray(orders)
        return
    if _is_of_dask(executor, "Client"):
        executor = _DaskHosts(executor)
    elif not hasattr(executor, "submit"):
        raise refuse(
            f"{executor!r} measures nothing; give a concurrent.futures.Executor, a Dask Client or \"ray\""
        )
    futures = {executor.submit(measure_part, *order): place for place, order in enumerate(orders)}
    try:
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


class _DaskHosts:
    """One worker for each host of a Dask cluster, so that no other worker waits for the lock of a host."""

    def __init__(self, client: Any) -> None:
        self.executor = client.get_executor(pure=False, workers=one_worker_a_host(client))

    def submit(self, function: Any, /, *arguments: Any) -> Any:
        return self.executor.submit(function, *arguments)


def one_worker_a_host(client: Any) -> list[str]:
    """The address of one worker on each host of a Dask cluster."""
    first: dict[str, str] = {}
    for address, host in sorted(client.run(socket.gethostname).items()):
        first.setdefault(host, address)
    return list(first.values())


def _by_ray(orders: list[Order]) -> Iterator[tuple[int, Outcome]]:
    ray = need("ray", 'executor="ray"')
    if not ray.is_initialized():
        ray.init()
    remote = ray.remote(measure_part)
    # Tasks go to all nodes; two on one node take turns by its lock.
    waiting = {
        remote.options(scheduling_strategy="SPREAD").remote(*order): place
        for place, order in enumerate(orders)
    }
    try:
        while waiting:
            finished, _ = ray.wait(list(waiting))
            for one in finished:
                yield waiting.pop(one), ray.get(one)
    finally:
        for one in waiting:
            ray.cancel(one)


def measure_part(
    parcel: bytes, description: str, program: str, arguments: tuple[str, ...]
) -> Outcome:
    """Measures a part of a campaign on this host, when nobody else does: what workers are asked for."""
    with host_lock(), tempfile.TemporaryDirectory(prefix="tailbound-part") as place:
        folder = Path(place)
        _unpack(parcel, folder)
        out = folder / "measured"
        command = [program, "sample", description, "--out", str(out), "--only", *arguments]
        ended = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if ended.returncode not in _MEASURED:
            last = ended.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            raise RuntimeError(f"{socket.gethostname()}: {' '.join(command)}: {last[0]}")
        return socket.gethostname(), _packed_folder(out)


@contextmanager
def host_lock() -> Iterator[None]:
    """Waits until nobody else measures on this host, and holds others up until the end."""
    path = os.path.join(tempfile.gettempdir(), _LOCK_FILE)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _folder_name(value: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in value)


def _is_whole(folder: Path) -> bool:
    return (folder / "datapackage.json").is_file() and (folder / "host").is_file()


def _packed(description: Path, out: Path) -> bytes:
    """The folder of a description, without the results."""
    return _packed_folder(description.parent, out.resolve())


def _packed_folder(folder: Path, without: Optional[Path] = None) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path in sorted(folder.iterdir()):
            if without is None or path.resolve() != without:
                archive.add(path, arcname=path.name)
    return packed.getvalue()


def _unpack(packed: bytes, folder: Path) -> None:
    """Unpacks into a folder, whole or not at all."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        # Members cannot leave the folder where Python has filters of members.
        options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(partial, **options)
    if folder.exists():
        for path in partial.iterdir():
            shutil.move(str(path), str(folder / path.name))
        partial.rmdir()
    else:
        partial.rename(folder)

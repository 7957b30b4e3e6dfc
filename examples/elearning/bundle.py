#!/usr/bin/env python3
"""Prints the configuration of a container (OCI runtime specification 1.0) that runs one server of the example.

Usage: bundle.py CGROUP REPOSITORY FOLDER PROGRAM [ARGUMENT...]
"""

import json
import os
import sys

# What the programs of the servers need of root before they become another account.
CAPABILITIES = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]


def bound(path: str, *options: str) -> dict:
    """A part of the host's file system at its own place."""
    return {
        "destination": path,
        "type": "bind",
        "source": path,
        "options": ["rbind", "nosuid", *options],
    }


def mounts(repository: str, folder: str) -> list:
    """The host's programs, the example and its folder."""
    # Where /bin and its like are links into /usr, a mount at the link's place is that of the folder behind it.
    programs = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc"]
    present = [path for path in programs if os.path.isdir(path)]
    own = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {
            "destination": "/dev",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "mode=755"],
        },
        {
            "destination": "/dev/shm",
            "type": "tmpfs",
            "source": "shm",
            "options": ["nosuid", "nodev", "mode=1777"],
        },
        {
            "destination": "/tmp",
            "type": "tmpfs",
            "source": "tmpfs",
            "options": ["nosuid", "nodev", "mode=1777"],
        },
    ]
    return [
        *own,
        *(bound(path, "ro") for path in present),
        bound(repository, "ro"),
        bound(folder, "rw"),
    ]


def configuration(cgroup: str, repository: str, folder: str, command: list) -> dict:
    """The configuration of a container with this command."""
    kinds = ["pid", "mount", "ipc", "uts"]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": "rootfs"},
        "hostname": cgroup,
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": command,
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {
                kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")
            },
        },
        "mounts": mounts(repository, folder),
        "linux": {
            "cgroupsPath": f"/{cgroup}",
            "namespaces": [{"type": kind} for kind in kinds],
            "resources": {},
        },
    }


def main() -> None:
    """Prints the configuration."""
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    cgroup, repository, folder, *command = sys.argv[1:]
    print(json.dumps(configuration(cgroup, repository, folder, command), indent=1))


if __name__ == "__main__":
    main()

"""A Slurm of one node on this machine, started for the tests: munged, slurmctld and slurmd in a folder of their own."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo", "squeue")
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 60.0
CONFIG = """
ClusterName=tangokg
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,batch_sched_delay=0
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SYSTEM}")
    if found is None:
        pytest.skip(f"Slurm ({name}) is not installed: jobs are not run. On Debian: apt-get install slurm-wlm munge.")
    return found


def _free_ports() -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _make_folders(folder: Path) -> None:
    for name in ("munge", "state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    (folder / "munge").chmod(0o755)
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which ``sbatch`` and ``srun`` find the node."""
    programs = {name: _program(name) for name in PROGRAMS}
    folder = Path(tempfile.mkdtemp(prefix="tangokg-slurm-"))
    _make_folders(folder)
    user, host = ("root" if os.geteuid() == 0 else os.environ.get("USER", "root")), platform.node().partition(".")[0]
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(host=host, ports=_free_ports(), user=user, folder=folder))
    path = f"{os.environ.get('PATH', '')}:{SYSTEM}"
    environment = {**os.environ, "PATH": path, "SLURM_CONF": str(config)}
    munge = folder / "munge"
    own = [f"--{name}-file={munge}/{name}" for name in ("key", "log", "pid", "seed")]
    commands = [
        [programs["munged"], "--foreground", "--force", "--num-threads=2", f"--socket={munge}/socket", *own],
        [programs["slurmctld"], "-D", "-f", str(config)],
        [programs["slurmd"], "-D", "-f", str(config), "-N", host],
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            with (folder / f"{Path(command[0]).name}.out").open("wb") as out:
                daemons.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))
            time.sleep(0.5)
        _await_idle(programs["sinfo"], environment, folder)
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        shutil.rmtree(folder, ignore_errors=True)


def _await_idle(sinfo: str, environment: dict[str, str], folder: Path) -> None:
    """Wait for the node; without one the logs say why."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = subprocess.run([sinfo, "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
        if done.stdout.strip() == "idle":
            return
        time.sleep(0.5)
    logs = [
        path.read_text(errors="replace")[-1500:]
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".log", ".out")
    ]
    raise AssertionError("\n".join([done.stdout, done.stderr, *logs]))

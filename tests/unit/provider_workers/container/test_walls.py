"""What a child of the keeper has left: tried by a program that does what SQLite cannot be made to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
PROGRAM = """
import ctypes, json, os, socket, sys
from provider_workers.container import walls
size = walls.size()
missing = walls.leave()
mine, theirs = socket.socketpair()
secret = open('/dev/null') if os.path.exists('/dev/null') else None
pid = os.fork()
if pid == 0:
    mine.close()
    walls.shut(theirs.fileno(), cpu_s=2, memory_bytes=size + 256 * 1024 * 1024)
    def attempt(what):
        try:
            what()
            return 'done'
        except MemoryError:
            return 'MemoryError'
        except OSError as error:
            return type(error).__name__
    said = {
        'open': attempt(lambda: open('/etc/passwd')),
        'create': attempt(lambda: open('/tmp/x', 'w')),
        'environ': attempt(lambda: open('/proc/self/environ')),
        'fork': attempt(os.fork),
        'exec': attempt(lambda: os.execv('/bin/sh', ['sh'])),
        'socket': attempt(lambda: socket.socket()),
        'kill': attempt(lambda: os.kill(os.getppid(), 0)),
        'memory': attempt(lambda: bytearray(512 * 1024 * 1024)),
        'stderr': attempt(lambda: os.write(2, b'x')),
        'ptrace': 'done' if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 else 'refused',
    }
    theirs.sendall(json.dumps(said).encode())
    os._exit(0)
theirs.close()
sys.stdout.write(json.dumps([json.loads(mine.recv(65536)), missing, os.getuid()]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the walls are Linux's")
def test_a_child_reaches_no_file_no_network_no_process_and_no_memory_beyond_its_own():
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        check=True,
    )
    said, missing, uid = json.loads(ran.stdout)
    assert said.pop("memory") == "MemoryError"
    assert set(said.values()) <= {"PermissionError", "OSError", "refused", "BlockingIOError"}
    # What this machine does not let us have is named, and the other walls stood all the same.
    assert "seccomp" not in missing
    assert uid != 0

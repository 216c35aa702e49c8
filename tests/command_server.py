"""A `bertworks` that starts at once: importing PyTorch takes seconds, and the documentation has over a hundred commands.

One process imports everything and then waits. The command `bertworks` of a test is a few lines that hand their arguments,
folder, environment and open files to it; it forks, and the copy is the command. It has not begun any thread by then, so
that a copy is as good as a new process. A signal to stop is passed on, so that a server can be ended as usual.

    python -m tests.command_server SOCKET
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path

CLIENT = """#!{python} -SE
import array, json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
said = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
server.sendmsg([len(said).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
server.sendall(said)
copy = int.from_bytes(server.recv(4), "big")
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(copy, number))
code = server.recv(1)
sys.exit(code[0] if code else "the command ended without a word")
"""


def write_client(path: Path, address: Path) -> None:
    """A program that has the server at `address` run its arguments."""
    path.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    path.chmod(0o755)


def serve(address: str) -> None:
    """Answer until killed."""
    import sklearn.linear_model
    import torch

    import bertworks.cli.main
    import bertworks.infer.loaded
    import bertworks.infer.predict

    del torch, sklearn, bertworks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the copies
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            become(connection)
        connection.close()


def become(connection: socket.socket) -> None:
    """Be the command that the other end asks for."""
    from bertworks.cli.main import main

    code = 1
    try:
        files = array.array("i")
        length, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * files.itemsize))
        for _, _, data in ancillary:
            files.frombytes(data)
        said = connection.makefile("rb").read(int.from_bytes(length, "big"))
        arguments, folder, environment = json.loads(said)
        connection.sendall(os.getpid().to_bytes(4, "big"))
        for number, file in enumerate(files):
            if file != number:  # it may have been given the place that it shall have, where that was free
                os.dup2(file, number)
                os.close(file)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - ours may have been closed from the start
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):
                stream.flush()
        connection.sendall(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])

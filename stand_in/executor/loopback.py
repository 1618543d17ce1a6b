"""Runs a program whose listening sockets can only be on loopback, whatever address it asks for.

Run as `python loopback.py COMMAND...`, never imported. Triton's SageMaker front end listens on 0.0.0.0 and has no
option for another address. A seccomp filter hands every bind() of the program to this process, which writes 127.0.0.1
over the address and lets the call go on (seccomp_unotify(2), Linux 5.5; no privilege needed). It is no security
boundary: the program is one that we start ourselves. Ends with the program, with its exit status, 128 + n for signal n.
"""

from __future__ import annotations

import array
import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct
import sys
import threading

# number of bind(2), AUDIT_ARCH (linux/audit.h), number of seccomp(2)
MACHINES = {"x86_64": (49, 0xC000003E, 317), "aarch64": (200, 0xC00000B7, 277)}
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER = 1, 8
SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
# struct seccomp_notif: id, pid, flags, then seccomp_data: nr, arch, instruction pointer, six arguments
NOTIFICATION = struct.Struct("=QII iIQ6Q")
# struct seccomp_notif_resp: id, val, error, flags
RESPONSE = struct.Struct("=QqiI")
RECEIVE, SEND = (0xC0000000 | size << 16 | ord("!") << 8 | number for number, size in ((0, 80), (1, 24)))
CONTINUE = 1
# Their first two bytes are the address family in the machine's order; the address lies 4 or 8 bytes in.
LOOPBACK: dict[int, tuple[int, bytes]] = {
    socket.AF_INET: (4, socket.inet_aton("127.0.0.1")),
    socket.AF_INET6: (8, bytes(15) + b"\1"),
}


def main() -> int:
    """Start the program, watch over its bind() calls, return its exit status."""
    if platform.machine() not in MACHINES:
        print(f"loopback: no system call numbers for {platform.machine()}", file=sys.stderr)
        return 2
    ours, childs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _become(sys.argv[1:], childs)
    childs.close()
    _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: os.kill(child, received))
    if descriptors:
        threading.Thread(target=_watch, args=(descriptors[0],), daemon=True).start()
        ours.send(b"1")
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: list[str], channel: socket.socket) -> None:
    """Never returns: install the filter, hand its listener over, become `command`."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        socket.send_fds(channel, [b"1"], [_filter(libc)])
        channel.recv(1)
        os.execvp(command[0], command)
    except OSError as error:
        print(f"loopback: cannot run {command[0]} on loopback only: {error}", file=sys.stderr, flush=True)
    os._exit(2)


def _filter(libc: ctypes.CDLL) -> int:
    """Install a filter that reports bind() alone; returns the descriptor of its listener. Raises OSError."""
    bind, architecture, seccomp = MACHINES[platform.machine()]
    load, jump_equal, give = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 4),  # seccomp_data.arch
        (jump_equal, 0, 2, architecture),
        (load, 0, 0, 0),  # seccomp_data.nr
        (jump_equal, 1, 0, bind),
        (give, 0, 0, SECCOMP_RET_ALLOW),
        (give, 0, 0, SECCOMP_RET_USER_NOTIF),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = libc.syscall(seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, program)
    if listener < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"this kernel gives no seccomp listener ({os.strerror(number)})")
    return int(listener)


def _watch(listener: int) -> None:
    """Answer each reported bind(): rewrite its address, then let it go on."""
    while True:
        received = array.array("B", bytes(NOTIFICATION.size))
        try:
            fcntl.ioctl(listener, RECEIVE, received)
            number, pid, _, _, _, _, _, address, length, *_ = NOTIFICATION.unpack(received)
            fcntl.ioctl(listener, SEND, RESPONSE.pack(number, 0, *_verdict(pid, address, length)))
        except FileNotFoundError:
            continue  # the thread that called is gone
        except OSError:
            return  # no process with the filter is left


def _verdict(pid: int, address: int, length: int) -> tuple[int, int]:
    """(error, flags) of the answer to a bind() by process `pid` of the socket address in its memory."""
    try:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:  # noqa: PTH123 -- unbuffered, both ways
            memory.seek(address)
            family = int.from_bytes(memory.read(min(length, 2)), sys.byteorder)
            if family in LOOPBACK:
                offset, bytes_ = LOOPBACK[family]
                memory.seek(address + offset)
                memory.write(bytes_)
    except OSError as error:
        return -(error.errno or 1), 0
    return 0, CONTINUE


if __name__ == "__main__":
    sys.exit(main())

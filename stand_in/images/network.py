"""A network of its own for a host on this machine: loopback, and from it only to what is let in.

A namespace without a name and without interfaces to others: it ends with the last process in it, and nothing in it
reaches anything but the ports that are carried. Carrying needs no address outside of loopback: a socket belongs to the
namespace that it was made in, so this process holds ends in both.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
PIECE_BYTES = 256 * 1024
BACKLOG = 256
LOOPBACK = "127.0.0.1"
Made = TypeVar("Made")


class OwnNetwork:
    """A network namespace, and the connections that are carried in and out of it until `close()`."""

    def __init__(self, *, reachable: Iterable[int]) -> None:
        """Make it. Raises OSError where the kernel refuses.

        :param reachable: ports of this machine's loopback, which are the same ports of the namespace's own
        """
        self._carriers: list[_Carrier] = []
        self._namespace = _aside(_new_namespace)
        try:
            for port in reachable:
                listener = _aside(partial(_listener, port), self._namespace)
                self._carriers.append(_Carrier(listener, partial(_connected, port)))
        except BaseException:
            self.close()
            raise

    def enter(self) -> list[str]:
        """What goes before a command that is to run in it."""
        return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{self._namespace}", "--"]

    def publish(self, port: int) -> int:
        """A free port of this machine's loopback that leads to a port of the namespace's.

        A connection to a port that nothing listens on is reset.
        """
        listener = _listener(0)
        self._carriers.append(_Carrier(listener, partial(_aside, partial(_connected, port), self._namespace)))
        found: int = listener.getsockname()[1]
        return found

    def close(self) -> None:
        """End all connections; the namespace itself ends with the processes in it."""
        for carrier in self._carriers:
            carrier.close()
        self._carriers.clear()
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1


class _Carrier:
    """Carries what comes in at `listener` to what `connect` makes, and back."""

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener = listener
        self._connect = connect
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False
        threading.Thread(target=self._accept, name="carrier", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            sockets = [self._listener, *self._open]
        for one in sockets:
            # Closing alone wakes nobody who waits for it.
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near,), name="carried", daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        try:
            far = self._connect()
        except OSError:
            # A reset, not an end: as far as it can be told now, the connection was refused.
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            near.close()
            return
        with near, far:
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                if self._closed:
                    return
                self._open |= {near, far}
            back = threading.Thread(target=_pump, args=(far, near), name="carried back", daemon=True)
            back.start()
            _pump(near, far)
            back.join()
            with self._lock:
                self._open -= {near, far}


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Until the source ends, which the target is told; a broken one breaks the other, too."""
    try:
        while piece := source.recv(PIECE_BYTES):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


def _aside(action: Callable[[], Made], namespace: int | None = None) -> Made:
    """Do it in a thread of its own, which ends with it: it may have left this process's network for another."""

    def there() -> Made:
        if namespace is not None:
            _call("setns", namespace, CLONE_NEWNET)
        return action()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(there).result()


def _new_namespace() -> int:
    """The descriptor of a namespace whose loopback is up, in which the calling thread is from now on."""
    _call("unshare", CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _listener(port: int) -> socket.socket:
    return socket.create_server((LOOPBACK, port), backlog=BACKLOG)


def _connected(port: int) -> socket.socket:
    return socket.create_connection((LOOPBACK, port), timeout=None)

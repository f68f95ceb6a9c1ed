# What programs do with a granted host at 127.0.0.1, whose port is the first word. The server says `hello`.
import asyncio
import os
import select
import socket
import struct
import sys
import threading

ADDRESS = ("127.0.0.1", int(sys.argv[1]))


def hello(s):
    s.setblocking(True)
    return s.recv(9) == b"hello"


def mapped():
    s = socket.socket(socket.AF_INET6)
    s.connect(("::ffff:127.0.0.1", ADDRESS[1]))
    return s.family == socket.AF_INET6 and s.getpeername()[0] == "::ffff:127.0.0.1" and hello(s)


def without_waiting():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(ADDRESS)
    poll = select.poll()
    poll.register(s, select.POLLOUT)
    return poll.poll(5000) != [] and s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0 and hello(s)


# Event loops that register a socket before they connect it, and others after.
def registered(before):
    s = socket.socket()
    s.setblocking(False)
    epoll = select.epoll()
    if before:
        epoll.register(s.fileno(), select.EPOLLIN | select.EPOLLET)
    s.connect_ex(ADDRESS)
    if not before:
        epoll.register(s.fileno(), select.EPOLLIN | select.EPOLLET)
    found = epoll.poll(5)
    epoll.modify(s.fileno(), select.EPOLLOUT)
    writable = epoll.poll(5)
    epoll.unregister(s.fileno())
    return found == [(s.fileno(), select.EPOLLIN)] and writable == [(s.fileno(), select.EPOLLOUT)] and hello(s)


def options():
    s = socket.socket()
    linger = struct.pack("ii", 1, 7)
    wanted = [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        (socket.SOL_SOCKET, socket.SO_RCVBUF, 20000),
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77),
        (socket.IPPROTO_IP, socket.IP_TOS, 16),
    ]
    for level, name, value in wanted:
        s.setsockopt(level, name, value)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    before = [s.getsockopt(level, name) for level, name, _ in wanted]
    os.set_inheritable(s.fileno(), True)
    s.connect(ADDRESS)
    after = [s.getsockopt(level, name) for level, name, _ in wanted]
    same = before == after and s.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == linger
    return same and os.get_inheritable(s.fileno()) and s.getblocking() and hello(s)


def flags():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(ADDRESS)
    return not os.get_inheritable(s.fileno()) and not os.get_blocking(s.fileno())


def again():
    s = socket.socket()
    s.connect(ADDRESS)
    try:
        s.connect(ADDRESS)
    except OSError as error:
        return error.errno == 106 and hello(s)


async def streams():
    reader, writer = await asyncio.open_connection(*ADDRESS)
    word = await reader.read(9)
    writer.close()
    return word == b"hello"


def own_server():
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
    return hello(socket.create_connection(server.getsockname(), 5))


def own_datagrams():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(server.getsockname())
    s.send(b"hello")
    return hello(server)


# More than wait at one time for one thread each.
def many():
    found = []

    def one():
        for _ in range(20):
            with socket.create_connection(ADDRESS, 20) as s:
                found.append(hello(s))
    threads = [threading.Thread(target=one) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return found.count(True) == 320


PROGRAMS = {
    "waiting": lambda: hello(socket.create_connection(ADDRESS, 5)),
    "mapped": mapped,
    "without waiting": without_waiting,
    "registered before": lambda: registered(True),
    "registered after": lambda: registered(False),
    "options": options,
    "flags": flags,
    "connected again": again,
    "asyncio": lambda: asyncio.run(streams()),
    "its own server": own_server,
    "its own datagrams": own_datagrams,
    "many": many,
}

for name, program in PROGRAMS.items():
    try:
        print("ok" if program() else "WRONG", name, flush=True)
    except OSError as error:
        print("WRONG", name, error, flush=True)

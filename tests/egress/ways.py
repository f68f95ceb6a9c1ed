# The ways out of a network of single hosts. Each is a function that returns true if it led out; an error means that it
# was held. What arrives at the test's own servers counts whatever is returned here. The words of the command line are
# the port of the granted server, that of the closed one (TCP, on every address of the machine), that of the closed
# one for datagrams, the machine's address in its network, and a unix socket.
import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import sys
import threading

GRANTED, CLOSED, DATAGRAMS = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
LAN, UNIX = sys.argv[4], sys.argv[5]
libc = ctypes.CDLL(None, use_errno=True)
INET, INET6 = socket.AF_INET, socket.AF_INET6
FASTOPEN = 0x20000000
ROUNDS = 300


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def tcp(host, port, family=INET, protocol=0, blocking=True):
    s = socket.socket(family, socket.SOCK_STREAM, protocol)
    s.settimeout(5 if blocking else 0)
    s.connect((host, port))
    return True


def udp(host, port, family=INET):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(0.2)
    s.sendto(b"x", (host, port))
    return s.recv(9)


def granted():
    return socket.create_connection(("127.0.0.1", GRANTED), 5)


def packed(port):
    return struct.pack("=H", INET) + struct.pack("!H4s8x", port, socket.inet_aton("127.0.0.1"))


def question(name, kind=16):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def resolver():
    for line in open("/etc/resolv.conf"):
        words = line.split()
        if words[:1] == ["nameserver"]:
            return words[1]
    return "127.0.0.1"


def names(server, family=INET):
    s = socket.socket(INET6 if ":" in server else family, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.sendto(question("c2VjcmV0.tunnel.test"), (server, 53))
    answer = s.recv(512)
    return answer[3] & 15 == 0 or struct.unpack("!H", answer[6:8])[0] > 0


def names_by_connection():
    s = socket.create_connection((resolver(), 53), 5)
    asked = question("c2VjcmV0.tunnel.test")
    s.sendall(struct.pack("!H", len(asked)) + asked)
    return s.makefile("rb").read(8)[5] & 15 == 0


def disconnected(s):
    checked(libc.connect(s.fileno(), bytes(16), 16))
    return True


# To a socket that is not connected any more.
def led_elsewhere(s):
    libc.connect(s.fileno(), bytes(16), 16)
    s.connect(("127.0.0.1", CLOSED))
    return True


# A port is opened on a socket of the machine's network.
def opened(s):
    libc.connect(s.fileno(), bytes(16), 16)
    return checked(libc.listen(s.fileno(), 1))


# A socket of the machine's network that is not connected: granted, and nothing listens there.
def failed():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", GRANTED + 1))
    select.select([], [s], [], 5)
    return s


# The first call hears of the failure.
def fast_again():
    s = failed()
    for _ in range(3):
        try:
            s.sendto(b"x", FASTOPEN, ("127.0.0.1", CLOSED))
        except ConnectionRefusedError:
            pass
        except BlockingIOError:
            select.select([], [s], [], 5)
    return s.getpeername()[1] == CLOSED


def fast_message():
    s = socket.socket()
    return s.sendmsg([b"x"], [], FASTOPEN, ("127.0.0.1", CLOSED))


def fast_option():
    s = socket.socket()
    s.settimeout(5)
    s.setsockopt(socket.IPPROTO_TCP, 30, 1)
    s.connect(("127.0.0.1", CLOSED))
    s.send(b"x")
    return True


def fast_messages():
    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_char_p), ("length", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("room", ctypes.c_size_t),
                    ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]
    message = Message(packed(CLOSED), 16, None, 0, None, 0, 0, 0)
    s = socket.socket()
    return checked(libc.sendmmsg(s.fileno(), ctypes.byref(message), 1, FASTOPEN))


def passed():
    ours, theirs = socket.socketpair()
    connection = granted()
    socket.send_fds(ours, [b"x"], [connection.fileno()])
    _, files, _, _ = socket.recv_fds(theirs, 1, 1)
    return led_elsewhere(socket.socket(fileno=files[0]))


def inherited():
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and os.path.exists("/proc/self/fd/" + name) and "socket:" in os.readlink("/proc/self/fd/" + name):
            return True
    raise OSError(errno.EBADF, "there is none")


# A thread changes the address between the check and its use.
def changed_address():
    buffer = ctypes.create_string_buffer(packed(GRANTED), 16)
    stop = []

    def change():
        while not stop:
            ctypes.memmove(buffer, packed(CLOSED), 16)
            ctypes.memmove(buffer, packed(GRANTED), 16)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(ROUNDS):
            s = socket.socket()
            if libc.connect(s.fileno(), buffer, 16) == 0 and s.getpeername()[1] == CLOSED:
                return True
            s.close()
    finally:
        stop.append(True)
        thread.join()
    raise OSError(errno.EACCES, "never")


# Threads change the file under the number, and the address, between the check and their use.
def changed_file(make):
    own = socket.create_server(("127.0.0.1", 0), backlog=ROUNDS)
    outside, place = make(), socket.socket()
    before = peer(outside)
    buffer = ctypes.create_string_buffer(packed(own.getsockname()[1]), 16)
    stop = []

    def change():
        while not stop:
            os.dup2(outside.fileno(), place.fileno())
            ctypes.memmove(buffer, packed(CLOSED), 16)
            with socket.socket() as fresh:
                os.dup2(fresh.fileno(), place.fileno())
            ctypes.memmove(buffer, packed(own.getsockname()[1]), 16)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(10 * ROUNDS):
            libc.connect(place.fileno(), buffer, 16)
            libc.connect(place.fileno(), bytes(16), 16)
            libc.listen(place.fileno(), 1)
    finally:
        stop.append(True)
        thread.join()
    return peer(outside) != before or outside.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)


def peer(s):
    try:
        return s.getpeername()
    except OSError:
        return None


def by_descendant():
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                os.write(writer, b"y" if tcp("127.0.0.1", CLOSED) else b"n")
            except OSError:
                os.write(writer, b"n")
        os._exit(0)
    os.wait()
    return os.read(reader, 1) == b"y"


def by_thread():
    found = []

    def attempt():
        try:
            found.append(tcp("127.0.0.1", CLOSED))
        except OSError:
            found.append(False)
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return found[0]


def namespace():
    file = os.open("/proc/1/ns/net", os.O_RDONLY)
    checked(libc.setns(file, 0x40000000))
    return tcp("127.0.0.1", CLOSED)


def proxied():
    import urllib.request
    proxy = urllib.request.ProxyHandler({"http": "http://127.0.0.1:%d" % CLOSED})
    return urllib.request.build_opener(proxy).open("http://other.test/", timeout=5)


def bound():
    s = socket.socket()
    s.bind(("0.0.0.0", 0))
    s.connect((LAN, CLOSED))
    return True


def local(kind, address):
    s = socket.socket(socket.AF_UNIX, kind)
    s.connect(address)
    return True


WAYS = {
    "a closed port of a granted address": lambda: tcp("127.0.0.1", CLOSED),
    "without waiting": lambda: tcp("127.0.0.1", CLOSED, blocking=False),
    "localhost": lambda: tcp("localhost", CLOSED),
    "another address of loopback": lambda: tcp("127.1.2.3", CLOSED),
    "loopback over IPv6": lambda: tcp("::1", CLOSED, INET6),
    "an IPv4 address mapped to IPv6": lambda: tcp("::ffff:127.0.0.1", CLOSED, INET6),
    "an IPv4 address compatible with IPv6": lambda: tcp("::127.0.0.1", CLOSED, INET6),
    "NAT64": lambda: tcp("64:ff9b::7f00:1", CLOSED, INET6),
    "local NAT64": lambda: tcp("64:ff9b:1::7f00:1", CLOSED, INET6),
    "6to4": lambda: tcp("2002:7f00:1::1", CLOSED, INET6),
    "Teredo": lambda: tcp("2001:0:7f00:1::1", CLOSED, INET6),
    "octal": lambda: tcp(socket.inet_ntoa(socket.inet_aton("0177.0.0.1")), CLOSED),
    "hexadecimal": lambda: tcp(socket.inet_ntoa(socket.inet_aton("0x7f.1")), CLOSED),
    "one number": lambda: tcp(socket.inet_ntoa(socket.inet_aton("2130706433")), CLOSED),
    "no address": lambda: tcp("0.0.0.0", CLOSED),
    "no address of IPv6": lambda: tcp("::", CLOSED, INET6),
    "the machine's address in its network": lambda: tcp(LAN, CLOSED),
    "from a port of its own": bound,
    "metadata of a cloud": lambda: tcp("169.254.169.254", 80),
    "metadata over IPv6": lambda: tcp("fd00:ec2::254", 80, INET6),
    "the local link": lambda: tcp("fe80::1", 80, INET6),
    "a private address": lambda: tcp("192.168.0.1", 80),
    "a public address": lambda: tcp("1.1.1.1", 80),
    "DNS over HTTPS": lambda: tcp("8.8.8.8", 443),
    "DNS over TLS": lambda: tcp("1.1.1.1", 853),
    "another name server": lambda: udp("8.8.8.8", 53),
    "another name server by connection": lambda: tcp("8.8.8.8", 53),
    "a name that is not granted": lambda: socket.getaddrinfo("c2VjcmV0.tunnel.test", 80),
    "data in a name": lambda: names(resolver()),
    "data in a name by connection": names_by_connection,
    "a datagram": lambda: udp("127.0.0.1", DATAGRAMS),
    "a datagram to the machine's address": lambda: udp(LAN, DATAGRAMS),
    "a datagram over IPv6": lambda: udp("::1", DATAGRAMS, INET6),
    "QUIC": lambda: udp("1.1.1.1", 443),
    "multicast": lambda: udp("224.0.0.251", 5353),
    "ICMP": lambda: socket.socket(INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).sendto(b"\x08\0\0\0\0\0\0\0", (LAN, 0)),
    "raw packets": lambda: socket.socket(INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    "packets of the link": lambda: socket.socket(17, socket.SOCK_RAW, 0),
    "MPTCP": lambda: tcp("127.0.0.1", CLOSED, protocol=262),
    "SCTP": lambda: tcp("127.0.0.1", CLOSED, protocol=132),
    "a virtual machine's socket": lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 1024)),
    "an abstract socket": lambda: local(socket.SOCK_STREAM, "\0" + UNIX),
    "a unix socket": lambda: local(socket.SOCK_STREAM, UNIX),
    "an inherited descriptor": inherited,
    "a passed descriptor": passed,
    "sendto without connect": lambda: socket.socket().sendto(b"x", ("127.0.0.1", CLOSED)),
    "sendmsg without connect": lambda: socket.socket().sendmsg([b"x"], [], 0, ("127.0.0.1", CLOSED)),
    "sendto that opens fast": lambda: socket.socket().sendto(b"x", FASTOPEN, ("127.0.0.1", CLOSED)),
    "sendmsg that opens fast": fast_message,
    "sendmmsg that opens fast": fast_messages,
    "an option that opens fast": fast_option,
    "a failed connection that opens fast": fast_again,
    "a connection that is disconnected": lambda: disconnected(granted()),
    "a connection that is led elsewhere": lambda: led_elsewhere(granted()),
    "a failed connection that is used again": lambda: led_elsewhere(failed()),
    "a port of the machine": lambda: opened(granted()),
    "a port of the machine on a failed connection": lambda: opened(failed()),
    "an address that is changed": changed_address,
    "a file that is changed": lambda: changed_file(granted),
    "a file that is changed for a failed connection": lambda: changed_file(failed),
    "a descendant": by_descendant,
    "a thread": by_thread,
    "another network namespace": namespace,
    "io_uring": lambda: checked(libc.syscall(425, 1, ctypes.create_string_buffer(120))),
    "a proxy": proxied,
}


def tried(ways):
    granted().close()
    print("%d ways" % len(ways))
    for name, way in ways.items():
        try:
            print("OUT" if way() else "held", name, flush=True)
        except Exception as error:
            print("held", name, error, flush=True)


if __name__ == "__main__":
    tried(WAYS)

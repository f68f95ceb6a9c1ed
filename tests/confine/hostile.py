"""What hostile programs try, one function a case, each in a process of its own.

Run as the command of a call: `python3 hostile.py plan.json`. The working directory of a case is a
folder of its own in the workspace, `O` a folder of its own outside. What a case could do that leaves
no trace outside, it confesses. Whether it got out is judged by the host, never here.
"""

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
PLAN = {}
O = HERE = ""
# What a case may take; on a slow machine a few hundred milliseconds.
BOUND = 20
FDCWD = -100


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def libc(name, *arguments):
    function = getattr(LIBC, name)
    function.restype = ctypes.c_long
    return check(ctypes.c_int(function(*map(word, arguments))).value)


def syscall(x86, arm, *arguments):
    LIBC.syscall.restype = ctypes.c_long
    return check(LIBC.syscall(*map(word, (x86 if X86 else arm,) + arguments)))


def word(value):
    """Every number as wide as a register; Python would pass an `int`."""
    if isinstance(value, str):
        return value.encode()
    return ctypes.c_long(value) if isinstance(value, int) else value


def note(name, data):
    """Writes to a file of the case, wherever the case has gone to."""
    file = os.open(name, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600, dir_fd=PLAN["here"])
    os.write(file, data if isinstance(data, bytes) else data.encode())
    os.close(file)


def confess(what):
    note("escaped", what + "\n")


def loot(data):
    note("loot", data)


def write(path, text="x"):
    with open(path, "a") as file:
        file.write(text)


def read(path):
    with open(path, "rb") as file:
        return file.read(1 << 20)


def shrug(attempt):
    try:
        attempt()
    except OSError:
        pass


def every(*attempts):
    """Tries everything, and tells of the last failure."""
    failed = None
    for attempt in attempts:
        try:
            attempt()
        except OSError as error:
            failed = error
    if failed:
        raise failed


# Files outside, by every way that leads there.


def swapped_link():
    os.mkdir("real")
    stop = time.monotonic() + 0.3

    def swap():
        while time.monotonic() < stop:
            for target in ("real", O):
                os.symlink(target, "next")
                os.rename("next", "spot")

    os.symlink("real", "spot")
    threading.Thread(target=swap, daemon=True).start()
    while time.monotonic() < stop:
        try:
            write("spot/new")
        except OSError:
            pass


def rename_out():
    write("mine")
    os.rename("mine", O + "/new")


def rename_in():
    os.rename(O + "/kept", "mine")


def rename_exchange():
    write("mine")
    libc("renameat2", FDCWD, "mine", FDCWD, O + "/kept", 2)


def rename_workspace():
    workspace = PLAN["workspace"]
    os.rename(workspace, workspace + "-moved")
    os.rename(workspace + "-moved", workspace)
    confess("moved the workspace")


def reopened_descriptor():
    for flags in (os.O_RDONLY, os.O_PATH):
        file = os.open(O + "/kept", flags)
        every(lambda: write(f"/proc/self/fd/{file}"), lambda: write(f"/proc/thread-self/fd/{file}"))


def host_root():
    write(f"/proc/{PLAN['host']}/root{O}/new")


def host_descriptor():
    write(f"/proc/{PLAN['host']}/fd/{PLAN['descriptor']}")


def host_directory():
    write(f"/proc/{PLAN['host']}/fd/{PLAN['descriptor']}/new")


def parents_root():
    every(*(lambda pid=pid: write(f"/proc/{pid}/root{O}/new") for pid in (1, os.getppid(), PLAN["parent"])))


def inherited_descriptor():
    os.write(PLAN["descriptor"], b"x")


def truncate():
    os.truncate(O + "/kept", 0)


def open_truncating():
    os.open(O + "/kept", os.O_RDONLY | os.O_TRUNC)


def changed_mode():
    os.chmod(O + "/kept", 0o777)


def changed_mode_of_descriptor():
    os.fchmod(os.open(O + "/kept", os.O_RDONLY), 0o777)


def changed_mode_anew():
    syscall(452, 452, FDCWD, O + "/kept", 0o777, 0)


def changed_owner():
    os.chown(O + "/kept", 1234, 1234)


def changed_times():
    os.utime(O + "/kept", (1, 1))


def extended_attribute():
    os.setxattr(O + "/kept", "user.haft", b"x")


def file_flags():
    file = os.open(O + "/kept", os.O_RDONLY)
    # FS_IOC_SETFLAGS: do not dump.
    fcntl.ioctl(file, 0x40086602, struct.pack("q", 0x40))


def made_nodes():
    every(
        lambda: os.mkdir(O + "/directory"),
        lambda: os.symlink("x", O + "/link"),
        lambda: os.mkfifo(O + "/pipe"),
        lambda: os.mknod(O + "/file", stat.S_IFREG | 0o600),
    )


def removed_nodes():
    every(lambda: os.unlink(O + "/kept"), lambda: os.rmdir(O + "/empty"))


def bound_socket():
    socket.socket(socket.AF_UNIX).bind(O + "/bound")


def unnamed_file():
    file = os.open(O, os.O_TMPFILE | os.O_WRONLY)
    os.write(file, b"x")
    libc("linkat", FDCWD, f"/proc/self/fd/{file}", FDCWD, O + "/new", 0x400)


def by_handle():
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    libc("name_to_handle_at", FDCWD, O + "/kept", handle, ctypes.byref(ctypes.c_int()), 0)
    os.write(libc("open_by_handle_at", os.open(O, os.O_RDONLY), handle, os.O_WRONLY), b"x")


def io_uring():
    parameters = ctypes.create_string_buffer(120)
    ring = syscall(425, 425, 4, parameters)
    tail, _, _, _, _, array = struct.unpack_from("6I", parameters, 44)
    queue = mmap.mmap(ring, array + 64)
    entries = mmap.mmap(ring, 4 * 64, offset=0x10000000)
    path = ctypes.create_string_buffer((O + "/new").encode())
    flags = os.O_CREAT | os.O_WRONLY
    openat = struct.pack("BBHiQQII", 18, 0, 0, FDCWD, 0, ctypes.addressof(path), 0o600, flags)
    entries[: len(openat)] = openat
    struct.pack_into("I", queue, array, 0)
    struct.pack_into("I", queue, tail, 1)
    syscall(426, 426, ring, 1, 1, 1, 0, 0)


def fifo():
    os.write(os.open(O + "/fifo", os.O_WRONLY | os.O_NONBLOCK), b"x")


def shared_memory_file():
    write(PLAN["memory"])


# Devices and the kernel's own files; opened at most, never written.


def device_node():
    os.open(O + "/device", os.O_WRONLY)
    confess("opened a device")


def disks():
    names = [name for name in os.listdir("/sys/block") if not name.startswith(("zram", "fd"))]
    return sorted(names, key=lambda name: not name.startswith(("vd", "sd", "nvme")))[:3]


def block_device():
    def attempt(name):
        os.open("/dev/" + name, os.O_WRONLY)
        confess("opened " + name)

    every(*(lambda name=name: attempt(name) for name in disks()))


def made_block_device():
    for name in disks():
        major, minor = map(int, read(f"/sys/block/{name}/dev").split(b":"))
        os.mknod("disk-" + name, stat.S_IFBLK | 0o600, os.makedev(major, minor))
        os.open("disk-" + name, os.O_RDONLY)
        confess("opened a disk")


def core_pattern():
    os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY)
    confess("opened core_pattern")


def system_files():
    os.open(f"/sys/block/{disks()[0]}/queue/read_ahead_kb", os.O_WRONLY)
    confess("opened a file of /sys")


def spared_by_the_kernel():
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("0")
    confess("not the first to go when memory runs out")


def terminal():
    file = os.open(PLAN["terminal"], os.O_WRONLY | os.O_NOCTTY)
    os.write(file, b"x")


# Mounts and namespaces.

DETACH, BIND, REMOUNT = 2, 4096, 32
NEWUSER, NEWNS = 0x10000000, 0x20000


def mounted_outside():
    libc("mount", "haft-suite", O + "/empty", "tmpfs", 0, None)
    if O.encode() in read(f"/proc/{PLAN['host']}/mountinfo"):
        confess("mounted something outside")
    libc("umount2", O + "/empty", DETACH)


def remounted():
    shrug(lambda: libc("mount", None, "/", None, REMOUNT | BIND, None))
    shrug(lambda: syscall(442, 442, FDCWD, "/", 0x8000, struct.pack("4Q", 0, 1, 0, 0), 32))
    write(O + "/new")


def uncovered():
    for path in (O, os.path.dirname(O), "/tmp"):
        shrug(lambda: libc("umount2", path, DETACH) if PLAN["own_mounts"] else None)
    write(O + "/new")


def new_user_namespace():
    libc("unshare", NEWUSER)
    confess("is root somewhere")


def new_user_namespace_by_clone():
    arguments = ctypes.create_string_buffer(struct.pack("11Q", NEWUSER, 0, 0, 0, signal.SIGCHLD, *[0] * 6))
    if syscall(435, 435, arguments, 88) == 0:
        confess("is root somewhere")
        os._exit(0)


def other_namespace():
    def attempt(pid, kind):
        libc("setns", os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY), 0)
        if os.readlink(f"/proc/{pid}/ns/{kind}") == PLAN["namespace"]:
            confess("entered the host's namespace of mounts")

    every(*(lambda pid=pid: attempt(pid, "mnt") for pid in (PLAN["host"], 1, os.getppid())))


def changed_root():
    os.chroot(O)
    confess("changed its root")


# Processes outside.


def victim():
    return PLAN["victim"]


def killed():
    os.kill(victim(), signal.SIGKILL)


def killed_by_handle():
    signal.pidfd_send_signal(os.pidfd_open(victim()), signal.SIGKILL)


def signalled_host():
    os.kill(PLAN["host"], signal.SIGUSR1)


def signalled_group():
    os.kill(0, signal.SIGUSR2)


def signalled_everybody():
    # Whoever does not ask for this one ignores it.
    os.kill(-1, signal.SIGURG)


def traced():
    # PTRACE_SEIZE, PTRACE_O_EXITKILL: it dies when this process ends.
    libc("ptrace", 0x4206, victim(), 0, 0x100000)


def written_memory():
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    data = ctypes.create_string_buffer(b"owned!!!", 8)
    own, other = Part(ctypes.addressof(data), 8), Part(PLAN["buffers"][0], 8)
    libc("process_vm_writev", PLAN["host"], ctypes.byref(own), 1, ctypes.byref(other), 1, 0)


def written_memory_file():
    with open(f"/proc/{PLAN['host']}/mem", "r+b", buffering=0) as memory:
        memory.seek(PLAN["buffers"][1])
        memory.write(b"owned!!!")


def changed_limits():
    resource.prlimit(victim(), resource.RLIMIT_NOFILE, (7, 7))


def changed_priority():
    os.setpriority(os.PRIO_PROCESS, victim(), 15)


def changed_affinity():
    os.sched_setaffinity(victim(), {max(os.sched_getaffinity(0))})


def changed_scheduler():
    os.sched_setscheduler(victim(), os.SCHED_BATCH, os.sched_param(0))


def changed_input_priority():
    # IOPRIO_WHO_PROCESS, idle class.
    syscall(251, 30, 1, victim(), 3 << 13)
    confess("has a say in the order of the victim's reads")


def read_environments():
    pids = [name for name in os.listdir("/proc") if name.isdigit()]
    pids += [str(PLAN["host"]), str(PLAN["parent"]), "1"]
    every(*(lambda pid=pid: loot(read(f"/proc/{pid}/environ")) for pid in pids))


def many_processes():
    threading.stack_size(64 << 10)
    done = threading.Event()
    threads = []
    try:
        for _ in range(1100):
            thread = threading.Thread(target=done.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        pass
    done.set()
    if len(threads) > 1000:
        confess(f"{len(threads)} at once")


# Services and the kernel.


def unix_socket():
    socket.socket(socket.AF_UNIX).connect(O + "/socket")


def abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + O)


def datagram_socket():
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", O + "/datagram")


def datagram_pair():
    """A pair needs no call of `socket`, and one half can be connected anew."""
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        pair = socket.socketpair(socket.AF_UNIX, kind)
        pair[0].sendto(b"x", O + "/datagram")


def machine_code(*parts):
    """Calls the kernel by its second and third door."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"".join(parts))
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return check(ctypes.CFUNCTYPE(ctypes.c_int)(address)())


def old_system_call():
    if not X86:
        raise OSError("only on x86-64")
    # push rbx; mov eax, 359 (socket); mov ebx, AF_UNIX; mov ecx, SOCK_STREAM; xor edx, edx; int 0x80
    body = b"\x53\xb8\x67\x01\0\0\xbb\x01\0\0\0\xb9\x01\0\0\0\x31\xd2\xcd\x80\x5b\xc3"
    result = machine_code(body)
    confess(f"has a socket: {result}")


def second_table():
    if not X86:
        raise OSError("only on x86-64")
    syscall(0x40000000 | 41, 0, socket.AF_UNIX, socket.SOCK_STREAM, 0)
    confess("has a socket")


def machine_socket():
    socket.socket(40, socket.SOCK_STREAM)
    confess("has a socket to the machine's host")


def packet_socket():
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    confess("sees the network")


def kernel_key():
    # To the user's keyring, which the host has too.
    syscall(248, 217, "user", PLAN["mark"], "x", 1, -4)


def kernel_program():
    syscall(321, 280, 0, ctypes.create_string_buffer(struct.pack("5I", 2, 4, 4, 1, 0), 128), 72)
    confess("made a map of the kernel's virtual machine")


def kernel_events():
    # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, user space only.
    event = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 128, 0, 0, 0, 0, 0x60), 128)
    syscall(298, 241, event, 0, -1, -1, 0)
    confess("opened a performance counter")


def page_faults():
    syscall(323, 282, 0)
    confess("handles faults of pages")


def machine_calls():
    """Calls that do nothing even where they are allowed."""
    attempts = {
        "no time to set": (164, 170, None, None),
        "no such command to reboot": (169, 142, 0xFEE1DEAD, 672274793, 0x12345, None),
        "no module": (175, 105, None, 0, ""),
        "nothing to swap to": (167, 224, "", 0),
    }
    for name, arguments in attempts.items():
        try:
            syscall(*arguments)
            confess(name)
        except OSError as error:
            # Whoever may not is told so before anything else is looked at.
            if error.errno not in (errno.EPERM, errno.ENOSYS):
                confess(name)


def shared_memory():
    libc("shmget", PLAN["number"], 4096, 0o1600)


def message_queue():
    libc("mq_open", "/" + PLAN["mark"], os.O_CREAT | os.O_RDWR, 0o600, None)


def set_user_id():
    write("one")
    write("two")
    every(
        lambda: os.chmod("one", 0o4755),
        lambda: os.fchmod(os.open("two", os.O_RDONLY), 0o6755),
        lambda: os.close(os.open("three", os.O_CREAT | os.O_WRONLY, 0o4755)),
        lambda: syscall(452, 452, FDCWD, "one", 0o4755, 0),
        lambda: os.mknod("four", stat.S_IFREG | 0o4755),
    )


def file_capabilities():
    write("tool")
    # Revision 2, effective: every capability there is.
    os.setxattr("tool", "security.capability", struct.pack("<5I", 0x02000001, 0xFFFFFFFF, 0, 0x1FF, 0))


# After the call.


def daemon():
    # Of every kind: in a session of its own, an orphan, deaf, without environment, in the background.
    for kind in ("setsid sh", "nohup sh", "env -i /bin/sh", "sh"):
        name = kind.replace(" ", "-").replace("/", "-")
        script = f"(trap '' TERM HUP INT; exec </dev/null >/dev/null 2>&1; sleep 3; echo late > late-{name}) &"
        subprocess.run([*kind.split(), "-c", script])


def daemon_outside():
    subprocess.run(["sh", "-c", f"(setsid sh -c 'sleep 0.1; echo x > {O}/new' &)"])
    time.sleep(0.3)


def watcher_killed():
    if os.fork():
        time.sleep(0.3)
        os._exit(0)
    os.setsid()
    shrug(lambda: os.kill(PLAN["parent"], signal.SIGKILL))
    time.sleep(1.5)
    write("late")


def chain():
    """One that is never there when it is looked for: every process of it makes the next and ends."""
    if os.fork():
        return
    os.setsid()
    started = time.monotonic()
    while time.monotonic() < started + 3:
        if os.fork():
            os._exit(0)
    write("late")


# What is hidden from every tool, `state/secret` and `secret.txt`, and what is fixed, `fixed/file`
# and `fixed.toml`.


def hidden_by_roots():
    place = os.getcwd()
    roots = [f"/proc/{pid}/root" for pid in ("self", 1, PLAN["parent"], PLAN["host"])] + [f"/proc/{PLAN['host']}/cwd"]
    every(*(lambda root=root: loot(read(f"{root}{place}/state/secret")) for root in roots))


def hidden_uncovered():
    for name in ("state", "secret.txt", "fixed", "fixed.toml", os.getcwd()):
        for _ in range(4 if PLAN["own_mounts"] else 0):
            shrug(lambda: libc("umount2", name, DETACH))
    os.chdir(PLAN["workspace"] + "/" + os.path.basename(HERE))
    write("fixed.toml")
    loot(read("secret.txt"))


def hidden_uncovered_as_root_elsewhere():
    shrug(lambda: libc("unshare", NEWUSER | NEWNS))
    hidden_uncovered()


def hidden_bound_elsewhere():
    os.mkdir("elsewhere")
    libc("mount", ".", "elsewhere", None, BIND, None)
    try:
        loot(read("elsewhere/secret.txt"))
    finally:
        libc("umount2", "elsewhere", DETACH)


def hidden_copied_mount():
    # open_tree, without what is mounted below it.
    tree = syscall(428, 428, FDCWD, ".", 1)
    loot(read(f"/proc/self/fd/{tree}/secret.txt"))


def fixed_remounted():
    shrug(lambda: libc("mount", None, "fixed", None, REMOUNT | BIND, None))
    write("fixed/file")


def hidden_by_handle():
    kind, data = PLAN["handle"]
    data = bytes.fromhex(data)
    handle = ctypes.create_string_buffer(struct.pack("Ii", len(data), kind) + data, 136)
    file = libc("open_by_handle_at", os.open(".", os.O_RDONLY), handle, os.O_RDONLY)
    loot(os.read(file, 1024))


def hidden_on_disk():
    def attempt(name):
        os.open("/dev/" + name, os.O_RDONLY)
        confess("opened " + name)

    every(made_block_device, *(lambda name=name: attempt(name) for name in disks()))


# What is not granted for reading.


def executed():
    output = subprocess.run([O + "/tool"], stdout=subprocess.PIPE).stdout
    loot(output)


def mapped():
    file = os.open(O + "/secret", os.O_RDONLY)
    loot(mmap.mmap(file, 0, prot=mmap.PROT_READ)[:])


def read_host_descriptor():
    loot(read(f"/proc/{PLAN['host']}/fd/{PLAN['descriptor']}"))


def listed():
    loot(" ".join(os.listdir(O)))


# The network.


def tcp():
    socket.create_connection(tuple(PLAN["tcp"]), 3)


def tcp_at_once():
    # MSG_FASTOPEN: connects without calling `connect`.
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).sendto(b"x", 0x20000000, tuple(PLAN["tcp"]))


def multipath_tcp():
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(tuple(PLAN["tcp"]))


def udp():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", tuple(PLAN["udp"]))


def run(case):
    """One case, in a process of its own that is stopped when it takes too long."""
    child = os.fork()
    if child == 0:
        global O, HERE
        PLAN.update(case)
        O, HERE = case["outside"], os.path.join(PLAN["workspace"], case["name"])
        try:
            os.chdir(HERE)
            PLAN["here"] = os.open(".", os.O_RDONLY)
            attempt(case)
            answer = "done"
        except BaseException as error:
            answer = repr(error)
        note("answer", answer)
        os._exit(0)
    stop = time.monotonic() + BOUND
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > stop:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.001)


def attempt(case):
    if "script" not in case:
        return globals()[case["name"]]()
    environment = {"O": O, "W": PLAN["workspace"], "PORT": str(PLAN.get("tcp", [0, 0])[1]), "PATH": os.environ["PATH"], "HOME": "."}
    done = subprocess.run(["bash", "-c", case["script"]], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise OSError(done.returncode, done.stdout.decode(errors="replace"))


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        PLAN = json.load(file)
    PLAN["parent"] = os.getppid()
    # One case sends it to its whole group.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    for case in PLAN["cases"]:
        run(case)

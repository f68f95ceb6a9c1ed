"""Mounts, processes outside, services, the kernel, and what is left when the call has ended."""


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


# After the call: the host makes a file `over` when it has ended.


def daemon():
    # Of every kind: in a session of its own, an orphan, deaf, without environment, in the background.
    for kind in ("setsid sh", "nohup sh", "env -i /bin/sh", "sh"):
        name = kind.replace(" ", "-").replace("/", "-")
        wait = "for i in $(seq 300); do test -e over && break; sleep 0.1; done"
        script = f"(trap '' TERM HUP INT; exec </dev/null >/dev/null 2>&1; {wait}; echo late > late-{name}) &"
        subprocess.run([*kind.split(), "-c", script])


def until_tried():
    """However slow the machine is, the call goes on until the one in the background has had its go."""
    stop = time.monotonic() + BOUND / 2
    while not os.path.exists("tried") and time.monotonic() < stop:
        time.sleep(0.01)


def daemon_outside():
    subprocess.run(["sh", "-c", f"(setsid sh -c 'sleep 0.1; echo x > {O}/new; echo > tried' &)"])
    until_tried()


def watcher_killed():
    if os.fork():
        until_tried()
        os._exit(0)
    os.setsid()
    shrug(lambda: os.kill(PLAN["parent"], signal.SIGKILL))
    write("tried")
    for _ in range(300):
        if os.path.exists("over"):
            break
        time.sleep(0.1)
    write("late")

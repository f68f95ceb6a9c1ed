"""Files outside, devices, and the files of the kernel."""


# Files outside, by every way that leads there.


def swapped_link():
    os.mkdir("real")
    # On a busy machine two threads take turns seldom: they are given more turns, and time until there were
    # enough of both kinds or one of the writes has got out.
    sys.setswitchinterval(0.00001)
    begun = time.monotonic()
    swaps = writes = 0

    def goes_on():
        spent = time.monotonic() - begun
        enough = swaps >= 1000 and writes >= 1000
        return (spent < 0.5 or not enough and spent < 10) and not os.path.exists(O + "/new")

    def swap():
        nonlocal swaps
        while goes_on():
            for target in ("real", O):
                os.symlink(target, "next")
                os.rename("next", "spot")
            swaps += 1

    os.symlink("real", "spot")
    threading.Thread(target=swap, daemon=True).start()
    while goes_on():
        writes += 1
        shrug(lambda: write("spot/new"))


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

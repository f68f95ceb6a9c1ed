"""What a grant closes: hidden and fixed paths, directories that may not be read, the network."""


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

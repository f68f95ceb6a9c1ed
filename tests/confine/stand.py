"""The part of the host that hostile programs aim at and that the tests cannot hold by themselves.

Reads one line of JSON that names what may come to be, and answers with a terminal and with the handles
of files. At the end of its input it tells by case what did come to be, and removes it.
"""

import ctypes
import json
import os
import platform
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
KEYCTL = 250 if platform.machine() == "x86_64" else 219
UNLINK, SEARCH, KEYRING = 9, 10, -4


def handle(path):
    space = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 136)
    if LIBC.name_to_handle_at(-100, path.encode(), space, ctypes.byref(ctypes.c_int()), 0) < 0:
        return None
    length, kind = struct.unpack_from("Ii", space)
    return kind, space.raw[8 : 8 + length].hex()


def tell(what):
    print(json.dumps(what), flush=True)


def terminal():
    try:
        return bool(os.read(ours, 1))
    except BlockingIOError:
        return False


def message_queue():
    found = LIBC.mq_open(b"/" + asked["mark"].encode(), os.O_RDONLY) >= 0
    LIBC.mq_unlink(b"/" + asked["mark"].encode())
    return found


def shared_memory():
    found = LIBC.shmget(asked["number"], 0, 0)
    LIBC.shmctl(found, 0, None)
    return found >= 0


def shared_memory_file():
    with open(asked["memory"]) as file:
        changed = file.read() != "kept"
    os.unlink(asked["memory"])
    return changed


def kernel_key():
    key = LIBC.syscall(KEYCTL, SEARCH, ctypes.c_long(KEYRING), b"user", asked["mark"].encode(), 0)
    LIBC.syscall(KEYCTL, UNLINK, ctypes.c_long(key), ctypes.c_long(KEYRING))
    return key >= 0


asked = json.loads(sys.stdin.readline())
ours, theirs = os.openpty()
os.set_blocking(ours, False)
with open(asked["memory"], "w") as file:
    file.write("kept")
tell({"terminal": os.ttyname(theirs), "handles": {name: handle(path) for name, path in asked["handles"].items()}})
sys.stdin.read()
cases = terminal, message_queue, shared_memory, shared_memory_file, kernel_key
tell({case.__name__: case() for case in cases})

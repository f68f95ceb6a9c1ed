"""Searches for secrets, which begin with the letters below, in everything that this process has and may read."""

import os
import pathlib
import re
import sys
import urllib.request

# Without the beginning itself.
SECRET = re.compile(rb"[Q]Z[Q]Z[0-9a-f]{20}")
found = {}


def search(place, data):
    count = len(SECRET.findall(data))
    if count:
        found[place] = count


if len(sys.argv) > 1:
    request = urllib.request.Request(f"https://localhost:{sys.argv[1]}/leak", headers={"X-Key": os.environ["TOKEN"]})
    with urllib.request.urlopen(request) as answer:
        print(answer.status, answer.read(1).decode())
for process in [name for name in os.listdir("/proc") if name.isdigit()]:
    for name in ["environ", "cmdline"]:
        try:
            search(f"{process} {name}", pathlib.Path(f"/proc/{process}/{name}").read_bytes())
        except OSError:
            pass
regions = 0
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
    for line in maps:
        span, rights = line.split()[:2]
        start, end = (int(part, 16) for part in span.split("-"))
        if "r" in rights:
            try:
                memory.seek(start)
                search(f"memory {line.strip()}", memory.read(end - start))
                regions += 1
            except (OSError, ValueError, OverflowError):
                pass
for descriptor in os.listdir("/proc/self/fd"):
    try:
        if os.path.isfile(f"/proc/self/fd/{descriptor}"):
            search(f"descriptor {descriptor}", pathlib.Path(f"/proc/self/fd/{descriptor}").read_bytes())
    except OSError:
        pass
files = 0
for top in ["/dev/haft", os.environ["HOME"], os.getcwd()]:
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and os.path.getsize(path) < 1 << 26:
                    search(path, pathlib.Path(path).read_bytes())
                    files += 1
            except OSError:
                pass
print(f"{regions > 20 and files > 1} found {sum(found.values())} {list(found)}")

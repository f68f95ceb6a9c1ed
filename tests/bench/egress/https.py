"""A client of HTTPS: `https.py DEED PORT`. Prints its duration in microseconds."""

import http.client
import os
import ssl
import sys
import time

CONNECTIONS, REQUESTS = 200, 1000
DEED, PORT = sys.argv[1], int(sys.argv[2])
CONTEXT = ssl.create_default_context()


def connection():
    return http.client.HTTPSConnection("localhost", PORT, context=CONTEXT)


def get(there, path):
    there.request("GET", path, headers={"Authorization": "Bearer " + os.environ.get("TOKEN", "")})
    answer, size = there.getresponse(), 0
    while part := answer.read(1 << 18):
        size += len(part)
    assert answer.status == 200 and size == int(answer.headers["Content-Length"])


begun = time.perf_counter()
if DEED == "connections":
    for _ in range(CONNECTIONS):
        new = connection()
        get(new, "/small")
        new.close()
elif DEED == "requests":
    kept = connection()
    for _ in range(REQUESTS):
        get(kept, "/small")
else:
    get(connection(), "/large")
print(int((time.perf_counter() - begun) * 1e6))

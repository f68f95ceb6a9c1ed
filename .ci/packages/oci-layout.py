"""oci-layout.py ROOT ARCHITECTURE VERSION SECONDS LEVEL OUTPUT: the files of ROOT as an image of one layer, in an archive of an
OCI layout (https://github.com/opencontainers/image-spec). The same files give the same bytes."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time

root, architecture, version, seconds, level, output = sys.argv[1:]
SECONDS = int(seconds)
CREATED = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(SECONDS))
USER = 65532
# What the user of the image may write, if the root can be written.
OWNED = ("var/lib/haft", "work")
MEDIA = "application/vnd.oci.image."

blobs = {}


def blob(media, data):
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": MEDIA + media, "digest": "sha256:" + digest, "size": len(data)}


def document(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def owned(info):
    info.mtime = SECONDS
    info.uid = info.gid = USER if info.name in OWNED else 0
    info.uname = info.gname = ""
    if info.name == "tmp":
        info.mode = 0o1777
    return info


def layer():
    """The tar of ROOT, by name."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(folders + files):
                path = os.path.join(folder, name)
                tar.add(path, os.path.relpath(path, root), recursive=False, filter=owned)
    return data.getvalue()


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = len(data), SECONDS, 0o644
    tar.addfile(info, io.BytesIO(data))


contents = layer()
config = {
    "architecture": architecture,
    "os": "linux",
    "created": CREATED,
    "config": {
        "User": f"{USER}:{USER}",
        "Env": ["PATH=/usr/bin", "HOME=/var/lib/haft", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
        "Entrypoint": ["/usr/bin/haft"],
        # The name by which clients call it is theirs to add: `--allow-host`.
        "Cmd": ["serve", "--http", "0.0.0.0:8080", "--token-env", "HAFT_TOKEN"],
        "WorkingDir": "/work",
        "ExposedPorts": {"8080/tcp": {}},
        "Volumes": {"/var/lib/haft": {}},
        "Labels": {
            "org.opencontainers.image.title": "haft",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
        },
    },
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(contents).hexdigest()]},
    "history": [{"created": CREATED, "created_by": ".ci/packages/image"}],
}
manifest = {
    "schemaVersion": 2,
    "mediaType": MEDIA + "manifest.v1+json",
    "config": blob("config.v1+json", document(config)),
    "layers": [blob("layer.v1.tar+gzip", gzip.compress(contents, int(level), mtime=0))],
}
entry = blob("manifest.v1+json", document(manifest))
entry["platform"] = {"architecture": architecture, "os": "linux"}
entry["annotations"] = {
    "org.opencontainers.image.ref.name": version,
    # What `podman load` names it.
    "io.containerd.image.name": f"localhost/haft:{version}",
}
index = {"schemaVersion": 2, "mediaType": MEDIA + "index.v1+json", "manifests": [entry]}
with tarfile.open(output, "w", format=tarfile.USTAR_FORMAT) as tar:
    add(tar, "oci-layout", document({"imageLayoutVersion": "1.0.0"}))
    add(tar, "index.json", document(index))
    for digest in sorted(blobs):
        add(tar, "blobs/sha256/" + digest, blobs[digest])

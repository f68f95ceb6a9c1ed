//! The attempts of one server to reach another one. Placeholders `@NAME@` are the other server's paths: `@AREAD@` and
//! `@AWRITE@` are its granted directories, `@HOME@`, `@TMP@` and `@CACHE@` its private ones.

/// The content of the other server's files, variables and names.
pub(super) const SECRET: &str = "secret-of-a";

/// Fills the other server's directories and listens on its sockets. Prints their places as JSON, and leaves a
/// process.
pub(super) const SETUP: &str = r#"
set -e
for place in "$HOME" "$TMPDIR" "$npm_config_cache"; do mkdir -p "$place"; echo "$A_NOTE" > "$place/file"; done
mkdir "$HOME/secret-of-a"
echo "$A_NOTE" > "$HOME/.profile"
cat > "$TMPDIR/listen.py" <<'END'
import mmap, os, socket, sys, threading, time
secret = os.environ["A_NOTE"].encode() + b"\n"
def serve(listener):
    while True:
        peer, _ = listener.accept()
        peer.sendall(secret)
        peer.close()
def listen(family, place):
    listener = socket.socket(family)
    listener.bind(place)
    listener.listen()
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    return listener
tcp = listen(socket.AF_INET, ("127.0.0.1", 0))
os.chdir(os.environ["TMPDIR"])
listen(socket.AF_UNIX, "sock")
os.chdir(sys.argv[1])
listen(socket.AF_UNIX, "sock")
name = "secret-abstract-%d" % os.getpid()
listen(socket.AF_UNIX, "\0" + name)
with open("/dev/shm/secret-of-a", "wb") as shared:
    shared.write(secret)
os.mkfifo("fifo")
kept = bytearray(secret * 100)
with open(os.path.join(os.environ["TMPDIR"], "known"), "w") as known:
    known.write('{"HOME": "%s", "TMP": "%s", "CACHE": "%s", "PID": "%d", "PORT": "%d", "ABSTRACT": "%s"}\n' % (
        os.environ["HOME"], os.environ["TMPDIR"], os.environ["npm_config_cache"], os.getpid(),
        tcp.getsockname()[1], name))
time.sleep(600)
END
/usr/bin/env python3 "$TMPDIR/listen.py" "$(realpath ../a-write)" secret-of-a > /dev/null 2> "$TMPDIR/errors" < /dev/null &
for i in $(seq 100); do test -s "$TMPDIR/known" && break; sleep 0.1; done
cat "$TMPDIR/known" "$TMPDIR/errors"
"#;

/// Shell commands. An attempt succeeds if it prints the secret or changes a file.
pub(super) const ATTEMPTS: &[&str] = &[
    // The granted directories.
    "cat @AREAD@/file",
    "cat @AWRITE@/file",
    "ls @AWRITE@/.. && cat @AWRITE@/../a-read/file",
    "cp @AWRITE@/file ~/copy && cat ~/copy",
    "ln -sf @AWRITE@/file ~/link && cat ~/link",
    "ln -f @AWRITE@/file ~/hard && cat ~/hard",
    "tar cf - @AREAD@ | tar xOf -",
    "dd if=@AREAD@/file status=none",
    "cat /proc/self/root@AWRITE@/file",
    "cat ../a-write/file",
    "cat /proc/self/cwd/../a-write/file",
    "for root in /proc/[0-9]*/root; do cat $root@AWRITE@/file; done",
    "for cwd in /proc/[0-9]*/cwd; do cat $cwd/../a-write/file; done",
    "unshare -rm sh -c 'mkdir -p ~/m; mount --bind @AWRITE@ ~/m; cat ~/m/file'",
    "echo x >> @AWRITE@/file",
    "echo x > @AWRITE@/new",
    "mkdir @AWRITE@/new",
    "rm -f @AWRITE@/new; rm -rf @AWRITE@/new",
    "echo x > ~/x; mv ~/x @AWRITE@/moved",
    "ln -s / @AWRITE@/way",
    "truncate -s 0 @AWRITE@/file && echo secret-of-a > @AWRITE@/file",
    "touch -d 2001-01-01 @AWRITE@/file",
    "chmod 600 @AWRITE@/file",
    "python3 -c 'import os; os.setxattr(\"@AWRITE@/file\", \"user.x\", b\"x\"); print(\"secret-of-a\")'",
    "timeout 2 sh -c 'echo x > @AWRITE@/fifo'; timeout 2 cat @AWRITE@/fifo & sleep 0.3; timeout 1 sh -c 'echo secret-of-a > @AWRITE@/fifo'; wait",
    // The home, the temporary files and the caches.
    "cat @HOME@/file",
    "cat @HOME@/.profile",
    "ls -a @HOME@",
    "ls -R @HOME@/../../..",
    "find @HOME@/../../.. -name 'secret*'",
    "for own in ~/../../../*/own; do cat $own/home/file $own/tmp/file; done",
    "echo x >> @HOME@/.profile",
    "mkdir @HOME@/planted",
    "rmdir @HOME@/secret-of-a",
    "mv @HOME@ @HOME@-away && mv @HOME@-away @HOME@",
    "touch @HOME@/../../kept-too",
    "cat @TMP@/file",
    "ls @TMP@ && cat @TMP@/known | grep -o secret && cat @TMP@/file",
    "echo x > @TMP@/planted",
    "cat @CACHE@/file",
    "mkdir -p @CACHE@/_npx/planted",
    // The environment and the processes.
    "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep A_NOTE",
    "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -x 'secret-of-[a]'",
    "echo $A_NOTE",
    "env | grep A_NOTE",
    "for fd in /proc/[0-9]*/fd/*; do case $(readlink $fd) in *listen*|*/own/*) cat < $fd;; esac; done; for map in /proc/@PID@/maps; do grep -q python $map && cat /proc/@PID@/environ; done",
    "ps axeww | grep -o 'A_NOTE=[^ ]*'",
    // The sockets and the shared memory.
    "python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", @PORT@), 2); print(s.recv(99).decode())'",
    "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"@AWRITE@/sock\"); print(s.recv(99).decode())'",
    "cd @TMP@ && python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"sock\"); print(s.recv(99).decode())'",
    "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect(\"\\0@ABSTRACT@\"); print(s.recv(99).decode())'",
    "cat /dev/shm/secret-of-a",
    "ls /dev/shm",
];

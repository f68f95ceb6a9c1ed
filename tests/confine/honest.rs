//! Everyday programs that must work inside the sandbox, each identified by its effect.

use std::path::Path;
use std::process::Stdio;

use haft::grant::{Grant, Root, SandboxMode};
use haft::native::bash::Bash;
use serde_json::json;

use super::cases::Off;
use super::host::{User, alone, command, confiner, is_inner};
use crate::common::HANG;
use crate::workspace::Workspace;

/// A script that must succeed, and the programs that it needs.
#[derive(Clone, Copy)]
struct Honest {
    name: &'static str,
    programs: &'static [&'static str],
    script: &'static str,
    when: When,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Always,
    /// It may fail without namespaces.
    WithNamespaces,
    /// It takes seconds and covers little that other scripts do not.
    Once,
}

const fn honest(name: &'static str, programs: &'static [&'static str], script: &'static str) -> Honest {
    Honest { name, programs, script, when: When::Always }
}

impl Honest {
    const fn when(self, when: When) -> Self {
        Self { when, ..self }
    }
}

const HONEST: &[Honest] = &[
    honest(
        "redirections",
        &[],
        "echo a > f; echo b >> f; cat < f >| g 2>/dev/null; exec 5<> f; cat <&5 | cmp - g",
    ),
    honest("here documents", &[], "test \"$(cat <<'END'\na\nEND\n)\" = a; test \"$(cat <<< b)\" = b"),
    honest(
        "process substitution",
        &[],
        "diff <(seq 3) <(seq 3); seq 3 > >(cat > f); until test -s f; do sleep 0.1; done",
    ),
    honest("pipes", &[], "seq 1000 | grep 7 | sort -r | head -1 | grep -q 997"),
    honest(
        "null, zero, random",
        &[],
        "echo x > /dev/null; head -c9 /dev/zero | wc -c; head -c 9 /dev/urandom | wc -c; dd if=/dev/zero of=/dev/null count=1; ! echo x > /dev/full",
    ),
    honest(
        "standard streams by name",
        &[],
        "echo x > /dev/stdout; echo x | cat /dev/stdin; cat /dev/fd/0 < /dev/null; echo x > /dev/stderr",
    ),
    honest("mktemp", &[], "f=$(mktemp); echo x > $f; d=$(mktemp -d); touch $d/x; mktemp -p .; rm -r $f $d"),
    honest("sort with files", &["shuf"], "seq 200000 | shuf | sort -n -S 200k | tail -1 | grep -qx 200000"),
    honest(
        "files of every kind",
        &[],
        "mkdir -p a/b; ln -s b a/c; ln a/b/../../x y 2>/dev/null || true; touch f; ln f g; mkfifo p; chmod 750 f; touch -d 2001-01-01 f; truncate -s 9 f; mv f h; cp -a h i; install -m 755 h j; rm -r a; test -p p",
    ),
    honest("own files stay own", &[], "touch f; chown $(id -u):$(id -g) f; test -O f; chmod u=rwx,go= f"),
    honest("lock", &["flock"], "flock lock true"),
    honest("tar", &["tar"], "mkdir d; echo x > d/f; tar czf d.tgz d; rm -r d; tar xzf d.tgz; test -s d/f"),
    honest(
        "tar of somebody else's",
        &["tar"],
        "touch f; tar cf f.tar --owner=1234 --group=1234 f; rm f; tar xf f.tar; test -e f",
    ),
    honest(
        "copy of the system's",
        &[],
        "cp -a /etc/hosts . && cp -rp /usr/share/misc m 2>/dev/null || cp -a /etc/hostname .",
    ),
    honest(
        "jobs",
        &[],
        "set -m; sleep 9 & kill %1; wait; trap 'echo y > f' USR1; kill -USR1 $$; test -s f; (exit 3) || test $? = 3",
    ),
    honest(
        "own processes",
        &[],
        "sleep 9 & kill -STOP $!; kill -CONT $!; kill $!; timeout 0.1 sleep 9 || test $? = 124; nohup true; seq 4 | xargs -P 4 -n 1 true",
    ),
    honest(
        "own priority",
        &["nice", "taskset"],
        "nice -n 5 true; nice | grep -q .; taskset -c 0 true; ulimit -n 100; ulimit -c 0",
    ),
    honest(
        "process table",
        &[],
        "grep -q Name /proc/self/status; test -r /proc/meminfo; test -r /proc/cpuinfo; nproc; test -e /proc/$$/fd/1; ls /proc/$$/task",
    ),
    honest(
        "where and who",
        &[],
        "id -u; pwd -P; date; uname -a; df . ; ls / /etc /usr/bin > /dev/null; test -n \"$HOME\"",
    ),
    honest(
        "make",
        &["make"],
        "printf 'all: a b\\na b:\\n\\techo $@ > $@\\n\\t$(shell true)\\n' > Makefile; make -s -j2; test -s a -a -s b",
    ),
    honest("C", &["cc"], "echo 'int main(){return 7;}' > a.c; cc -o a a.c; ./a || test $? = 7"),
    honest(
        "perl",
        &["perl"],
        "perl -e 'pipe(R, W); if (!fork) { print W \"x\\n\"; exit } wait; close W; die unless <R> eq \"x\\n\"'",
    ),
    honest(
        "git clone of a local repository",
        &["git"],
        "git init -q a; cd a; git config user.name a; git config user.email b; echo x > f; git add .; git commit -qm x; git gc -q; cd ..; git clone -q a b; git -C b log --oneline | grep -q x; git -C b worktree add -q ../c; git clone -q --no-local a d",
    ),
    honest(
        "git clone of a repository elsewhere",
        &["git"],
        "git clone -q $OUTSIDE b; git -C b log --oneline | grep -q first",
    ),
    honest(
        "cargo build",
        &["cargo"],
        "cargo init -q --vcs none --name small; cargo build -q --offline; ./target/debug/small | grep -q Hello",
    ),
    honest(
        "python -m venv",
        &["python3"],
        "python3 -m venv --without-pip env; env/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
    ),
    honest(
        "python -m venv with pip, where the system has it",
        &["python3"],
        "python3 -c 'import ensurepip' || exit 0; python3 -m venv env; env/bin/pip --version",
    )
    .when(When::Once),
    honest(
        "python: processes",
        &["python3"],
        "python3 - <<'END'\nimport multiprocessing, subprocess, threading, tempfile, sqlite3, asyncio, os\nfrom multiprocessing import shared_memory\ndef twice(n): return n * 2\nif True:\n    with multiprocessing.get_context('fork').Pool(2) as pool: assert pool.map(twice, [1, 2]) == [2, 4]\n    memory = shared_memory.SharedMemory(create=True, size=9); memory.close(); memory.unlink()\n    multiprocessing.Semaphore(1).acquire()\n    assert subprocess.run(['true']).returncode == 0\n    base = sqlite3.connect('base'); base.execute('pragma journal_mode=wal'); base.execute('create table t(x)'); base.commit()\n    async def main():\n        child = await asyncio.create_subprocess_exec('true'); assert await child.wait() == 0\n    asyncio.run(main())\n    tempfile.TemporaryFile().write(b'x')\nEND",
    ),
    honest(
        "shared memory of the old kind",
        &["ipcmk", "ipcrm"],
        "ipcrm -m $(ipcmk -M 4096 | grep -o '[0-9]*$')",
    )
    .when(When::WithNamespaces),
    honest(
        "script: a terminal",
        &["script"],
        "script -qec 'tty; stty size; echo x > /dev/tty' out < /dev/null; grep -q /dev/pts/ out",
    )
    .when(When::WithNamespaces),
    honest(
        "python: a terminal",
        &["python3"],
        "python3 -c 'import pty, os; assert pty.spawn([\"sh\", \"-c\", \"test -t 1 && : > /dev/tty\"]) == 0'",
    )
    .when(When::WithNamespaces),
    honest(
        "npm init",
        &["npm"],
        "mkdir -p small; cd small; npm init -y > /dev/null; grep -q version package.json",
    ),
    honest(
        "node",
        &["node"],
        "node -e \"const {execSync, fork} = require('child_process'); const fs = require('fs'); fs.writeFileSync('f', 'x'); execSync('true'); new (require('worker_threads').Worker)('0', {eval: true}); const s = require('net').createServer(c => c.end('x')).listen(0, '127.0.0.1', () => require('net').connect(s.address().port, '127.0.0.1').on('data', () => process.exit(0)))\"",
    ),
    honest("a server of its own", &["python3"], LOOPBACK),
    honest("keys", &["ssh-keygen", "whoami"], "ssh-keygen -q -t ed25519 -N '' -f key; test -s key.pub"),
    honest(
        "many files",
        &[],
        "mkdir m; cd m; seq 1000 | xargs touch; test $(ls | wc -l) = 1000; find . -delete",
    ),
];

const LOOPBACK: &str = "python3 - <<'END'\nimport socket, threading\nserver = socket.create_server(('127.0.0.1', 0))\nthreading.Thread(target=lambda: server.accept()[0].sendall(b'x'), daemon=True).start()\nassert socket.create_connection(server.getsockname(), 5).recv(1) == b'x'\nEND";

/// The default grant of a program: the workspace and the temporary directory.
fn grant(workspace: &Workspace) -> Grant {
    let root = |path: &Path| Root::resolve(Path::new("/"), path).unwrap();
    Grant::sandbox(SandboxMode::Sandbox, root(&workspace.path("")), [root(&std::env::temp_dir())])
}

/// Whether this user can run `program` without a sandbox. `whoami` runs for users with a name.
fn is_there(program: &str) -> bool {
    let mut tried = command(program);
    if program != "whoami" {
        tried.arg("--version");
    }
    tried.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    tried.status().is_ok_and(|status| !["cargo", "whoami"].contains(&program) || status.success())
}

/// Runs all possible scripts without the layers in `off`; returns the failed ones.
async fn run_all(off: Off) -> Vec<String> {
    let confiner = confiner(off);
    let is_wanted = |when| match when {
        When::Always => true,
        When::WithNamespaces => off == Off::NOTHING,
        When::Once => off == Off::NOTHING && std::env::var_os(ONCE).is_some(),
    };
    let mut failed = Vec::new();
    let outside = repository();
    for honest in HONEST.iter().filter(|honest| is_wanted(honest.when)) {
        if let Some(missing) = honest.programs.iter().find(|program| !is_there(program)) {
            eprintln!("SKIPPED {}: no `{missing}` here", honest.name);
            continue;
        }
        let mut workspace = Workspace::unheard();
        workspace.grant = grant(&workspace);
        let script = format!("OUTSIDE='{}'; set -eo pipefail; {}", outside.display(), honest.script);
        let bash = Bash::new(confiner.clone(), HANG);
        let result = workspace.call(&bash, json!({"command": script})).await.unwrap();
        if result.is_error {
            failed.push(format!("{}: {}", honest.name, result.content));
        }
    }
    failed
}

/// A repository that a command reads and does not write.
fn repository() -> std::path::PathBuf {
    let repository = std::env::temp_dir().with_file_name("repository");
    let script = "git init -q $0; cd $0; git config user.name a; git config user.email b; git commit -q --allow-empty -m first";
    assert!(command("sh").args(["-ec", script]).arg(&repository).status().unwrap().success());
    repository
}

/// SB02, SB09: everyday programs work in `sandbox` mode, for root and for an ordinary user.
#[tokio::test(flavor = "multi_thread")]
async fn honest_programs_work() {
    if is_inner() {
        return assert_eq!(run_all(Off::NOTHING).await, [""; 0]);
    }
    for_each_user("confine::honest::honest_programs_work");
}

/// SB08: everyday programs work without namespaces, as in most containers, except programs that need a device or a
/// namespace.
#[tokio::test(flavor = "multi_thread")]
async fn honest_programs_work_without_namespaces() {
    if is_inner() {
        return assert_eq!(run_all(Off::NAMESPACES).await, [""; 0]);
    }
    for_each_user("confine::honest::honest_programs_work_without_namespaces");
}

/// Enables the scripts of [`When::Once`].
const ONCE: &str = "HAFT_SUITE_ONCE";

fn for_each_user(test: &str) {
    for user in User::all(20) {
        let once = if matches!(user, User::Other(_)) { "HAFT_SUITE_AGAIN" } else { ONCE };
        let said = alone(test, user, (once, ""));
        said.lines()
            .filter(|line| line.starts_with("SKIPPED"))
            .for_each(|line| eprintln!("{user:?}: {line}"));
    }
}

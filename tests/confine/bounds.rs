//! Bounds of every command: its end, the end of haft, and the amount of its output.

use haft::native::bash::Bash;
use serde_json::json;

use super::cases::Off;
use super::host::{User, alone, command, confiner, confiner_by, is_inner};
use super::is_free;
use crate::common::HANG;
use crate::common::wait::eventually;
use crate::workspace::Workspace;

/// A command runs although its user has more threads than a call's limit.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_user_can_still_run_commands() {
    const THREADS: usize = 700;
    if !is_inner() {
        let test = "confine::bounds::a_busy_user_can_still_run_commands";
        return User::all(9).into_iter().for_each(|user| drop(alone(test, user, ("HAFT_SUITE", ""))));
    }
    let _busy: Vec<_> = (0..THREADS)
        .map(|_| std::thread::Builder::new().stack_size(64 << 10).spawn(std::thread::park).unwrap())
        .collect();
    let workspace = Workspace::unheard();
    let bash = Bash::new(confiner(Off::NOTHING), HANG);
    let result = workspace.call(&bash, json!({"command": "seq 9 | sort | cat"})).await.unwrap();
    assert!(!result.is_error, "{result:?}");
}

/// A chain of processes: each starts the next one and ends, so that a search misses it. Each holds the lock.
const CHAIN: &str = r#"
    #define _GNU_SOURCE
    #include <fcntl.h>
    #include <sys/file.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    int main() {
        if (syscall(SYS_clone, 17, 0, 0, 0, 0)) { while (access("held", F_OK)); return 0; }
        setsid(); close(0); close(1); close(2);
        flock(open("held", O_CREAT | O_RDWR, 0600), LOCK_SH);
        time_t end = time(0) + 3600;
        while (time(0) < end) if (syscall(SYS_clone, 0, 0, 0, 0, 0)) _exit(0);
        open("late", O_CREAT | O_WRONLY, 0600);
    }
"#;

/// TE14, TE15: haft stops a chain of short-lived processes after a call, also without namespaces, and among many
/// other processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_processes_is_stopped() {
    let workspace = Workspace::unheard();
    std::fs::write(workspace.path("chain.c"), CHAIN).unwrap();
    let mut compiler = command("cc");
    compiler.arg("-o").args([workspace.path("chain"), workspace.path("chain.c")]);
    if !compiler.status().is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no C compiler here");
        return;
    }
    let crowd: Vec<_> = (0..400).map(|_| command("sleep").arg("600").spawn().unwrap()).collect();
    for off in [Off::NOTHING, Off::NAMESPACES, Off::ALL] {
        let bash = Bash::new(confiner_by(env!("CARGO_BIN_EXE_haft"), off), HANG);
        let command = json!({"command": "./chain; ./chain; sleep 0.2"});
        assert!(!workspace.call(&bash, command).await.unwrap().is_error);
        eventually("the chains are stopped", || is_free(&workspace.path("held"))).await;
        std::fs::remove_file(workspace.path("held")).unwrap();
    }
    for mut idler in crowd {
        idler.kill().unwrap();
        idler.wait().unwrap();
    }
    assert_eq!(workspace.files("late"), [""; 0]);
}

//! The haft program: parses the command line and ends with the exit code of `cli`.

mod cli;

use std::process::ExitCode;

use self::cli::Cli;

/// musl's allocator has one lock for all threads, and `haft serve` allocates on many.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This precedes the start of any thread and every slow step.
    if let Some(code) = haft::backend::entry() {
        return code;
    }
    if cli::completions::answered() {
        return ExitCode::SUCCESS;
    }
    Cli::read().execute().into()
}

//! The helper program that confines a command: haft's helper without the rest of haft, because it starts in half
//! the time.

use std::process::ExitCode;

fn main() -> ExitCode {
    haft_sandbox::entry().unwrap_or(ExitCode::FAILURE)
}

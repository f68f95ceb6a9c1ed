//! The helper program that confines a command: the code of haft's helper in a program small enough to start in half
//! the time. It does nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    haft_sandbox::entry().unwrap_or(ExitCode::FAILURE)
}

//! The helper that haft starts beside itself to confine a command: the same code as in haft, in
//! a program small enough that starting it costs next to nothing. It refuses to be anything else.

use std::process::ExitCode;

fn main() -> ExitCode {
    haft_sandbox::entry().unwrap_or(ExitCode::FAILURE)
}

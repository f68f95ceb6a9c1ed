//! The haft program: reads the command line and ends with the code that `cli` says.

use std::process::ExitCode;

use clap::Parser;
use haft::cli::Cli;

fn main() -> ExitCode {
    // Before there is a second thread, and before anything else costs time.
    if let Some(code) = haft::backend::entry() {
        return code;
    }
    Cli::parse().execute().into()
}

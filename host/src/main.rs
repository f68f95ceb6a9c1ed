//! The haft program: reads the command line and ends with the code that `cli` says.

use std::process::ExitCode;

use clap::Parser;
use haft::cli::Cli;

fn main() -> ExitCode {
    // Before there is a second thread, and before anything else costs time.
    if let Some(code) = haft::backend::confine::entry() {
        return code;
    }
    let cli = Cli::parse();
    // One thread is enough for waiting; tools have threads and processes of their own.
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(cli.execute());
            runtime.shutdown_background();
            exit.into()
        }
        Err(error) => {
            anstream::eprintln!("error: cannot start: {error}");
            ExitCode::from(haft::cli::Exit::Failure.code())
        }
    }
}

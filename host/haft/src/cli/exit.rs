//! The exit codes of haft, on which scripts may rely.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The tool returned an error, a test failed, or the model gave no complete answer. `haft update --check`: a
    /// newer version is available.
    Tool,
    /// The command line is wrong (clap's own code).
    Usage,
    /// program.toml, or a file that it refers to, is invalid.
    Program,
    /// The task reached its turn limit or its budget before it was done.
    TurnCap,
    /// haft failed: the provider does not answer, the disk is full.
    Failure,
    /// `haft doctor`: the sandbox does not confine children as it must, or not at all.
    Sandbox,
    /// No consent: to a package of `haft add` or `haft update`, or to the rights that program.toml or a wrapped
    /// server requests.
    Declined,
    /// `haft verify`: an installed file differs from its pin.
    Changed,
    /// `haft exec`, `haft wrap`: the exit code of the command.
    Child(u8),
    /// Interrupted from the keyboard: 128 + SIGINT, as in shells.
    Interrupted,
}

/// The table of `haft self exit-codes`.
pub(super) const HELP: &str = "0    done
1    the tool returned an error, a test failed, or the model gave no complete answer;
     haft update --check: a newer version is available
2    the command line is wrong
3    program.toml, or a file that it refers to, is invalid
4    the task reached its turn limit or its budget before it was done
5    haft failed (provider, disk, …)
6    haft doctor: the sandbox failed an attempt that it must block
7    no consent: to a package, or to the rights that program.toml or a wrapped server requests
8    haft verify: an installed file differs from its pin
130  interrupted
";

/// Added to a signal's number in the exit code of a shell.
const SIGNALLED: i32 = 128;

impl Exit {
    /// Returns the end of haft after the end of its child, as a shell reports it.
    pub(super) fn of_child(status: ExitStatus) -> Self {
        let code = status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default());
        Self::Child(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Tool => 1,
            Exit::Usage => 2,
            Exit::Program => 3,
            Exit::TurnCap => 4,
            Exit::Failure => 5,
            Exit::Sandbox => 6,
            Exit::Declined => 7,
            Exit::Changed => 8,
            Exit::Interrupted => 130,
            Exit::Child(code) => code,
        })
    }
}

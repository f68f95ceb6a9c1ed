//! The exit codes of haft, on which scripts may rely.

use std::process::ExitCode;

/// The results of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
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

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Tool => 1,
            Self::Usage => 2,
            Self::Program => 3,
            Self::TurnCap => 4,
            Self::Failure => 5,
            Self::Sandbox => 6,
            Self::Declined => 7,
            Self::Changed => 8,
            Self::Interrupted => 130,
            Self::Child(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

//! The exit codes of haft, on which scripts may rely.

use std::process::ExitCode;

/// How haft ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything was done.
    Success,
    /// The tool answered with an error, a test failed, or the model gave no complete answer; `haft update --check`: there
    /// is something newer.
    Tool,
    /// The command line is wrong (clap's own code).
    Usage,
    /// program.toml, or something it names, is wrong.
    Program,
    /// The model was asked as often as allowed, or what the task may cost was spent, and it was not done.
    TurnCap,
    /// haft could not do its part: a provider that does not answer, a disk that is full.
    Failure,
    /// `haft doctor`: children are not confined as they should be, or not at all.
    Sandbox,
    /// Nobody agreed to what `haft add` or `haft update` showed, or to what program.toml or a wrapped server asks for.
    Declined,
    /// `haft verify`: something installed is not what was agreed to.
    Changed,
    /// `haft exec`, `haft wrap`: the command's own.
    Child(u8),
    /// Interrupted from the keyboard; 128 + SIGINT, as shells have it.
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

//! Exit codes: what scripts may rely on.

use std::process::ExitCode;

/// How haft ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Success = 0,
    /// The tool answered with an error, or the model gave no complete answer.
    Tool = 1,
    /// The command line is wrong (clap's own code).
    Usage = 2,
    /// program.toml, or something it names, is wrong.
    Program = 3,
    /// The model was asked as often as allowed and was not done.
    TurnCap = 4,
    /// haft could not do its part: a provider that does not answer, a disk that is full.
    Failure = 5,
    /// `haft doctor`: children are not confined as they should be, or not at all.
    Sandbox = 6,
    /// Nobody agreed to what `haft add` or `haft update` showed.
    Declined = 7,
    /// `haft verify`: something installed is not what was agreed to.
    Changed = 8,
    /// Interrupted from the keyboard; 128 + SIGINT, as shells have it.
    Interrupted = 130,
}

/// The table for `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  0    done
  1    the tool answered with an error, or the model gave no complete answer
  2    the command line is wrong
  3    program.toml, or something it names, is wrong
  4    the model was asked as often as allowed and was not done
  5    haft could not do its part (provider, disk, …)
  6    haft doctor: the sandbox does not hold what it should
  7    haft add, haft update: nobody agreed to what was shown
  8    haft verify: something installed is not what was agreed to
  130  interrupted";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

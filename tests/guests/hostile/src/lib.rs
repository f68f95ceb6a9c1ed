//! A plugin that misbehaves in every way: each tool is one attack, named after it. It does not know the host; the
//! error of the operating system becomes the tool's error, verbatim, so that the tests of the host can compare
//! it.
#![expect(
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what it is for: a guest that falls and shouts"
)]

/// One tool: its description, its type and name, its arguments, and what it does.
macro_rules! deed {
    (
        $(#[doc = $description:literal])+
        $type:ident, $name:literal { $($argument:ident: $kind:ty),* } |$self:ident, $context:ident| $body:expr
    ) => {
        $(#[doc = $description])+
        #[derive(serde::Deserialize, schemars::JsonSchema)]
        pub(crate) struct $type { $($argument: $kind),* }

        impl haft_plugin::Tool for $type {
            const NAME: &str = $name;

            fn call($self, $context: &haft_plugin::Context) -> Result<haft_plugin::Output, haft_plugin::Error> {
                $body
            }
        }
    };
}

mod escape;
mod fall;
mod files;
mod flood;
mod grow;
mod http;
mod network;
mod stay;
mod world;

use self::escape::{Append, Hold, ReadAgain, Resize, Touch, WriteAgain};
use self::fall::{Exit, Panic, Recurse, TalkAndPanic, Unreachable};
use self::files::{
    Create, Hardlink, ListDir, ManyFiles, Open, OpenNofollow, ReadLink, Remove, Rename, SetTimes, Stat,
    Symlink, Write, WriteMany, WriteSecretly,
};
use self::flood::{BadStructured, FloodHost, FloodPieces, FloodResult, FloodStderr, FloodStdout, Log, Print};
use self::grow::{Allocate, CountCalls, Fill, Leak};
use self::http::{HttpDrain, HttpGet, HttpHold, HttpMany, HttpPost};
use self::network::{Connect, Listen, LookUp, Udp};
use self::stay::{Linger, Progress, Sleep, SleepForever, Spin, SpinCalling, WaitCancel};
use self::world::{Args, Argument, Binary, Echo, Env, Paths, SetDir, Stdin, Structured, Variable};

haft_plugin::export!(
    Echo,
    Binary,
    CountCalls,
    Print,
    Log,
    Progress,
    Spin,
    SpinCalling,
    Sleep,
    SleepForever,
    WaitCancel,
    Panic,
    Exit,
    Unreachable,
    Recurse,
    Allocate,
    Fill,
    Leak,
    FloodResult,
    FloodPieces,
    FloodStdout,
    FloodStderr,
    FloodHost,
    BadStructured,
    Env,
    Args,
    Stdin,
    Paths,
    SetDir,
    Open,
    Write,
    Create,
    Stat,
    ListDir,
    ReadLink,
    Symlink,
    Hardlink,
    Rename,
    Remove,
    ManyFiles,
    Connect,
    Listen,
    Udp,
    LookUp,
    TalkAndPanic,
    Linger,
    Variable,
    Argument,
    Structured,
    OpenNofollow,
    WriteSecretly,
    WriteMany,
    SetTimes,
    HttpGet,
    HttpDrain,
    HttpPost,
    HttpMany,
    HttpHold,
    Append,
    Resize,
    ReadAgain,
    WriteAgain,
    Hold,
    Touch,
);

//! Saved sessions: all prompts, turns, calls and answers, one JSON line each, in a file that is only appended to.
//! Nothing is guessed: the model is informed of a call that was started and has no end in the file.
//!
//! - **Order:** a turn is in the file before any of its calls runs, a call before its tool runs, its answer before
//!   the model sees it. Each of these lines is synced to the disk before haft goes on, so that neither the end of
//!   the process nor that of the machine loses one.
//! - **Partial lines:** haft never acted on a line without an end. It is cut off when the session is opened again.
//! - **One writer:** a process that continues a session holds a lock on its file.
//! - **No secrets:** lines are redacted like answers and events.
//!
//! The full texts of answers that are too long for a model are stored beside it ([`Sessions::with_answers`]).

mod answers;
mod changes;
mod error;
mod file;
mod line;
mod log;
mod restore;
mod store;

pub(super) use self::answers::{Kept, Place};
pub use self::error::SessionError;
pub use self::line::{Begun, Ended, Entry, Line, Summarised, Turned};
pub use self::log::SessionLog;
pub use self::restore::{Known, Restored, Summary, UNKNOWN, Unanswered};
pub(super) use self::restore::{push_prompt, record};
pub use self::store::{Saved, Sessions};

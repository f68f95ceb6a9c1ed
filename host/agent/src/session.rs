//! Sessions that survive: everything said, called and answered, one JSON line each, in a file that is only ever added
//! to. Refuses to guess: the model is told of a call that was begun and whose end is not on file.
//!
//! - **Before and after:** a turn is on file before any of its calls is made, a call before its tool runs, its answer
//!   before the model sees it. Each of those lines is synced to the disk before haft goes on, so that neither the end
//!   of the process nor that of the machine loses one.
//! - **Torn lines:** a line without its end was never acted upon. It is cut off when the session is opened again.
//! - **One writer:** a process that continues a session holds a lock on its file.
//! - **No secrets:** lines go through the redactor like answers and events.
//!
//! Beside it are the whole texts of answers that are too long for a model ([`Sessions::with_answers`]).

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

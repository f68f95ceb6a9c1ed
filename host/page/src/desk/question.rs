//! The format of a question's file, and of its answer. The answer is bound to the digest of the question's file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::desk::{Desk, names};
use haft_core::encoding::hex;
use haft_core::random;
use haft_core::sync::Lock;
use haft_core::tool::{Difference, Keep, Question, clip};

/// The maximum number of characters of each text in the arguments. A longer text is shortened in the middle, and
/// the dashboard states that.
const MAX_TEXT: usize = 20_000;

/// The maximum size, in bytes, of arguments as JSON that are shown value by value.
const MAX_ARGUMENTS: usize = 256 << 10;

/// The maximum size of a question's file in bytes: the arguments, the text of the command, and the difference with
/// its context.
pub(super) const MAX_FILE: u64 = 2 << 20;

/// The asking process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The program of the tool.
    pub program: Option<String>,
    /// The folder in which haft was started.
    pub folder: Option<String>,
    /// The command of haft: `run`, `chat`, `serve`.
    pub verb: String,
}

/// A call that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    /// 128 random bits, unique to this question.
    pub(crate) id: String,
    pub(crate) origin: Origin,
    pub(crate) pid: u32,
    /// The caller's id of the call.
    pub(crate) call: String,
    pub(crate) time: Timestamp,
    /// The time at which the question expires.
    pub(crate) until: Timestamp,
    pub(crate) tool: String,
    pub(crate) agent: Option<String>,
    /// The kind of action: `Run`, `Fetch`, `Call`.
    pub(crate) verb: String,
    pub(crate) what: String,
    pub(crate) difference: Option<Difference>,
    pub(crate) arguments: Value,
    /// Whether texts of the arguments are shortened.
    pub(crate) is_cut: bool,
    /// Whether the answer may hold for all further calls of the tool in the session.
    pub(crate) for_session: bool,
    /// The command that writes the requested right to program.toml, if the answer may do that.
    pub(crate) written_by: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Once,
    Session,
    Write,
    Refuse,
}

/// The content of an answer's file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) digest: String,
    pub(super) answer: Answer,
}

impl Waiting {
    pub(super) fn new(
        id: String,
        question: &Question,
        origin: Origin,
        patience: Duration,
        for_session: bool,
    ) -> Self {
        let (arguments, is_cut) = shown(&question.arguments);
        let time = Timestamp::now();
        Self {
            id,
            origin,
            pid: std::process::id(),
            call: question.call.clone(),
            time,
            until: time.checked_add(patience).unwrap_or(time),
            tool: question.tool.clone(),
            agent: question.agent.clone(),
            verb: question.verb.to_owned(),
            what: question.what.clone(),
            difference: question.difference.clone(),
            arguments,
            is_cut,
            for_session,
            written_by: question.written_by.clone().filter(|_| for_session),
        }
    }
}

pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the arguments as shown, and whether something is omitted.
fn shown(arguments: &Value) -> (Value, bool) {
    let (cut, is_cut) = cut(arguments);
    let text = cut.to_string();
    if text.len() <= MAX_ARGUMENTS { (cut, is_cut) } else { (clip(&text, MAX_TEXT, Keep::Ends).into(), true) }
}

fn cut(value: &Value) -> (Value, bool) {
    match value {
        Value::String(text) => {
            let kept = clip(text, MAX_TEXT, Keep::Ends);
            let is_cut = kept.len() != text.len();
            (Value::String(kept), is_cut)
        }
        Value::Array(items) => {
            let (items, cuts): (Vec<_>, Vec<_>) = items.iter().map(cut).unzip();
            (Value::Array(items), cuts.contains(&true))
        }
        Value::Object(fields) => {
            let mut is_any_cut = false;
            let fields = fields.iter().map(|(name, value)| {
                let (value, is_cut) = cut(value);
                is_any_cut |= is_cut;
                (name.clone(), value)
            });
            let fields = fields.collect();
            (Value::Object(fields), is_any_cut)
        }
        other => (other.clone(), false),
    }
}

// Whether a page is open: a file is locked while a browser shows the page.

/// The prefix of the files.
const OPEN: &str = "open-";

/// Time that a dashboard counts as open after its last browser disconnects: a reload takes less.
pub(super) const RELOAD: Duration = Duration::from_secs(10);

/// Marks a page as open, as long as a browser shows it.
pub(crate) struct Presence {
    desk: Desk,
    now: Lock<Weak<Sign>>,
}

/// A browser that shows the page.
pub(crate) struct Shown(Option<Arc<Sign>>);

/// The locked file.
struct Sign {
    path: PathBuf,
    _file: File,
}

impl Desk {
    /// Returns whether a browser shows a page of this user. Removes the files of pages that have ended.
    pub(crate) fn is_open(&self) -> io::Result<bool> {
        for name in names(&self.folder, |name| name.starts_with(OPEN))? {
            let path = self.folder.join(name);
            let file = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file?,
            };
            if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
                return Ok(true);
            }
            drop(fs::remove_file(path));
        }
        Ok(false)
    }
}

impl Presence {
    pub(crate) fn new(desk: Desk) -> Self {
        Self { desk, now: Lock::default() }
    }

    /// Records that a browser shows the page.
    pub(crate) fn enter(&self) -> io::Result<Shown> {
        let mut now = self.now.lock();
        let is_there = |sign: &Arc<Sign>| sign.path.exists();
        if let Some(sign) = now.upgrade().filter(is_there) {
            return Ok(Shown(Some(sign)));
        }
        let sign = Arc::new(Sign::raise(&self.desk)?);
        *now = Arc::downgrade(&sign);
        Ok(Shown(Some(sign)))
    }
}

impl Sign {
    fn raise(desk: &Desk) -> io::Result<Self> {
        let name = format!("{OPEN}{}-{}", std::process::id(), hex(&random::bytes::<8>()?));
        let (path, new) = (desk.folder.join(&name), desk.folder.join(format!(".{name}")));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        // Locked before other processes can find the file, because an unlocked file is removed.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&new, &path)?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Shown {
    /// Marks the dashboard as open for a while longer, because the browser may be reloading it.
    fn drop(&mut self) {
        if let (Some(sign), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                tokio::time::sleep(RELOAD).await;
                drop(sign);
            });
        }
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

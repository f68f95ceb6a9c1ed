//! Files on a target, read and written by a script that runs there, without the pane. The target checks access
//! by the resolved path; the confinement of a model's commands (the sandbox, the container, the account, the
//! haft of another host) applies to these scripts too. Refuses devices, pipes and other special files.

use std::time::Duration;

use super::Plain;
use crate::backend::remote_script::{self, Report};
use crate::backend::script::{FILE, READ, Script, WRITE, quoted, unguessable};
use crate::backend::transport::RunAs;
use crate::error::{BackendError, no_directory};
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;
use haft_core::tool::Context;

/// Time limit of a read or write: 100 kB over a slow line, or a disk that spins up.
const PATIENCE: Duration = Duration::from_mins(1);

/// System directories: a process that can write them controls the target.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    "/Library",
    "/System",
    "/private/etc",
];
/// Directories without regular files.
const KERNEL: &[&str] = &["/dev", "/proc", "/sys"];
/// Directories with keys, below the home directory.
const KEYS: &[&str] = &[".ssh", ".gnupg", ".aws", ".kube", ".config/gcloud"];

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes, unchanged.
    pub bytes: Vec<u8>,
    /// The size of the whole file, in bytes.
    pub total: u64,
}

struct Kept {
    limit: usize,
    bytes: Lock<Vec<u8>>,
}

impl OutputSink for Kept {
    fn take(&self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Output {
            let mut kept = self.bytes.lock();
            let room = self.limit.saturating_sub(kept.len());
            kept.extend(bytes.iter().take(room));
        }
    }
}

impl Plain {
    pub(super) async fn read_file(
        &self,
        path: &str,
        offset: u64,
        limit: usize,
        context: &Context<'_>,
    ) -> Result<Piece, BackendError> {
        let script = self.file_script("read", path)?;
        let script = script.with("offset", &offset.to_string()).with("limit", &limit.to_string()).then(READ);
        let kept = Kept { limit, bytes: Lock::default() };
        let status = self.run_on_file("read", path, &script, Vec::new(), &kept, context).await?;
        let bytes = kept.bytes.into_inner();
        let total = status.parse().unwrap_or(bytes.len() as u64);
        Ok(Piece { bytes, total })
    }

    pub(super) async fn write_file(
        &self,
        path: &str,
        bytes: Vec<u8>,
        context: &Context<'_>,
    ) -> Result<(), BackendError> {
        let mark = unguessable()?;
        let script = self.file_script("write", path)?;
        let script = script.with("mark", &mark).with("size", &bytes.len().to_string()).then(WRITE);
        let kept = Kept { limit: 0, bytes: Lock::default() };
        self.run_on_file("write", path, &script, bytes, &kept, context).await.map(drop)
    }

    fn file_script(&self, action: &str, path: &str) -> Result<Script, BackendError> {
        if path.is_empty() || path.contains('\0') {
            return Err(self.file_failed(action, path, "a path has at least one character and no NUL"));
        }
        let script = Script::new()?;
        let script = match self.exec().as_str() {
            "" => script.with("directory", &self.directory),
            wrapper => script.wrapped(wrapper, &self.directory).with("directory", ""),
        };
        Ok(script.with("path", path).then(FILE).then(&self.judge(action)))
    }

    /// Returns the shell function that ends the script if access is denied.
    fn judge(&self, action: &str) -> String {
        let body = match &self.allowed {
            _ if self.is_local => ":".to_owned(),
            Some(allowed) => {
                let rule = |directory: &String| format!("haft_within {} && return 0\n", root(directory));
                let rules: String = allowed.iter().map(rule).collect();
                format!("{rules}haft_end '!outside'")
            }
            None => {
                let roots = if action == "read" { KERNEL } else { SYSTEM };
                let home = KEYS.iter().map(|name| format!("~/{name}"));
                let directories = roots.iter().map(|root| (*root).to_owned()).chain(home);
                let rule = |directory: String| {
                    format!(
                        "! haft_within {} || haft_end {}\n",
                        root(&directory),
                        quoted(&format!("!denied {directory}"))
                    )
                };
                directories.map(rule).collect()
            }
        };
        format!("haft_judge() {{\n{body}\n}}")
    }

    async fn run_on_file(
        &self,
        action: &str,
        path: &str,
        script: &Script,
        bytes: Vec<u8>,
        out: &Kept,
        context: &Context<'_>,
    ) -> Result<String, BackendError> {
        let stop = context.cancel.child_token();
        let script = remote_script::run(
            &*self.transport,
            RunAs::Model(context.grant),
            script,
            Some(bytes),
            out,
            &stop,
        );
        let mut script = std::pin::pin!(script);
        let report = tokio::select! {
            report = &mut script => report?,
            () = tokio::time::sleep(PATIENCE) => {
                stop.cancel();
                script.await?;
                return Err(self.file_failed(action, path, &format!("no end within {} s", PATIENCE.as_secs())));
            }
        };
        let Report::Status(status) = report else { return Err(BackendError::Cancelled) };
        match status.strip_prefix("0").map(str::trim) {
            Some(rest) => Ok(rest.to_owned()),
            None if status == "!directory" => Err(no_directory(&self.directory, &self.transport.name())),
            None => Err(self.file_failed(action, path, &self.why(&status, action))),
        }
    }

    fn why(&self, status: &str, action: &str) -> String {
        match status {
            "!folder" => "it is a directory, not a file".into(),
            "!file" => "a part of the path is a file, not a directory".into(),
            "!parent" => "its directory does not exist or cannot be entered".into(),
            "!links" => "the path has too many links".into(),
            "!missing" => "there is no such file".into(),
            "!special" => "it is a device, a pipe or a socket, not a file".into(),
            "!permission" => "permission denied".into(),
            "!parent_permission" => "permission denied: its directory may not be written".into(),
            "!short" => "it did not arrive completely; the file is unchanged".into(),
            "!outside" => "it is outside the directories of `files` in `[backend]`".into(),
            status => match (status.strip_prefix("!system "), status.strip_prefix("!denied ")) {
                (Some(words), _) => haft_core::report::plain(words),
                (_, Some(root)) => format!(
                    "it is in `{root}`, which tools must not {action}\nhint: haft proposes no line to allow \
                     it; set the allowed directories with `files` in `[backend]`"
                ),
                _ => format!("the target's shell ended with `{}`", haft_core::report::plain(status)),
            },
        }
    }

    fn file_failed(&self, action: &str, path: &str, why: &str) -> BackendError {
        BackendError::Target(format!("cannot {action} `{path}` on {}: {why}", self.transport.name()))
    }
}

/// Quotes a directory for the target's shell; `~` is the home directory there.
fn root(directory: &str) -> String {
    match directory.strip_prefix("~/") {
        Some(rest) => format!("\"$HOME\"/{}", quoted(rest)),
        None if directory == "~" => "\"$HOME\"".to_owned(),
        None => quoted(directory),
    }
}

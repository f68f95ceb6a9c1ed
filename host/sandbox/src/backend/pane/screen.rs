//! The content of a pane, and keys for it. Refuses all panes except haft's own: others may belong to a person,
//! with more rights.

use async_trait::async_trait;

use super::{Nowhere, Paned, keys};
use crate::backend::script::{CAPTURE, KEYS, SCREEN};
use crate::error::BackendError;
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;

/// Limit on the bytes of a screen with its history; the end is kept.
const MAX_SCREEN: usize = 4 << 20;

/// A pane that can be captured and typed into.
#[async_trait]
pub trait Screen: Send + Sync {
    /// Returns the content of the pane.
    async fn capture(&self, snapshot: &Snapshot) -> Result<Captured, BackendError>;

    /// Types `literal`, presses `keys`, then Enter if `enter` is set. Returns the pane's id.
    async fn send(
        &self,
        target: Option<&str>,
        literal: &str,
        keys: &[String],
        enter: bool,
    ) -> Result<String, BackendError>;
}

/// The parameters of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, as tmux has them")]
pub struct Snapshot {
    /// The pane in tmux's syntax; `None` for haft's pane.
    pub(crate) target: Option<String>,
    /// The first line: `-` is the start of the history, negative numbers count into it.
    pub start: Option<String>,
    /// The last line.
    pub end: Option<String>,
    /// Whether wrapped lines are joined.
    pub join: bool,
    /// Whether trailing spaces are kept.
    pub(crate) trailing: bool,
    /// Whether colours are kept, as escape sequences.
    pub(crate) escapes: bool,
    /// Whether unprintable characters are written as octal numbers.
    pub(crate) octal: bool,
    /// Whether the alternate screen is captured, which has no history.
    pub(crate) alternate: bool,
}

/// The content of a pane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The text.
    pub text: String,
    /// Whether the alternate screen was requested and does not exist.
    pub(crate) fell_back: bool,
}

impl Snapshot {
    /// Returns the flags of `capture-pane` for a shell. Each line is `-` or a number.
    pub(crate) fn flags(&self) -> Result<String, BackendError> {
        let mut flags: Vec<String> = Vec::new();
        let switches = [(self.join, "-J"), (self.trailing, "-N"), (self.escapes, "-e"), (self.octal, "-C")];
        flags.extend(switches.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag.to_owned()));
        for (flag, name, value) in [("-S", "start", &self.start), ("-E", "end", &self.end)] {
            let Some(value) = value else { continue };
            if value != "-" && value.parse::<i32>().is_err() {
                let message = format!(
                    "`{name}` is `{}`; expected a line number or `-`",
                    haft_core::report::plain(value)
                );
                return Err(BackendError::Screen(message));
            }
            flags.extend([flag.to_owned(), value.clone()]);
        }
        Ok(flags.join(" "))
    }
}

/// Keeps the last bytes of the output.
#[derive(Default)]
struct End(Lock<Vec<u8>>);

impl OutputSink for End {
    fn take(&self, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Output {
            let mut kept = self.0.lock();
            kept.extend_from_slice(bytes);
            let surplus = kept.len().saturating_sub(MAX_SCREEN);
            kept.drain(..surplus);
        }
    }
}

impl Paned {
    fn refused(&self, status: &str) -> BackendError {
        match status.split_once(' ') {
            Some(("!target", pane)) => BackendError::Screen(format!(
                "`target` is none of haft's panes; leave it away, or write `{}`",
                haft_core::report::plain(pane)
            )),
            _ if status == "!pane" => BackendError::Screen(
                "there is no pane any more: it was closed, and the next command makes a new one".into(),
            ),
            _ => self.explained(status),
        }
    }

    /// Returns the pane's id of a status line, and whether the capture fell back to the main screen.
    fn shown_pane(&self, status: &str) -> Result<(String, bool), BackendError> {
        let mut words = status.split(' ');
        match (words.next(), words.next()) {
            (Some("0"), Some(pane)) => Ok((pane.to_owned(), words.next().is_some())),
            _ => Err(self.refused(status)),
        }
    }
}

#[async_trait]
impl Screen for Paned {
    async fn capture(&self, snapshot: &Snapshot) -> Result<Captured, BackendError> {
        let script = self.script()?;
        let script = script
            .with("target", snapshot.target.as_deref().unwrap_or_default())
            .with("alternate", if snapshot.alternate { "yes" } else { "" })
            .then(SCREEN)
            .then(&format!("set -- {}", snapshot.flags()?))
            .then(CAPTURE);
        let end = End::default();
        let status = self.ask(&script, &end).await?;
        let (_, fell_back) = self.shown_pane(&status)?;
        let bytes = end.0.into_inner();
        Ok(Captured { text: String::from_utf8_lossy(&bytes).into_owned(), fell_back })
    }

    async fn send(
        &self,
        target: Option<&str>,
        literal: &str,
        keys: &[String],
        enter: bool,
    ) -> Result<String, BackendError> {
        if let Some(unknown) = keys.iter().find(|key| !keys::is_key(key)) {
            return Err(BackendError::Screen(format!(
                "`{}` is no key that tmux knows; keys are named like `C-c`, `Enter`, `Up`, `F5`, and text goes into \
                 `literal_text`",
                haft_core::report::plain(unknown)
            )));
        }
        let arguments = keys::arguments("\"$haft_pane\"", literal, keys, enter);
        let script = self.script()?.with("target", target.unwrap_or_default()).then(SCREEN);
        let script = script.then(&format!("set -- \\; {arguments}")).then(KEYS);
        let status = self.ask(&script, &Nowhere).await?;
        Ok(self.shown_pane(&status)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TM02: each flag of the tool maps to the flag of tmux with its name.
    #[test]
    fn tm02_flags_are_those_of_tmux() {
        let flags = |snapshot: Snapshot| snapshot.flags().unwrap();
        assert_eq!(flags(Snapshot::default()), "");
        let all = Snapshot { join: true, trailing: true, escapes: true, octal: true, ..Snapshot::default() };
        assert_eq!(flags(all), "-J -N -e -C");
        let lines = Snapshot { start: Some("-".into()), end: Some("-3".into()), ..Snapshot::default() };
        assert_eq!(flags(lines), "-S - -E -3");
        let odd = Snapshot { start: Some("1; kill-server".into()), ..Snapshot::default() };
        assert!(odd.flags().unwrap_err().to_string().contains("expected a line number or `-`"));
    }
}

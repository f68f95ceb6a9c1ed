//! Asks the user for the rights that the sandbox refused during a call, and repeats the call once with them.
//! Applies only to tools that act with the grant of their call.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use super::approval::visible;
use crate::grant::{Grant, Right};
use crate::sync::Lock;

/// Adds rights to a grant, with all closed paths; `None` if the grant cannot have them.
type Widen = dyn Fn(&Grant, &[Right]) -> Option<Grant> + Send + Sync;

/// Writes the rights of a tool to program.toml; why that cannot be.
type Write = dyn Fn(String, Vec<Right>) -> Writing + Send + Sync;

/// The future of [`Widening::writing`].
pub(super) type Writing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Asks the user for rights, and remembers the answers of this session. By default no user is asked. Clones share
/// the state.
#[derive(Clone, Default)]
pub struct Widening(Option<Arc<Inner>>);

struct Inner {
    widen: Arc<Widen>,
    write: Option<Arc<Write>>,
    /// The rights that the user gave for the session, by the tool's name.
    given: Lock<Vec<(String, Right)>>,
    /// The rights that the user declined: they are not asked for again.
    declined: Lock<Vec<(String, Right)>>,
}

impl Widening {
    /// Grants get more by `widen`.
    pub fn by(widen: impl Fn(&Grant, &[Right]) -> Option<Grant> + Send + Sync + 'static) -> Self {
        Self::new(Arc::new(widen), None)
    }

    fn new(widen: Arc<Widen>, write: Option<Arc<Write>>) -> Self {
        let (given, declined) = (Lock::default(), Lock::default());
        Self(Some(Arc::new(Inner { widen, write, given, declined })))
    }

    /// Returns the widening of a new session, in which the user can also have the rights of a tool written by
    /// `write`.
    #[must_use]
    pub fn writing(self, write: impl Fn(String, Vec<Right>) -> Writing + Send + Sync + 'static) -> Self {
        self.0.map_or_else(Self::default, |inner| Self::new(inner.widen.clone(), Some(Arc::new(write))))
    }

    /// Returns the widening for a new session.
    #[must_use]
    pub fn of_another_session(&self) -> Self {
        self.0
            .as_ref()
            .map_or_else(Self::default, |inner| Self::new(inner.widen.clone(), inner.write.clone()))
    }

    /// Returns the shell command that writes `rights` of `tool`, if they can be written. `None` for a path that is
    /// not printable.
    pub(super) fn written_by(&self, tool: &str, rights: &[String]) -> Option<String> {
        let can_write = self.0.as_ref().is_some_and(|inner| inner.write.is_some());
        let word = |right: &String| match right.split_once('=') {
            Some((what, value)) => format!("{what}={}", shell_words::quote(value)),
            None => shell_words::quote(right).into_owned(),
        };
        let rights: Vec<String> = rights.iter().map(word).collect();
        let command = can_write.then(|| format!("haft grant {tool} {}", rights.join(" ")))?;
        (visible(&command) == command && !command.contains('\n')).then_some(command)
    }

    /// Writes `rights` of `tool` to program.toml.
    pub(super) async fn write(&self, tool: &str, rights: &[Right]) -> Result<(), String> {
        match self.0.as_ref().and_then(|inner| inner.write.as_ref()) {
            Some(write) => write(tool.to_owned(), rights.to_vec()).await,
            None => Err("this run has no program.toml to write to".into()),
        }
    }

    /// Returns this widening if `is_allowed` returns `true`, otherwise a widening that asks no user.
    pub(super) fn filtered(self, is_allowed: impl FnOnce() -> bool) -> Self {
        Self(self.0.filter(|_| is_allowed()))
    }

    /// Returns whether the user may be asked.
    pub fn is_possible(&self) -> bool {
        self.0.is_some()
    }

    /// Returns `grant` with the rights that the user gave `tool` for the session, if any.
    pub(super) fn given(&self, tool: &str, grant: &Grant) -> Option<Grant> {
        let inner = self.0.as_ref()?;
        let own = |(name, right): &(String, Right)| (name == tool).then(|| right.clone());
        let rights: Vec<Right> = inner.given.lock().iter().filter_map(own).collect();
        if rights.is_empty() { None } else { (inner.widen)(grant, &rights) }
    }

    /// Returns `grant` with `rights`, unless the user has declined them for `tool`.
    pub(super) fn widened(&self, tool: &str, grant: &Grant, rights: &[Right]) -> Option<Grant> {
        let inner = self.0.as_ref()?;
        let is_declined = |right| inner.declined.lock().contains(&(tool.to_owned(), right));
        if rights.is_empty() || rights.iter().cloned().any(is_declined) {
            return None;
        }
        (inner.widen)(grant, rights).filter(|wider| wider != grant)
    }

    /// Records that the user gave `rights` to `tool` for the session.
    pub(super) fn give(&self, tool: &str, rights: &[Right]) {
        self.note(|inner| &inner.given, tool, rights);
    }

    /// Records that the user declined `rights`.
    pub(super) fn decline(&self, tool: &str, rights: &[Right]) {
        self.note(|inner| &inner.declined, tool, rights);
    }

    fn note(&self, list: impl Fn(&Inner) -> &Lock<Vec<(String, Right)>>, tool: &str, rights: &[Right]) {
        if let Some(inner) = &self.0 {
            list(inner).lock().extend(rights.iter().map(|right| (tool.to_owned(), right.clone())));
        }
    }
}

impl fmt::Debug for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Widening").field(&self.is_possible()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_one_that_a_person_may_copy() {
        let widening = Widening::by(|_, _| None);
        let written = |widening: &Widening, right: &str| widening.written_by("bash", &[right.to_owned()]);
        assert_eq!(written(&widening, "write=/a"), None, "nothing can be written");
        let widening = widening.writing(|_, _| Box::pin(async { Ok(()) }));
        for (right, command) in [
            ("write=/a", Some("haft grant bash write=/a")),
            ("write=/a b; rm -rf ~", Some("haft grant bash write='/a b; rm -rf ~'")),
            ("write=/a\u{1b}[2J", None),
            ("write=/a\u{202e}b", None),
            ("write=/a\nb", None),
        ] {
            assert_eq!(written(&widening, right).as_deref(), command, "{right:?}");
        }
    }
}

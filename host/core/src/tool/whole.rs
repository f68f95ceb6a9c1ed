//! The whole of an answer of which a caller is given a part. Refuses to hold more than [`Whole::MAX`] characters, and
//! anything at all where nobody asked for it.

use std::sync::Arc;

use crate::sync::Lock;

/// Where a tool leaves the whole of what it had to shorten, for a caller that keeps it elsewhere. Nobody wants it by
/// default. Clones are the same place; each call has its own.
#[derive(Clone, Debug, Default)]
pub struct Whole(Option<Arc<Lock<Option<String>>>>);

impl Whole {
    /// Characters: 4 million, what a build of a large program prints; of more the beginning and the end are kept.
    pub const MAX: usize = 4_000_000;

    /// A place for the whole of one answer.
    pub fn wanted() -> Self {
        Self(Some(Arc::default()))
    }

    /// How many characters a tool is to keep of what it shows `shown` of.
    pub fn room(&self, shown: usize) -> usize {
        if self.0.is_some() { Self::MAX.max(shown) } else { shown }
    }

    /// Leaves the text that `whole` makes, which had to be shortened to `answer`, where somebody wants it.
    pub fn leave(&self, answer: &str, whole: impl FnOnce() -> String) {
        let Some(place) = &self.0 else { return };
        let whole = whole();
        if whole.len() > answer.len() {
            *place.lock() = Some(whole);
        }
    }

    /// Takes what was left.
    pub fn take(&self) -> Option<String> {
        self.0.as_ref()?.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_is_kept_only_where_it_is_wanted_and_more_than_the_answer() {
        let nobody = Whole::default();
        nobody.leave("a", || panic!("nobody wants it"));
        assert_eq!((nobody.room(7), nobody.take()), (7, None));
        let wanted = Whole::wanted();
        wanted.leave("all of it", || "all of it".into());
        assert_eq!((wanted.room(7), wanted.take()), (Whole::MAX, None));
        wanted.clone().leave("a", || "abc".into());
        assert_eq!((wanted.take(), wanted.take()), (Some("abc".into()), None));
    }
}

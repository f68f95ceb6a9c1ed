//! Labels of workers: the machines on which a tool runs. A label is a name, and grants no right.

use std::fmt;
use std::str::FromStr;

use super::entry::Entry;
use super::name::{Name, NameError};
use super::table::{FromValue, Kind, texts};

/// A label of workers, or `*` for any worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(String);

texts! { Label: Kind::Pattern(r"^(\*|[a-z0-9][a-z0-9-]{0,31})$") }

/// What [`Label::read_list`] reads.
pub(super) const LABELS: Kind = <Vec<Label>>::KIND;

impl Label {
    /// Whether it means any worker.
    pub fn is_any(&self) -> bool {
        self.0 == "*"
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a worker with `labels` is one of those that `on` names.
    pub fn are_met(on: &[Self], labels: &[Self]) -> bool {
        on.iter().any(|label| label.is_any() || labels.contains(label))
    }

    /// Those of a list, for people: `eu` or `gpu`.
    pub fn listed(on: &[Self]) -> String {
        on.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(" or ")
    }

    /// A list of at least one.
    pub(super) fn read_list(entry: &Entry<'_>) -> Option<Vec<Self>> {
        let labels: Vec<Self> = entry.list(Entry::parse)?;
        if labels.is_empty() && entry.raw().as_array().is_some_and(|array| array.iter().len() == 0) {
            return entry.reject(
                "expected labels of workers, such as `[\"eu\"]`; remove the key for a tool that runs on this \
                 machine",
            );
        }
        Some(labels)
    }
}

impl FromStr for Label {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            Ok(Self(text.to_owned()))
        } else {
            text.parse::<Name>().map(|name| Self(name.into()))
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(texts: &[&str]) -> Vec<Label> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_common_label_is_enough_and_a_star_means_any_worker() {
        assert!(Label::are_met(&labels(&["eu", "gpu"]), &labels(&["gpu", "big"])));
        assert!(!Label::are_met(&labels(&["eu"]), &labels(&["us"])));
        assert!(Label::are_met(&labels(&["*"]), &[]));
        assert!(!Label::are_met(&[], &labels(&["eu"])));
        assert!("EU".parse::<Label>().is_err() && "a*".parse::<Label>().is_err());
    }
}

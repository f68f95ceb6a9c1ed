//! The identity of a keyless signature: an OIDC issuer and a name at this issuer. Decides which verified
//! certificates a required identity admits.

use std::fmt;

/// The prefix of an identity's one-word form.
pub const SIGSTORE: &str = "sigstore:";

/// Limit on the characters of an issuer or a subject: ten times the longest address of a workflow.
const MAX_NAME: usize = 2000;

/// Precedes the branch or tag in the URL of a workflow.
const REFERENCE: &str = "@refs/";

/// Between the repository and the workflow of another repository that built for it.
const VIA: &str = " via ";

/// The identity in a certificate. Written `sigstore:ISSUER#SUBJECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The URL of the issuer, which has no fragment (OIDC Discovery 1.0, 3).
    issuer: String,
    /// An e-mail address or the URL of a workflow. For a workflow of another repository `REPOSITORY via WORKFLOW`,
    /// because every repository may use such a workflow.
    subject: String,
}

impl Identity {
    /// Parses `ISSUER#SUBJECT`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (issuer, subject) = text.split_once('#')?;
        Self::new(issuer, subject)
    }

    /// Returns the identity of these names, if they can be shown and written.
    pub(super) fn new(issuer: &str, subject: &str) -> Option<Self> {
        let is_name = |text: &str| {
            let is_plain = !text.contains(|c: char| c.is_control() || c == '`');
            !text.is_empty() && is_plain && text.chars().count() <= MAX_NAME
        };
        let is_right = is_name(issuer) && is_name(subject) && !issuer.contains('#');
        is_right.then(|| Self { issuer: issuer.to_owned(), subject: subject.to_owned() })
    }

    /// Returns the identity of a workflow's certificate. `repository` is the repository of the built code, if stated.
    pub(super) fn of_workflow(issuer: &str, workflow: &str, repository: Option<&str>) -> Option<Self> {
        let is_own =
            |repository: &str| workflow.strip_prefix(repository).is_some_and(|rest| rest.starts_with('/'));
        match repository {
            Some(repository) if !is_own(repository) => {
                Self::new(issuer, &format!("{repository}{VIA}{workflow}"))
            }
            _ => Self::new(issuer, workflow),
        }
    }

    /// Returns the identity without the branch or tag of a workflow: another version is built from another tag.
    pub(super) fn lasting(&self) -> Self {
        let subject = match self.subject.split_once(REFERENCE) {
            Some((workflow, _)) if workflow.starts_with("https://") => workflow,
            _ => &self.subject,
        };
        Self { issuer: self.issuer.clone(), subject: subject.to_owned() }
    }

    /// Reports whether this required identity admits the identity of a certificate: an equal one, or, if this one has
    /// no branch and no tag, that of the workflow with any.
    pub(super) fn admits(&self, found: &Self) -> bool {
        self == found || *self == found.lasting()
    }

    /// Describes the identity, for messages.
    pub fn describe(&self) -> String {
        format!("`{}`, as `{}` knows it", self.subject, self.issuer)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SIGSTORE}{}#{}", self.issuer, self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://token.example.com";

    fn identity(subject: &str) -> Identity {
        Identity::new(ISSUER, subject).unwrap()
    }

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        let workflow = identity("https://a.test/o/r/.github/workflows/x.yml@refs/heads/fix#1");
        let written = workflow.to_string();
        assert_eq!(Identity::parse(written.strip_prefix(SIGSTORE).unwrap()), Some(workflow));
        for wrong in ["", "#", "a#", "#b", "a", "a#b`", "a#b\n", &format!("a#{}", "b".repeat(2001))] {
            assert_eq!(Identity::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_workflow_is_admitted_from_every_tag_unless_one_is_named() {
        let found = identity("https://a.test/o/r/x.yml@refs/tags/v1");
        for admitting in ["https://a.test/o/r/x.yml", "https://a.test/o/r/x.yml@refs/tags/v1"] {
            assert!(identity(admitting).admits(&found), "{admitting}");
        }
        for other in
            ["https://a.test/o/r", "https://a.test/o/r/x.yml@refs/tags/v2", "https://a.test/o/r/x.ym"]
        {
            assert!(!identity(other).admits(&found), "{other}");
        }
        let elsewhere = Identity::new("https://other.example.com", "https://a.test/o/r/x.yml").unwrap();
        assert!(!elsewhere.admits(&found));
        // A person's address has no such suffix.
        assert!(!identity("ada").admits(&identity("ada@refs/x")));
    }

    #[test]
    fn a_workflow_of_others_is_named_with_the_repository_that_it_built() {
        let of =
            |repository| Identity::of_workflow(ISSUER, "https://a.test/o/r/x.yml@refs/tags/v1", repository);
        assert_eq!(of(Some("https://a.test/o/r")), of(None));
        for other in ["https://a.test/o/r2", "https://a.test/o/", "https://a.test/evil/r"] {
            let found = of(Some(other)).unwrap();
            assert_ne!(Some(found.clone()), of(None));
            assert!(!identity("https://a.test/o/r/x.yml").admits(&found), "{other}");
            assert!(identity(&format!("{other} via https://a.test/o/r/x.yml")).admits(&found));
        }
    }
}

//! Where a session lives. Where several replicas serve a program, the id of a session says which of them opened it, so that
//! any other can tell.

use std::io;

use haft_core::random;

/// What stands in an id between what nobody guesses and where the session lives.
const AT: char = '@';

/// Characters of the name of a machine that stand in an id.
const MAX_NAME: usize = 64;

/// The name of a replica: of its machine, and its port there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home(String);

impl Home {
    /// The replica that listens at `port` of `machine`.
    pub(super) fn named(machine: &str, port: u16) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let machine: String = machine.chars().take(MAX_NAME).map(plain).collect();
        Self(format!("{machine}-{port}"))
    }

    /// A new id of a session that lives here.
    pub(super) fn session_id(&self) -> io::Result<String> {
        Ok(format!("{}{AT}{}", random::name::<{ random::KEY }>()?, self.0))
    }

    /// Why a session is not here, where its id says that it lives elsewhere.
    pub(super) fn refusal(&self, id: &str) -> Option<String> {
        let (_, home) = id.rsplit_once(AT)?;
        let is_name = home.len() <= MAX_NAME + 8
            && home.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        (is_name && home != self.0).then(|| {
            format!(
                "this session lives at the replica `{home}`, and this is `{}`: open a new one by `initialize`, or have \
                 all requests with one Mcp-Session-Id sent to one replica",
                self.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rp02_an_id_says_where_its_session_lives() {
        let (one, two) = (Home::named("web 1.example", 8080), Home::named("web-2", 8080));
        let id = one.session_id().unwrap();
        assert!(id.ends_with("@web-1.example-8080"), "{id}");
        assert_eq!(one.refusal(&id), None);
        let refusal = two.refusal(&id).unwrap();
        assert!(refusal.contains("`web-1.example-8080`") && refusal.contains("`web-2-8080`"), "{refusal}");
        for other in ["", "4711", "4711@web-2-8080", "4711@<script>", &format!("x@{}", "a".repeat(100))] {
            assert_eq!(two.refusal(other), None, "{other}");
        }
    }
}

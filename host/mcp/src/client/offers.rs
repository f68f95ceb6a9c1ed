//! Requests a server's offers besides its tools: prompts, resources, resource templates, skills and instructions to
//! models. Each list is bounded, and a failed one does not affect the others.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::calls::shortened;
use super::connection::{Connection, RequestLimits};
use super::listing::{MAX_URI, check_name};
use super::{ServerError, ServerOffers, skill};
use haft_core::secret::Redactor;
use haft_core::tool::{Keep, ServerResources, clip};

/// Time limit for all lists together: the server's tools wait for them.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of requested pages of one list.
const MAX_PAGES: usize = 100;
/// Maximum number of prompts, resources or templates of one server.
const MAX_ITEMS: usize = 1000;
/// Maximum number of bytes of one list, as JSON.
const MAX_SIZE: usize = 2 << 20;
/// Maximum number of characters of a server's words to models.
const MAX_INSTRUCTIONS: usize = 4000;

impl ServerOffers {
    /// Requests the lists of a server.
    pub(super) async fn ask(connection: &Connection, limits: RequestLimits<'_>, redactor: &Redactor) -> Self {
        let info = connection.peer.peer_info();
        let capabilities = info.as_ref().map(|info| info.capabilities.clone()).unwrap_or_default();
        let instructions = info.as_ref().and_then(|info| info.instructions.as_ref());
        let instructions =
            instructions.map(|text| redactor.redact_owned(clip(text, MAX_INSTRUCTIONS, Keep::Head)));
        let mut offers = Self {
            of_resources: ServerResources {
                completes: capabilities.completions.is_some(),
                // Servers of 2026-07-28 know no `resources/subscribe`.
                watches: !connection.is_stateless()
                    && capabilities.resources.as_ref().is_some_and(|own| own.subscribe == Some(true)),
                ..ServerResources::default()
            },
            instructions,
            ..Self::default()
        };
        let limits = (limits, Instant::now() + PATIENCE);
        if capabilities.prompts.is_some() {
            offers.prompts =
                offers.list(connection, ("prompts/list", "prompts", "name"), limits, redactor).await;
        }
        if capabilities.resources.is_some() {
            let (resources, templates) = (
                ("resources/list", "resources", "uri"),
                ("resources/templates/list", "resourceTemplates", "uriTemplate"),
            );
            offers.of_resources.resources = offers.list(connection, resources, limits, redactor).await;
            offers.of_resources.templates = offers.list(connection, templates, limits, redactor).await;
        }
        if capabilities.supports_skills() {
            let skills = offers.list(connection, ("skills/list", "skills", "uri"), limits, redactor).await;
            for skill in skills {
                match skill::check(&skill) {
                    Ok(()) => offers.skills.push(skill),
                    Err(why) => offers.left_out.push(shortened(format!("a skill is left out: {why}"))),
                }
            }
        }
        offers
    }

    /// Requests one list, whose items are in the field `items`, each identified by the field `name`; returns the
    /// items received until `end`.
    async fn list(
        &mut self,
        connection: &Connection,
        (method, items, name): (&'static str, &str, &str),
        (limits, end): (RequestLimits<'_>, Instant),
        redactor: &Redactor,
    ) -> Vec<Value> {
        let (mut all, mut size, mut cursor) = (Vec::<Value>::new(), 0, None);
        for _ in 0..MAX_PAGES {
            let timeout = limits.timeout.min(end.saturating_duration_since(Instant::now()));
            let limits = RequestLimits { timeout, ..limits };
            let mut page = match connection.page(method, cursor.take(), limits).await {
                Ok(page) => page,
                Err(error) => {
                    // Many servers declare capabilities that they do not have.
                    let is_missing = matches!(error, ServerError::Answer { code: -32601, .. });
                    let said = || shortened(redactor.redact_owned(format!("`{method}` failed: {error}")));
                    self.left_out.extend((!is_missing).then(said));
                    return all;
                }
            };
            redactor.clean(&mut page);
            let Some(Value::Array(found)) = page.get_mut(items).map(Value::take) else { return all };
            for item in found {
                size += item.to_string().len();
                if all.len() == MAX_ITEMS || size > MAX_SIZE {
                    self.left_out.push(format!("{items} after the first {} are left out", all.len()));
                    return all;
                }
                let own = item.get(name).and_then(Value::as_str).filter(|own| !own.is_empty());
                let Some(own) = own else { continue };
                if let Err(why) = check(name, own) {
                    let said = format!("some {items} are left out: {why}");
                    if !self.left_out.contains(&said) {
                        self.left_out.push(said);
                    }
                } else if all.iter().all(|other| other.get(name).is_none_or(|name| name != own)) {
                    all.push(item);
                }
            }
            let next = page.get("nextCursor").and_then(Value::as_str);
            cursor = next.filter(|next| !next.is_empty()).map(str::to_owned);
            if cursor.is_none() {
                return all;
            }
        }
        self.left_out.push(format!("the list of {items} has more than {MAX_PAGES} pages"));
        all
    }
}

/// Refuses an item's name or, in another `field`, its URI, if it would be displayed as another text.
fn check(field: &str, own: &str) -> Result<(), String> {
    if field == "name" {
        return check_name(own);
    }
    if own.len() > MAX_URI {
        return Err(format!("its URI has more than {MAX_URI} bytes"));
    }
    if own.chars().any(char::is_control) {
        return Err("its URI has control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_offer_is_known_by_is_shown_as_it_is() {
        assert_eq!((check("name", "a name"), check("uri", "file:///a%20b")), (Ok(()), Ok(())));
        for (field, own) in [
            ("name", "re\nad".to_owned()),
            ("name", "read\u{1b}[2K".to_owned()),
            ("name", "x".repeat(257)),
            ("uri", "file:///\u{7}".to_owned()),
            ("uriTemplate", format!("file:///{}", "x".repeat(MAX_URI))),
        ] {
            assert!(check(field, &own).is_err(), "{field} {own}");
        }
    }
}

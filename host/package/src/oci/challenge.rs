//! The authentication challenge of a 401 response (RFC 9110, section 11.6.1). Only parses it; which realm is
//! trusted is decided elsewhere.

/// Limit on the bytes of the header: ten times the longest known one.
const MAX_HEADER: usize = 8 << 10;

/// A parsed authentication challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A name and a password with every request.
    Basic,
    /// A token from a token server.
    Bearer {
        /// The URL of the token server.
        realm: String,
        /// The registry's name at the token server.
        service: Option<String>,
        /// The requested scope, if the registry names one.
        scope: Option<String>,
    },
}

impl Challenge {
    /// Returns the preferred supported challenge of these headers: `Bearer` before `Basic`.
    pub(super) fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let found: Vec<Self> =
            headers.into_iter().filter(|header| header.len() <= MAX_HEADER).filter_map(one).collect();
        let bearer = found.iter().find(|challenge| matches!(challenge, Self::Bearer { .. }));
        bearer.or(found.first()).cloned()
    }
}

fn one(header: &str) -> Option<Challenge> {
    let header = header.trim();
    let (scheme, rest) = header.split_once(' ').unwrap_or((header, ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let value = |target: &str| {
        let found = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(target));
        found.map(|(_, value)| value.clone())
    };
    Some(Challenge::Bearer { realm: value("realm")?, service: value("service"), scope: value("scope") })
}

/// Parses `name=value` and `name="va\"lue"`, separated by commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut characters = text.chars().peekable();
    while characters.peek().is_some() {
        let name: String = std::iter::from_fn(|| characters.next_if(|c| !matches!(c, '=' | ','))).collect();
        let value = match characters.next() {
            Some('=') if characters.next_if_eq(&'"').is_some() => quoted(&mut characters),
            Some('=') => {
                let value: String = std::iter::from_fn(|| characters.next_if(|c| *c != ',')).collect();
                value.trim().to_owned()
            }
            _ => continue,
        };
        parameters.push((name.trim().to_owned(), value));
        // Skip to the next comma, and past it.
        while characters.next().is_some_and(|c| c != ',') {}
    }
    parameters
}

/// Reads a quoted string up to and including its closing quote.
fn quoted(characters: &mut impl Iterator<Item = char>) -> String {
    let mut value = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bearer(realm: &str, service: Option<&str>, scope: Option<&str>) -> Challenge {
        let (service, scope) = (service.map(str::to_owned), scope.map(str::to_owned));
        Challenge::Bearer { realm: realm.to_owned(), service, scope }
    }

    #[test]
    fn the_challenges_of_registries_are_read() {
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        let expected = bearer(
            "https://auth.docker.io/token",
            Some("registry.docker.io"),
            Some("repository:a/b:pull,push"),
        );
        assert_eq!(Challenge::parse([docker]), Some(expected));
        assert_eq!(Challenge::parse([r#"Basic realm="x""#]), Some(Challenge::Basic));
        assert_eq!(
            Challenge::parse(["basic", r#"bearer realm=a , service="b""#]),
            Some(bearer("a", Some("b"), None))
        );
        assert_eq!(
            Challenge::parse([r#"BEARER Service="a\"b", Realm="c""#]),
            Some(bearer("c", Some("a\"b"), None))
        );
    }

    #[test]
    fn what_is_not_understood_is_none() {
        let long = format!("Bearer realm=\"{}\"", "a".repeat(MAX_HEADER));
        for header in ["", "Negotiate abc", "Bearer", "Bearer service=\"a\"", &long] {
            assert_eq!(Challenge::parse([header]), None, "{header}");
        }
    }

    proptest! {
        #[test]
        fn no_header_is_too_odd(header in "(Bearer |Basic )?([a-z]{1,5}=|\"|,|\\\\|[a-z ]|=){0,30}") {
            let _ = Challenge::parse([header.as_str()]);
        }
    }
}

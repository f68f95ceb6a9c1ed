//! Selects the parts of a configuration file that may be shown: names of secrets, never their values.

use haft_core::secret::is_credential;

/// The prefixes of well-known keys.
const BEGINNINGS: &[&str] = &[
    "sk-",
    "sk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "eyJ",
    "npm_",
    "pypi-",
    "hf_",
    "lin_api_",
    "ntn_",
    "secret_",
    "tvly-",
    "Bearer ",
    "Basic ",
    "Token ",
];

/// The prefixes of references to variables; each reference ends with `}`.
const OPENINGS: &[&str] = &["${", "{env:"];

/// Schemes of an `Authorization` header.
const SCHEMES: &[&str] = &["Bearer", "Basic", "Token"];

/// Minimum number of characters of a word that is a key by its form; names of packages and models are shorter or
/// have separators.
const LONG: usize = 28;

/// Replaces a secret in output.
const HIDDEN: &str = "***";

/// Returns whether `value`, of the variable or header `name`, is a secret, by the name or by the form of the value.
/// A reference to a variable is not a secret.
pub fn is_secret(name: &str, value: &str) -> bool {
    let written = written(value);
    !written.is_empty() && (is_name(name) || looks_secret(&written))
}

/// Returns a command line without its secrets.
pub fn hidden(words: &[String]) -> Vec<String> {
    let mut is_value = false;
    let mut show = |word: &String| {
        let is_named = std::mem::replace(&mut is_value, word.starts_with('-') && is_name(word));
        if (is_named && !word.starts_with('-') && !written(word).is_empty()) || looks_secret(&written(word)) {
            return HIDDEN.to_owned();
        }
        // `--header=Authorization: Bearer …` is a pair in a pair.
        let ends = word.match_indices(['=', ':']).map(|(end, _)| word.split_at(end));
        let mut pairs = ends.map(|(before, value)| (before, value.get(1..).unwrap_or_default().trim()));
        let name = |before: &'_ str| before.rsplit(['=', ':']).next().unwrap_or_default().trim().to_owned();
        match pairs.find(|(before, value)| is_secret(&name(before), value)) {
            Some((before, _)) => format!("{before}={HIDDEN}"),
            None => word.clone(),
        }
    };
    words.iter().map(&mut show).collect()
}

/// Returns the part of an address that may be shown: neither user nor path nor query, any of which may be a key.
pub fn origin(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { host.to_owned() } else { format!("{scheme}://{host}") }
}

/// Returns whether a URL may contain a key: a user, a query, or a part of its path with the form of a key.
pub(crate) fn is_in_address(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.contains(['?', '@']) || rest.split('/').any(looks_secret)
}

fn is_name(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    is_credential(name) || name.to_ascii_lowercase().ends_with("key")
}

/// Returns the part of `value` that is in the file: without references to variables (`${NAME}`, `{env:NAME}`,
/// `$NAME` as the complete value) and the scheme before one. A reference's default is in the file.
fn written(value: &str) -> String {
    let is_variable = |name: &str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.:".contains(c))
    };
    if value.strip_prefix('$').is_some_and(is_variable) {
        return String::new();
    }
    let (mut rest, mut left) = (value, String::new());
    loop {
        let first =
            OPENINGS.iter().filter_map(|open| rest.split_once(open)).min_by_key(|(before, _)| before.len());
        let Some((before, after)) = first else { break };
        let Some((inside, behind)) = after.split_once('}') else { break };
        let (name, default) = inside.split_once(":-").unwrap_or((inside, ""));
        left.push_str(before);
        left.push_str(if is_variable(name) { default } else { inside });
        rest = behind;
    }
    let has_reference = rest.len() < value.len();
    left.push_str(rest);
    if has_reference && SCHEMES.contains(&left.trim()) { String::new() } else { left }
}

fn looks_secret(value: &str) -> bool {
    let begins = BEGINNINGS.iter().any(|start| value.len() > start.len() + 8 && value.starts_with(start));
    let is_long = value.len() >= LONG
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_-+=".contains(c))
        && value.chars().any(|c| c.is_ascii_digit())
        && value.chars().any(|c| c.is_ascii_alphabetic());
    let has_password = value.split_once("://").is_some_and(|(_, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    });
    begins || is_long || has_password
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_name_and_look() {
        for (name, value) in [
            ("GITHUB_TOKEN", "x"),
            ("NOTION", "ntn_abcdefghijklmno"),
            ("DATABASE_URL", "postgres://ada:pw@db/x"),
            ("X", "0123456789abcdef0123456789abcdef"),
            ("Authorization", "Bearer abcdefghijkl"),
            ("PASSWORD", "$uper!secret"),
            ("TOKEN", "${T:-sk-0123456789abcdef}"),
            ("TOKEN", "${T}abc"),
            ("Authorization", "Bearer ${T"),
        ] {
            assert!(is_secret(name, value), "{name}");
        }
        for (name, value) in [
            ("GITHUB_TOKEN", "${env:T}"),
            ("LOG_LEVEL", "debug"),
            ("ROOT", "/home/ada/a-long-folder-name/1"),
            ("T_TOKEN", "$T"),
            ("Authorization", "Bearer ${T}"),
            ("Authorization", "Bearer {env:T}"),
        ] {
            assert!(!is_secret(name, value), "{name}");
        }
    }

    #[test]
    fn no_secret_of_a_command_line_is_shown() {
        let words = [
            "npx",
            "-y",
            "@scope/server-with-a-rather-long-name-of-2026",
            "--api-key",
            "abc",
            "--token=abc",
            "API_KEY=abc",
            "Authorization: Bearer abc",
            "--header=Authorization: Bearer abc",
            "ghp_0123456789abcdef",
            "--root",
            "/work",
            "--token",
            "${TOKEN}",
        ];
        let shown = hidden(&words.map(str::to_owned)).join(" ");
        assert_eq!(
            shown,
            "npx -y @scope/server-with-a-rather-long-name-of-2026 --api-key *** --token=*** API_KEY=*** \
             Authorization=*** --header=Authorization=*** *** --root /work --token ${TOKEN}"
        );
        assert_eq!(origin("https://user:pw@a.test:8/mcp/key?token=1"), "https://a.test:8");
    }
}

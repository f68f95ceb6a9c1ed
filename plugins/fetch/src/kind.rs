//! Classifies a body: a page, a text, or neither. The server's content type decides if present, otherwise the
//! bytes.

use crate::charset;

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    Text,
    Binary,
}

/// Bytes that are looked at: as many as git looks at.
const HEAD: usize = 8000;

/// Types under `application` that are text, besides those that end in `+json` or `+xml`.
const TEXTS: &[&str] = &[
    "csv",
    "ecmascript",
    "graphql",
    "javascript",
    "json",
    "json5",
    "jsonl",
    "markdown",
    "sql",
    "toml",
    "x-csh",
    "x-httpd-php",
    "x-javascript",
    "x-ndjson",
    "x-perl",
    "x-php",
    "x-python",
    "x-ruby",
    "x-sh",
    "x-tex",
    "x-troff-man",
    "x-typescript",
    "x-www-form-urlencoded",
    "x-yaml",
    "xml",
    "yaml",
];

/// Types that servers give to what they do not know.
const UNKNOWN: &[&str] =
    &["", "application/octet-stream", "application/unknown", "binary/octet-stream", "unknown/unknown"];

/// What a body of this content type is.
pub(crate) fn of(content_type: Option<&str>, body: &[u8]) -> Kind {
    let kind = declared(content_type).unwrap_or_else(|| sniffed(body));
    let has_nul = body.iter().take(HEAD).any(|byte| *byte == 0);
    if has_nul && !charset::has_wide_characters(body, content_type) { Kind::Binary } else { kind }
}

/// Whether a body of this content type is no text, whatever its bytes are.
pub(crate) fn is_never_text(content_type: Option<&str>) -> bool {
    declared(content_type) == Some(Kind::Binary)
}

fn declared(content_type: Option<&str>) -> Option<Kind> {
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    if UNKNOWN.contains(&essence.as_str()) {
        return None;
    }
    let (top, sub) = essence.split_once('/')?;
    let is_text = top == "text"
        || sub.ends_with("+json")
        || sub.ends_with("+xml")
        || top == "application" && TEXTS.contains(&sub);
    Some(match essence.as_str() {
        "text/html" | "application/xhtml+xml" => Kind::Html,
        _ if is_text => Kind::Text,
        _ => Kind::Binary,
    })
}

fn sniffed(body: &[u8]) -> Kind {
    let head: String = String::from_utf8_lossy(body.get(..HEAD).unwrap_or(body)).to_ascii_lowercase();
    let start = head.trim_start_matches('\u{feff}').trim_start();
    if start.starts_with("<!doctype html") || start.starts_with("<html") {
        Kind::Html
    } else if charset::is_utf8(body) || charset::has_wide_characters(body, None) {
        Kind::Text
    } else {
        Kind::Binary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_is_believed() {
        for (content_type, expected) in [
            ("text/html; charset=utf-8", Kind::Html),
            ("Application/XHTML+XML", Kind::Html),
            ("text/plain", Kind::Text),
            ("application/json", Kind::Text),
            ("application/problem+json;x=y", Kind::Text),
            ("image/svg+xml", Kind::Text),
            ("application/atom+xml", Kind::Text),
            ("image/png", Kind::Binary),
            ("application/pdf", Kind::Binary),
            ("application/zip", Kind::Binary),
            ("video/mp4", Kind::Binary),
        ] {
            assert_eq!(of(Some(content_type), b"<html>"), expected, "{content_type}");
        }
    }

    #[test]
    fn bytes_speak_where_the_server_does_not() {
        for content_type in [None, Some(""), Some("application/octet-stream"), Some("nonsense")] {
            assert_eq!(of(content_type, b"  <!DOCTYPE HTML><p>"), Kind::Html);
            assert_eq!(of(content_type, "\u{feff}<html>".as_bytes()), Kind::Html);
            assert_eq!(of(content_type, "fn main() { \"ä\" }".as_bytes()), Kind::Text);
            assert_eq!(of(content_type, b"\x89PNG\r\n\x1a\n\xff"), Kind::Binary);
            assert_eq!(of(content_type, b""), Kind::Text);
            assert_eq!(of(content_type, b"a\0b"), Kind::Binary);
        }
    }

    #[test]
    fn text_has_no_nul_but_in_wide_characters() {
        assert_eq!(of(Some("text/plain"), b"a\0b"), Kind::Binary);
        assert_eq!(of(Some("text/plain"), b"\xff\xfea\0b\0"), Kind::Text);
        assert_eq!(of(Some("text/plain; charset=utf-16le"), b"a\0b\0"), Kind::Text);
        assert_eq!(of(None, b"\xfe\xff\0a\0b"), Kind::Text);
    }
}

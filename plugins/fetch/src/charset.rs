//! Decodes bytes to characters, as browsers do: a byte order mark decides, then the header, then the declaration of
//! the page. Never fails; invalid bytes become U+FFFD.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Bytes in which a page says what its characters are (HTML standard, 13.2.3.2).
const PRESCAN: usize = 1024;

/// The text of a body.
pub(crate) fn decode(body: &[u8], content_type: Option<&str>) -> String {
    let encoding = of_header(content_type).or_else(|| of_page(body)).unwrap_or_else(|| guess(body));
    // A byte order mark goes before what was found.
    encoding.decode(body).0.into_owned()
}

/// Whether the characters have two bytes or more, so that zeros among them mean nothing.
pub(crate) fn has_wide_characters(body: &[u8], content_type: Option<&str>) -> bool {
    let marked = Encoding::for_bom(body).map(|(encoding, _)| encoding);
    marked.or_else(|| of_header(content_type)).is_some_and(|encoding| encoding.name().starts_with("UTF-16"))
}

/// Whether these are characters in UTF-8. The last one may be cut, after others of its kind.
pub(crate) fn is_utf8(body: &[u8]) -> bool {
    let Err(error) = str::from_utf8(body) else { return true };
    let valid = body.get(..error.valid_up_to()).unwrap_or_default();
    error.error_len().is_none() && !valid.is_ascii()
}

fn guess(body: &[u8]) -> &'static Encoding {
    if is_utf8(body) { UTF_8 } else { WINDOWS_1252 }
}

fn of_header(content_type: Option<&str>) -> Option<&'static Encoding> {
    let parameters = content_type?.split(';').skip(1);
    let charset = parameters.filter_map(|parameter| parameter.split_once('=')).find_map(|(name, value)| {
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    });
    Encoding::for_label(charset?.as_bytes())
}

/// What a `<meta>` or an XML declaration at the start of a page says.
fn of_page(body: &[u8]) -> Option<&'static Encoding> {
    let head: String = body.iter().take(PRESCAN).map(|byte| char::from(*byte).to_ascii_lowercase()).collect();
    let declared = head.trim_start().strip_prefix("<?xml").and_then(|rest| after(tag(rest), "encoding"));
    let mut metas = head.split("<meta").skip(1).map(tag);
    let label = declared.or_else(|| metas.find_map(|meta| after(meta, "charset")))?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // It could not have been read in bytes if it were true.
    Some(if encoding.name().starts_with("UTF-16") { UTF_8 } else { encoding })
}

/// The rest of a tag.
fn tag(text: &str) -> &str {
    text.split('>').next().unwrap_or_default()
}

/// The value after `name =`, quoted or not.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(name)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
    value.split(|c: char| matches!(c, '"' | '\'' | ';' | '/' | '?') || c.is_ascii_whitespace()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_it() {
        assert_eq!(decode(b"caf\xe9", Some("text/html; charset=iso-8859-1")), "café");
        assert_eq!(decode(b"caf\xe9", Some("text/html;x=y;Charset=\"Latin1\"")), "café");
        assert_eq!(decode("café".as_bytes(), Some("text/html; charset=UTF-8")), "café");
        assert_eq!(decode(b"\x93\xfa\x96\x7b", Some("text/plain; charset=Shift_JIS")), "日本");
    }

    #[test]
    fn the_page_says_it() {
        for head in [
            "<meta charset=shift_jis>",
            "<META CHARSET='Shift_JIS'>",
            "<html><head><meta name=a><meta http-equiv=Content-Type content=\"text/html; charset=shift_jis\">",
            "<?xml version='1.0' encoding='shift_jis'?>",
        ] {
            let body = [head.as_bytes(), b"\x93\xfa\x96\x7b"].concat();
            assert!(decode(&body, Some("text/html")).ends_with("日本"), "{head}");
        }
        assert_eq!(decode(b"<meta charset=utf-16>\xc3\xa9", None), "<meta charset=utf-16>é");
    }

    #[test]
    fn a_mark_decides() {
        assert_eq!(decode(b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/html; charset=latin1")), "café");
        assert_eq!(decode(b"\xff\xfea\0\xe9\0", None), "aé");
        assert_eq!(decode(b"\xfe\xff\0a\0\xe9", Some("text/plain; charset=utf-8")), "aé");
    }

    #[test]
    fn otherwise_it_is_guessed() {
        assert_eq!(decode("café".as_bytes(), None), "café");
        assert_eq!(decode(b"caf\xe9", None), "café");
        assert_eq!(decode(b"caf\xe9", Some("text/html; charset=nonsense")), "café");
        // A character that the bound on a body cut.
        assert_eq!(decode(b"caf\xc3\xa9\xc3", None), "caf\u{e9}\u{fffd}");
        assert_eq!(decode(b"caf\xe9", Some("text/html; charset=utf-8")), "caf\u{fffd}");
    }
}

//! Localized texts of `act:tools` components: one language of several.

/// The text in `language`, the component's default; else in English, which models know best; else
/// the first.
pub(super) fn choose<'a>(texts: &[(&str, &'a str)], language: Option<&str>) -> Option<&'a str> {
    let tagged = |wanted: &str| texts.iter().find(|(tag, _)| matches(tag, wanted));
    let found = language.and_then(tagged).or_else(|| tagged("en")).or_else(|| texts.first());
    found.map(|(_, text)| *text)
}

/// Whether a BCP 47 tag is `wanted` or one of its regions and scripts.
fn matches(tag: &str, wanted: &str) -> bool {
    let rest = tag.get(..wanted.len()).filter(|start| start.eq_ignore_ascii_case(wanted));
    rest.is_some() && matches!(tag.as_bytes().get(wanted.len()), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_language_comes_first_then_english() {
        let texts = [("fr", "un"), ("en-GB", "one"), ("de", "eins")];
        assert_eq!(choose(&texts, Some("DE")), Some("eins"));
        assert_eq!(choose(&texts, Some("ja")), Some("one"));
        assert_eq!(choose(&texts[..1], None), Some("un"));
        assert_eq!(choose(&[("eng", "x"), ("en", "y")], None), Some("y"));
        assert_eq!(choose(&[], Some("en")), None);
    }
}

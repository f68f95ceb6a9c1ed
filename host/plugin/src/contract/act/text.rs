//! Localized texts of `act:tools` components: one language of several.

use super::shapes::Localized;

/// The text in English, which models know best; else in the component's own language; else the first.
pub(super) fn choose<'a>(texts: &[(&str, &'a str)], language: Option<&str>) -> Option<&'a str> {
    let tagged = |wanted: &str| texts.iter().find(|(tag, _)| matches(tag, wanted));
    let found = tagged("en").or_else(|| language.and_then(tagged)).or_else(|| texts.first());
    found.map(|(_, text)| *text)
}

/// The text of a value.
pub(super) fn of(text: &Localized) -> &str {
    match text {
        Localized::Plain(text) => text,
        Localized::In(texts) => {
            let texts: Vec<(&str, &str)> =
                texts.iter().map(|(tag, text)| (tag.as_str(), text.as_str())).collect();
            choose(&texts, None).unwrap_or_default()
        }
    }
}

/// Whether a BCP 47 tag is `wanted` or one of its regions and scripts.
fn matches(tag: &str, wanted: &str) -> bool {
    let start = tag.get(..wanted.len()).filter(|start| start.eq_ignore_ascii_case(wanted));
    start.is_some() && matches!(tag.as_bytes().get(wanted.len()), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_comes_first_then_the_component_s_own_language() {
        let texts = [("fr", "un"), ("en-GB", "one"), ("de", "eins")];
        assert_eq!(choose(&texts, Some("DE")), Some("one"));
        assert_eq!(choose(&[texts[0], texts[2]], Some("DE")), Some("eins"));
        assert_eq!(choose(&texts[..1], Some("ja")), Some("un"));
        assert_eq!(choose(&[("eng", "x"), ("en", "y")], None), Some("y"));
        assert_eq!(choose(&[], Some("en")), None);
    }
}

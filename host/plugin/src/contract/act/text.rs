//! Localized texts of `act:tools` components: one language of several.

use super::shapes::Localized;

/// The text in English, which models know best; else in the component's own language; else the first.
pub(super) fn choose_language<'a>(texts: &[(&str, &'a str)], language: Option<&str>) -> Option<&'a str> {
    let tagged = |language_tag: &str| texts.iter().find(|(tag, _)| matches(tag, language_tag));
    let found = tagged("en").or_else(|| language.and_then(tagged)).or_else(|| texts.first());
    found.map(|(_, text)| *text)
}

/// The text of a value.
pub(super) fn localized_text(text: &Localized) -> &str {
    match text {
        Localized::Plain(text) => text,
        Localized::In(texts) => {
            let texts: Vec<(&str, &str)> =
                texts.iter().map(|(tag, text)| (tag.as_str(), text.as_str())).collect();
            choose_language(&texts, None).unwrap_or_default()
        }
    }
}

/// Whether a BCP 47 tag is `language_tag` or one of its regions and scripts.
fn matches(tag: &str, language_tag: &str) -> bool {
    let start = tag.get(..language_tag.len()).filter(|start| start.eq_ignore_ascii_case(language_tag));
    start.is_some() && matches!(tag.as_bytes().get(language_tag.len()), None | Some(b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_comes_first_then_the_component_s_own_language() {
        let texts = [("fr", "un"), ("en-GB", "one"), ("de", "eins")];
        assert_eq!(choose_language(&texts, Some("DE")), Some("one"));
        assert_eq!(choose_language(&[texts[0], texts[2]], Some("DE")), Some("eins"));
        assert_eq!(choose_language(&texts[..1], Some("ja")), Some("un"));
        assert_eq!(choose_language(&[("eng", "x"), ("en", "y")], None), Some("y"));
        assert_eq!(choose_language(&[], Some("en")), None);
    }
}

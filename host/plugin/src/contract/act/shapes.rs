//! Rust types of the values that `act:tools` components take and return (`act:tools@0.1` and `@0.2`, `act:sessions`, `act:core@0.4`). wasmtime
//! checks them against the component's own types.

use ciborium::Value as Cbor;
use wasmtime::component::{ComponentType, Lift, StreamReader, TypedFunc};

/// Annotations: names, and CBOR.
pub(super) type Metadata = Vec<(String, Vec<u8>)>;

/// A text in one or several languages.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Localized {
    #[component(name = "plain")]
    Plain(String),
    #[component(name = "localized")]
    In(Vec<(String, String)>),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) message: Localized,
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) description: Localized,
    #[component(name = "parameters-schema")]
    pub(super) parameters: String,
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct ListToolsResponse {
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
    pub(super) tools: Vec<Definition>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct Part {
    pub(super) data: Vec<u8>,
    #[component(name = "mime-type")]
    pub(super) mime_type: Option<String>,
    pub(super) metadata: Metadata,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Event {
    #[component(name = "content")]
    Content(Part),
    #[component(name = "error")]
    Error(Failure),
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum CallResponse {
    #[component(name = "immediate")]
    Immediate(Vec<Event>),
    #[component(name = "streaming")]
    Streaming(StreamReader<Event>),
}

#[derive(ComponentType, Lift)]
#[component(record)]
pub(super) struct OpenedSession {
    pub(super) id: String,
    #[expect(dead_code, reason = "part of the shape")]
    pub(super) metadata: Metadata,
}

/// `open-session`: arguments and metadata in, a session or a failure out.
pub(super) type OpenSession = TypedFunc<(Metadata, Metadata), (Result<OpenedSession, Failure>,)>;

/// `close-session`: a session's id in.
pub(super) type CloseSession = TypedFunc<(String,), ()>;

/// `list-tools`: metadata in, tools or a failure out.
pub(super) type ListTools = TypedFunc<(Metadata,), (Result<ListToolsResponse, Failure>,)>;

/// `call-tool`: takes the tool's name, its arguments in CBOR, and metadata.
pub(super) type CallTool = TypedFunc<(String, Vec<u8>, Metadata), (CallResponse,)>;

/// Returns the text in English, which models know best; else in the component's own language; else the first.
fn choose_language<'a>(texts: &[(&str, &'a str)], language: Option<&str>) -> Option<&'a str> {
    let tagged = |language_tag: &str| texts.iter().find(|(tag, _)| matches(tag, language_tag));
    let found = tagged("en").or_else(|| language.and_then(tagged)).or_else(|| texts.first());
    found.map(|(_, text)| *text)
}

/// Returns a localized text in CBOR: plain, or a map from language to text.
pub(super) fn localized<'a>(value: &'a Cbor, language: Option<&str>) -> Option<&'a str> {
    if let Some(text) = value.as_text() {
        return Some(text);
    }
    let texts = value.as_map()?.iter().filter_map(|(tag, text)| Some((tag.as_text()?, text.as_text()?)));
    choose_language(&texts.collect::<Vec<_>>(), language)
}

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

/// Returns whether a BCP 47 tag is `language_tag`, or adds a region or script to it.
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

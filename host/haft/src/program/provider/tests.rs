use std::path::Path;

use super::*;
use haft_manifest::Manifest;

/// A model and a fast one, or the reason why there is none.
type Chosen = Result<(String, String), String>;

/// Returns the models of program.toml and the user's choice, as `(model, fast model)`.
fn chosen(toml: &str, model: Option<&str>, kind: &str) -> Chosen {
    let manifest = Manifest::parse_bytes(toml.as_bytes(), Path::new("program.toml")).unwrap();
    let choice = ModelChoice { model: model.map(Into::into), ..ModelChoice::default() };
    let kind = provider::kind(kind).unwrap();
    let mut settings = ProviderSettings::new(kind.name, "");
    let own = manifest.provider.as_ref();
    settings.base_url = own.and_then(|own| own.base_url.as_ref()).map(|url| url.value.clone());
    models(&choice, own, kind, &mut settings).map_err(|error| error.to_string())?;
    let provider = provider::build(settings).unwrap();
    Ok((provider.model().to_owned(), provider.model_fast().to_owned()))
}

fn pair(model: &str, fast: &str) -> (String, String) {
    (model.into(), fast.into())
}

/// MR02: with one configured model the fast and the complex model are equal, with two they differ.
#[test]
fn fast_and_complex_are_equal_with_one_model_and_distinct_when_configured() {
    let section = |keys: &str| format!("[provider]\nname = \"openai\"\n{keys}");
    let of = |keys: &str| chosen(&section(keys), None, "openai");
    assert_eq!(of("model = \"m\""), Ok(pair("m", "m")));
    assert_eq!(of("model = \"m\"\nmodel_fast = \"f\""), Ok(pair("m", "f")));
    assert_eq!(of("model = \"m\"\nmodel_complex = \"c\""), Ok(pair("c", "m")));
    assert_eq!(of("model_fast = \"f\"\nmodel_complex = \"c\""), Ok(pair("c", "f")));
    assert_eq!(of("model_fast = \"f\""), Ok(pair("f", "f")));
    assert_eq!(of("model_complex = \"c\""), Ok(pair("c", "c")));
    assert_eq!(of(""), Ok(pair("gpt-5", "gpt-5-mini")), "the vendor's own");
    assert!(of("base_url = \"http://localhost:1/v1\"").unwrap_err().starts_with("no model is configured: "));
    assert!(chosen("", None, "ollama").unwrap_err().starts_with("no model is configured: "));
}

/// MR03: a named model is used; `fast` and `complex` select the configured ones.
#[test]
fn a_named_model_takes_the_place_of_the_configured_one() {
    let toml = "[provider]\nname = \"openai\"\nmodel = \"m\"\nmodel_fast = \"f\"";
    assert_eq!(chosen(toml, Some("other"), "openai"), Ok(pair("other", "f")));
    let plain = "[provider]\nname = \"openai\"\nmodel = \"dear\"";
    assert_eq!(chosen(plain, Some("cheap"), "openai"), Ok(pair("cheap", "cheap")), "(A19)");
    assert_eq!(chosen(toml, Some("fast"), "openai"), Ok(pair("m", "f")));
    assert_eq!(chosen("", Some("other"), "openai"), Ok(pair("other", "other")));
    let choice = |model: &str| ModelChoice { model: Some(model.into()), ..ModelChoice::default() };
    assert_eq!(choice("auto").route(), Some(Route::Auto));
    assert_eq!(choice("fast-1").named_model(), Some("fast-1"));
}

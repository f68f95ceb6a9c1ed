//! Tests of converting entries of the published schema.

use serde_json::{Value, json};

use super::*;

/// Converts an entry with these parts, and with settings such as `KEY=VALUE`.
fn found(parts: &Value, settings: &[&str], asks: bool) -> Result<Registered, RegistryError> {
    let mut server = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.test/weather", "description": "Tells the weather", "version": "1.2.0",
        "icons": [{ "src": "https://a.test/icon.png" }], "somethingNew": { "a": 1 },
    });
    let mut meta =
        json!({ "io.modelcontextprotocol.registry/official": { "status": "active", "isLatest": true } });
    for (key, value) in parts.as_object().unwrap() {
        match key.as_str() {
            "status" => meta["io.modelcontextprotocol.registry/official"]["status"] = value.clone(),
            _ => server[key] = value.clone(),
        }
    }
    let answer: Result<Answer, _> = serde_json::from_value(json!({ "server": server, "_meta": meta }));
    let answer = answer.map_err(|error| RegistryError::Unreadable(error.to_string()))?;
    let pair =
        |text: &&str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
    let settings = settings.iter().map(pair).collect();
    let wanted = Wanted { settings, asks, ..Wanted::parse("io.test/weather").unwrap() };
    answer.check(&wanted)?;
    resolve::resolved(&answer, &wanted)
}

/// The source of a package, or the error.
fn source(parts: &Value, settings: &[&str]) -> String {
    match found(parts, settings, false) {
        Ok(Registered { start: Start::Package { source, .. }, .. }) => source.to_string(),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

/// An entry with a package of npm that has these fields.
fn npm(fields: &Value) -> Value {
    let mut package = json!({ "registryType": "npm", "registryBaseUrl": "https://registry.npmjs.org",
        "identifier": "@a/weather", "version": "1.2.0", "transport": { "type": "stdio" } });
    for (key, value) in fields.as_object().unwrap() {
        package[key] = value.clone();
    }
    json!({ "packages": [package] })
}

#[test]
fn arguments_and_variables_become_settings() {
    let entry = npm(&json!({
        "runtimeHint": "npx", "runtimeArguments": [{ "type": "positional", "value": "-y" }],
        "packageArguments": [
            { "type": "positional", "valueHint": "dir", "isRequired": true, "isRepeated": true, "format": "filepath" },
            { "type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"] },
            { "type": "named", "name": "-p", "format": "number" },
            { "type": "named", "name": "--verbose", "value": "" },
            { "type": "named", "name": "--at", "value": "{place}:{zone}{x}", "variables": {
                "place": { "isRequired": true }, "zone": { "value": "UTC" } } },
        ],
        "environmentVariables": [
            { "name": "WEATHER_API_KEY", "isRequired": true, "isSecret": true },
            { "name": "OTHER_TOKEN", "isSecret": true },
            { "name": "LEVEL", "default": "a&b" },
            { "name": "UNSET" },
        ],
    }));
    assert_eq!(
        source(&entry, &["dir=.", "dir=./b", "place=Rome", "p=3"]),
        "npm:@a/weather@1.2.0#arg=.&arg=./b&arg=--units%3Dmetric&arg=-p&arg=3&arg=--verbose&arg=--at%3DRome:UTC{x}&env=WEATHER_API_KEY&env.LEVEL=a%26b"
    );
    let named = source(
        &entry,
        &["dir=.", "place=a", "WEATHER_API_KEY=env:MINE", "OTHER_TOKEN=keyring:haft/weather/x"],
    );
    assert!(
        named.contains("secret.WEATHER_API_KEY=env:MINE&secret.OTHER_TOKEN=keyring:haft/weather/x"),
        "{named}"
    );
    for (settings, expected) in [
        (&["place=a"][..], "it needs `dir`"),
        (&["dir=."], "it needs `place`"),
        (&["dir=.", "place=a", "units=old"], "`units` is not usable: expected one of `metric`, `imperial`"),
        (&["dir=.", "place=a", "p=x"], "`p` is not usable: expected a number"),
        (
            &["dir=.", "place=a", "place2=b"],
            "it has no setting `place2`; its settings are `LEVEL`, `OTHER_TOKEN`",
        ),
        (
            &["dir=.", "place=a", "WEATHER_API_KEY=hunter2"],
            "it is sensitive and is never stored in a file: put it into a variable and use `--set",
        ),
        (&["dir=.", "place=a", "verbose=x"], "it has no setting `verbose`"),
    ] {
        let error = source(&entry, settings);
        assert!(error.contains(expected) && !error.contains("hunter2"), "{settings:?}: {error}");
    }
    let pypi = npm(
        &json!({ "registryType": "pypi", "registryBaseUrl": "https://pypi.org/", "identifier": "mcp-weather" }),
    );
    assert_eq!(source(&pypi, &[]), "pypi:mcp-weather==1.2.0");
}

#[test]
fn what_cannot_be_installed_is_told_with_its_way_out() {
    let image = json!({ "packages": [{ "registryType": "oci", "identifier": "ghcr.io/a/b:1", "transport": { "type": "stdio" } }] });
    let secret = json!({ "packageArguments": [{ "type": "named", "name": "--token", "isRequired": true, "isSecret": true }] });
    for (entry, expected, way_out) in [
        (
            json!({}),
            "it has neither a package nor a streamable HTTP URL: haft does not support the older HTTP+SSE",
            "",
        ),
        (image, "is a container image", "docker run -i --rm IMAGE"),
        (npm(&json!({ "registryType": "nuget" })), "is of nuget", "[[mcp_servers]]"),
        (
            npm(&json!({ "transport": { "type": "sse", "url": "http://localhost:1" } })),
            "serves HTTP",
            "`url`",
        ),
        (npm(&json!({ "transport": { "type": "pipe" } })), "unknown variant `pipe`", ""),
        (npm(&json!({ "version": "^1.0.0" })), "is not usable", ""),
        (npm(&json!({ "version": "1.0.0#scripts=run" })), "is not usable", ""),
        (npm(&json!({ "version": null })), "has no version of `", ""),
        (npm(&json!({ "identifier": "--registry=x" })), "is not usable", ""),
        (
            npm(&json!({ "fileSha256": "0".repeat(64) })),
            "which haft cannot compare",
            "haft add npm:@a/weather",
        ),
        (
            npm(&json!({ "registryBaseUrl": "https://evil.test" })),
            "another registry of npm",
            "the variable `npm_config_registry`",
        ),
        (
            npm(
                &json!({ "runtimeArguments": [{ "type": "named", "name": "--node-options", "value": "x" }] }),
            ),
            "it needs the argument `",
            "haft add npm:",
        ),
        (npm(&secret), "` on its command line, where others can read it", ""),
        (
            npm(&json!({ "environmentVariables": [{ "name": "A_TOKEN", "value": "abc" }] })),
            "its entry contains a secret: `",
            "",
        ),
        (
            npm(&json!({ "packageArguments": [{ "type": "flag", "name": "-x" }] })),
            "unknown variant `flag`",
            "",
        ),
        (
            npm(&json!({ "environmentVariables": [{ "name": "A", "format": "secret" }] })),
            "unknown variant `secret`",
            "",
        ),
    ] {
        let error = found(&entry, &[], false).expect_err(expected);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.hint().unwrap_or_default().contains(way_out), "{expected}: {:?}", error.hint());
    }
}

/// Documents that are not entries of the schema, or not the requested entry.
#[test]
fn an_entry_of_another_form_is_told() {
    for (entry, expected, way_out) in [
        (
            json!({ "$schema": "https://static.modelcontextprotocol.io/schemas/2026-01-01/server.schema.json" }),
            "this haft supports schemas up to 2025-12-11",
            "",
        ),
        (json!({ "name": "io.test/other" }), "the registry answers with `io.test/other` 1.2.0 instead", ""),
        (json!({ "status": "deleted" }), "its author has deleted it", ""),
        (json!({ "version": 1 }), "invalid type", ""),
        (json!({ "remotes": [{ "type": "sse", "url": "https://a.test/sse" }] }), "the older HTTP+SSE", ""),
    ] {
        let error = found(&entry, &[], false).expect_err(expected);
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(error.hint().unwrap_or_default().contains(way_out), "{expected}: {:?}", error.hint());
    }
}

#[test]
fn a_bundle_has_the_digest_of_its_entry() {
    let bundle = |sha: Value, identifier: &str| {
        npm(&json!({ "registryType": "mcpb", "identifier": identifier, "version": null, "fileSha256": sha }))
    };
    let at = "https://a.test/w.mcpb";
    let Ok(Registered { start: Start::Package { source, digest }, .. }) =
        found(&bundle(json!("a".repeat(64)), at), &["city=Rome"], false)
    else {
        panic!()
    };
    assert_eq!(
        (source.to_string(), digest.unwrap().hex()),
        (format!("{at}#city=Rome"), "a".repeat(64).as_str())
    );
    assert!(self::source(&bundle(json!(null), at), &[]).contains("` has no valid `fileSha256`"));
    assert!(self::source(&bundle(json!("xyz"), at), &[]).contains("` has no valid `fileSha256`"));
    assert!(
        self::source(&bundle(json!("a".repeat(64)), "./w.mcpb"), &[]).contains("is not a URL that ends with")
    );
    assert!(
        self::source(&bundle(json!("a".repeat(64)), "http://a.test/w.mcpb"), &[]).contains("is not usable")
    );
}

#[test]
fn an_address_has_its_variables_and_the_names_of_its_secrets() {
    let entry = json!({ "remotes": [
        { "type": "sse", "url": "https://a.test/sse" },
        { "type": "streamable-http", "url": "https://{tenant}.a.test/mcp",
          "variables": { "tenant": { "isRequired": true } },
          "headers": [
            { "name": "Authorization", "value": "Bearer {token}", "isRequired": true,
              "variables": { "token": { "isSecret": true, "isRequired": true, "description": "Token" } } },
            { "name": "X-Region", "default": "eu" }, { "name": "X-Other" } ] },
    ] });
    let registered = found(&entry, &["tenant=ada"], false).unwrap();
    let Start::Remote { name, url, headers } = registered.start else { panic!() };
    assert_eq!((name.as_str(), url.as_str()), ("weather", "https://ada.a.test/mcp"));
    let secret =
        TextOrSecret::Secret(haft_manifest::SecretSource::Env("WEATHER_AUTHORIZATION".parse().unwrap()));
    assert_eq!(
        headers,
        [("Authorization".to_owned(), secret), ("X-Region".to_owned(), TextOrSecret::Text("eu".to_owned()))]
    );
    assert!(registered.notes[0].ends_with("as a whole: `Bearer {token}`"), "{:?}", registered.notes);
    // The user enters the token; the header's value is stored.
    let Err(RegistryError::Foreign(ForeignError::Secrets { fields, .. })) =
        found(&entry, &["tenant=ada"], true)
    else {
        panic!()
    };
    assert_eq!((fields[0].key.as_str(), fields[0].around.0.as_str()), ("Authorization", "Bearer "));
    let kept =
        found(&entry, &["tenant=ada", "Authorization=keyring:haft/weather/Authorization"], true).unwrap();
    assert!(matches!(kept.start, Start::Remote { .. }));
    assert_eq!(source(&entry, &[]), "it needs `tenant`");
    let secret = json!({ "remotes": [{ "type": "streamable-http", "url": "https://a.test/{k}", "variables": { "k": { "isSecret": true } } }] });
    assert!(source(&secret, &[]).contains("its URL contains a secret, which program.toml cannot store"));
}

#[test]
fn an_entry_with_several_forms_is_chosen_from() {
    let mut both = npm(&json!({}));
    both["remotes"] = json!([{ "type": "streamable-http", "url": "https://a.test/mcp" }]);
    assert_eq!(source(&both, &[]), "npm:@a/weather@1.2.0");
    assert!(matches!(found(&both, &["use=remote"], false).unwrap().start, Start::Remote { .. }));
    assert!(source(&both, &["use=pypi"]).contains("the entry has `npm`, `remote`, not `pypi`"));
}

#[test]
fn names_are_those_of_the_schema() {
    for name in ["io.test/a", "io.test/A_b.c-d@1.0.0", "io.test/a@2025.1+build"] {
        assert!(Wanted::parse(name).is_ok(), "{name}");
    }
    for name in [
        "",
        "a",
        "a/b/c",
        "a/../b",
        "a/b@",
        "a/b@..",
        "a/b?x=1",
        "a b/c",
        "a_b/c",
        "a/b@1/2",
        &format!("a/{}", "b".repeat(200)),
    ] {
        assert!(matches!(Wanted::parse(name), Err(RegistryError::Name)), "{name}");
    }
}

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Content, Context, Error, Output, Tool, testing};

/// Finds things.
///
/// Looks everywhere it may
/// and reports `what` it found:
/// - the place,
/// - the time.
#[derive(Debug, Deserialize, JsonSchema)]
struct Search {
    /// What to
    /// look for.
    title: String,
    /// How many.
    limit: Option<u32>,
    #[serde(default)]
    case: Case,
    places: Vec<Place>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Case {
    #[default]
    Any,
    Exact,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Place {
    /// A folder.
    path: String,
}

impl Tool for Search {
    const NAME: &str = "search";

    fn call(self, context: &Context) -> Result<Output, Error> {
        let paths = self.places.iter().map(|place| context.path(&place.path).display().to_string());
        let text = format!("{} {:?} {:?}", self.title, self.limit, self.case);
        Output::from(text).with_structured(&paths.collect::<Vec<_>>())
    }
}

fn call(arguments: &serde_json::Value) -> Result<Output, Error> {
    testing::call::<Search>(arguments, &Context::for_tests("/project", "/home/me"))
}

#[test]
fn the_doc_comment_is_the_description() {
    let definition = testing::definition::<Search>();
    let description =
        "Finds things.\n\nLooks everywhere it may and reports `what` it found:\n- the place,\n- the time.";
    assert_eq!((definition.name, definition.description.as_str()), ("search", description));
}

#[test]
fn the_schema_is_one_plain_object() {
    let expected = json!({
        "type": "object",
        "properties": {
            "title": { "type": "string", "description": "What to look for." },
            "limit": { "type": ["integer", "null"], "minimum": 0, "description": "How many." },
            "case": { "type": "string", "enum": ["any", "exact"] },
            "places": { "type": "array", "items": {
                "type": "object",
                "properties": { "path": { "type": "string", "description": "A folder." } },
                "required": ["path"],
                "additionalProperties": false,
            } },
        },
        "required": ["title", "places"],
        "additionalProperties": false,
    });
    let parameters = testing::definition::<Search>().parameters;
    assert_eq!(parameters, expected);
    let names: Vec<_> = parameters["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["title", "limit", "case", "places"], "in the order of the source");
}

#[test]
fn a_tool_without_arguments_has_an_object_all_the_same() {
    /// Does nothing.
    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}
    impl Tool for Nothing {
        const NAME: &str = "nothing";
        fn call(self, _context: &Context) -> Result<Output, Error> {
            Ok(Output::default())
        }
    }
    let expected = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    assert_eq!(testing::definition::<Nothing>().parameters, expected);
}

#[test]
fn open_objects_stay_open() {
    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its schema is looked at")]
    struct Open {
        map: BTreeMap<String, u8>,
    }
    let schema: serde_json::Value = serde_json::from_str(&crate::schema_of::<Open>()).unwrap();
    assert_eq!(schema["properties"]["map"]["additionalProperties"]["type"], "integer");
}

#[test]
fn a_wrong_argument_is_named() {
    let invalid = |arguments, message: &str| assert_eq!(call(&arguments), Err(Error::invalid(message)));
    invalid(json!({ "places": [] }), "missing field `title`");
    invalid(json!({ "title": 5, "places": [] }), "`title`: invalid type: integer `5`, expected a string");
    invalid(
        json!({ "title": "x", "places": [{ "path": "a" }, { "path": null }] }),
        "`places[1].path`: invalid type: null, expected a string",
    );
    invalid(
        json!({ "title": "x", "case": "none", "places": [] }),
        "`case`: unknown variant `none`, expected `any` or `exact`",
    );
}

#[test]
fn optional_arguments_may_be_absent_or_null() {
    for arguments in
        [json!({ "title": "x", "places": [] }), json!({ "title": "x", "limit": null, "places": [] })]
    {
        assert_eq!(call(&arguments).unwrap().text(), "x None Any");
    }
}

#[test]
fn an_answer_has_text_bytes_and_data() {
    let output = call(&json!({ "title": "x", "places": [{ "path": "~/a" }, { "path": "b" }] })).unwrap();
    assert_eq!(output.structured(), Some(r#"["/home/me/a","/project/b"]"#));
    let output = output.with_binary("image/png", vec![1, 2]).with_text("more");
    assert_eq!(output.text(), "x None Any\nmore");
    assert_eq!(output.content()[1], Content::Binary { media_type: "image/png".into(), data: vec![1, 2] });
}

#[test]
fn an_error_tells_its_causes() {
    #[derive(Debug)]
    struct Outer(std::io::Error);
    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "cannot open the drawer")
        }
    }
    impl std::error::Error for Outer {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let error: Error = Outer(std::io::Error::other("it is stuck")).into();
    assert_eq!(error.message(), "cannot open the drawer: it is stuck");
}

#[test]
fn data_that_is_no_json_is_an_error() {
    #[derive(Serialize)]
    struct Odd {
        map: BTreeMap<(u8, u8), u8>,
    }
    let odd = Odd { map: BTreeMap::from([((1, 2), 3)]) };
    assert!(Output::from("").with_structured(&odd).is_err());
}

use serde_json::json;

use super::*;

fn schema() -> OutputSchema {
    let schema = json!({
        "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"], "additionalProperties": false,
    });
    OutputSchema::new(&schema).unwrap()
}

#[test]
fn json_is_found_wherever_a_model_puts_it() {
    for text in [
        r#"{"n":1}"#,
        "\n {\"n\": 1}\n",
        "```json\n{\"n\": 1}\n```",
        "Here you are:\n\n```\n{ \"n\": 1 }\n```\nAnything else?",
        "At first ```json\n{\"n\": \"x\"}\n``` and then\n```json\n{\"n\": 1}\n```",
        "The answer is {\"n\": 1}.",
        "[note] it is {\"n\": 1}, of {a set}",
        "<think>{\"n\": 7}</think>{\"n\": 1}",
        "Not {\"n\":2}, but { \"n\": 1 }",
        "In braces: {{\"n\": 1}}",
        "It is {\"n\": 1}, as ```json\n{\"n\": \"x\"}\n``` has it.",
    ] {
        assert_eq!(read(&schema(), text), Ok(json!({ "n": 1 })), "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_and_not_mended() {
    let error = |text: &str| read(&schema(), text).unwrap_err();
    assert_eq!(error(""), "it is empty");
    assert!(error("I do not know").starts_with("it is not JSON: expected"));
    assert_eq!(error("{}"), "`n` is required");
    assert_eq!(error(r#"{"n":"1"}"#), r#"at `/n`: "1" is not of type "integer""#);
    assert!(error(r#"{"n":1"#).starts_with("it is not JSON: EOF"));
    assert!(error(&"[".repeat(100_000)).starts_with("it is not JSON"));
}

/// A part of an invalid answer may be valid by itself, but is not the answer.
#[test]
fn a_part_of_an_invalid_answer_is_no_answer() {
    let tree = json!({
        "type": "object", "additionalProperties": false,
        "properties": { "n": { "type": "integer" }, "of": { "type": "array", "items": { "$ref": "#" } } },
    });
    let tree = OutputSchema::new(&tree).unwrap();
    let wrong = r#"{"n":"one","of":[{"n":2,"of":[{}]},{"n":3}]}"#;
    let cut = r#"{"n":1,"of":[{"n":2},{"n":3}"#;
    let broken = r#"{"n":1,"of":[{"n":2},"#.to_owned() + "oops]}";
    for text in [
        wrong.to_owned(),
        format!("<think>{{}}</think>{wrong}"),
        format!("```json\n{wrong}\n```"),
        format!("It is {wrong}, I think."),
        cut.to_owned(),
        format!("It is {cut}"),
        broken,
    ] {
        assert!(read(&tree, &text).is_err(), "{text}: {:?}", read(&tree, &text));
    }
    let right = r#"{"n":1,"of":[{"n":2},{"n":3}]}"#;
    for text in [right.to_owned(), format!("Of [1] and {{}} it is {right}.")] {
        assert_eq!(read(&tree, &text).unwrap().to_string(), right);
    }
}

#[test]
fn a_model_is_asked_again_a_bounded_number_of_times() {
    let schema = schema();
    let mut answers = Answers::new(Some(&schema));
    for _ in 0..MAX_REPAIRS {
        let Verdict::Again(prompt) = answers.judge(End::Final, "{}") else { panic!("not asked again") };
        assert!(prompt.contains("`n` is required") && answers.is_without_tools());
        assert!(prompt.contains("Schema {\"type\":") && is_question(&prompt), "{prompt}");
    }
    let last = answers.judge(End::Final, "nothing");
    assert!(matches!(&last, Verdict::Without { errors, .. } if errors.contains("not JSON")), "{last:?}");
    // An answer that was cut off, filtered or declined is not corrected.
    assert_eq!(answers.judge(End::Length, "{"), Verdict::Ended(None));
    assert_eq!(Answers::new(None).judge(End::Final, "words"), Verdict::Ended(None));
}

#[test]
fn a_long_schema_is_not_told_again() {
    let long =
        OutputSchema::new(&json!({ "description": "x".repeat(MAX_RETOLD), "type": "integer" })).unwrap();
    let prompt = question(&long, "it is empty");
    assert!(prompt.len() < 200 && is_question(&prompt), "{prompt}");
}

#[test]
fn the_model_is_told_the_schema_after_everything_else() {
    let told = instructed("Be good.".into(), &schema());
    assert!(
        told.starts_with("Be good.\n\nWhen the task is done")
            && told.ends_with("\"additionalProperties\":false}")
    );
    assert!(instructed(String::new(), &schema()).starts_with("When"));
}

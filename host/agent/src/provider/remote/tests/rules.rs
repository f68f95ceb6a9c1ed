//! The checks of each vendor on a complete conversation, as one function. The integration tests use it in their
//! strict fakes.

use std::collections::BTreeSet;

use serde_json::Value;

/// A step of the conversation in a request.
enum Step {
    /// A message of the user, possibly empty.
    User { is_blank: bool },
    /// A turn of the model: ids and names of its calls.
    Model { calls: Vec<(Option<String>, String)>, is_blank: bool },
    /// Answers to calls, by id, or by name without ids.
    Answers(Vec<String>),
}

/// Returns the reasons why `format` would reject a request; empty if it would not.
pub(crate) fn violations(format: &str, body: &Value) -> Vec<String> {
    let steps = match format {
        "anthropic" => anthropic(body),
        "gemini" => gemini(body),
        "responses" => responses(body),
        _ => chat(body, format == "ollama"),
    };
    let mut found = Vec::new();
    order(format, &steps, &mut found);
    ids(format, &steps, &mut found);
    match format {
        "anthropic" => thinking(body, &mut found),
        "gemini" => signatures(body, &mut found),
        "responses" => reasoning(body, &mut found),
        _ => {}
    }
    found
}

/// Calls are answered next, each once and in order; roles alternate; nothing is empty; the last message is not the
/// model's.
fn order(format: &str, steps: &[Step], found: &mut Vec<String>) {
    if !matches!(steps.first(), Some(Step::User { .. })) {
        found.push("the first word is not a person's".into());
    }
    if matches!(steps.last(), Some(Step::Model { .. })) && format != "anthropic" {
        found.push("the last word is the model's".into());
    }
    let takes_turns = !matches!(format, "gemini" | "responses" | "ollama");
    for pair in steps.windows(2) {
        match pair {
            [Step::Model { calls, .. }, Step::Answers(answers)] => {
                let keys: Vec<_> =
                    calls.iter().map(|(id, name)| id.clone().unwrap_or_else(|| name.clone())).collect();
                if keys != *answers {
                    found.push(format!("calls {keys:?} are answered by {answers:?}"));
                }
            }
            [Step::Model { calls, .. }, _] if !calls.is_empty() => found.push("calls without answers".into()),
            [_, Step::Answers(_)] => found.push("answers without calls".into()),
            [Step::User { .. }, Step::User { .. }] if takes_turns => {
                found.push("a person speaks twice".into());
            }
            [Step::Model { .. }, Step::Model { .. }] if format != "anthropic" => {
                found.push("the model speaks twice".into());
            }
            _ => {}
        }
    }
    let is_blank = |step: &Step| match step {
        Step::User { is_blank } => *is_blank,
        Step::Model { calls, is_blank } => *is_blank && calls.is_empty(),
        Step::Answers(_) => false,
    };
    if steps.iter().any(is_blank) {
        found.push("an empty message".into());
    }
}

/// Ids are unique over all turns and have the vendor's form; names are valid.
fn ids(format: &str, steps: &[Step], found: &mut Vec<String>) {
    let most = match format {
        "anthropic" | "responses" => 64,
        "chat" | "openrouter" => 40,
        _ => usize::MAX,
    };
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let mut seen = BTreeSet::new();
    let calls = steps.iter().filter_map(|step| match step {
        Step::Model { calls, .. } => Some(calls),
        _ => None,
    });
    for (id, name) in calls.flatten() {
        if name.is_empty() || name.len() > 64 || !is_word(name) {
            found.push(format!("`{name}` is not a name"));
        }
        let Some(id) = id else { continue };
        if id.is_empty() || id.len() > most || (format == "anthropic" && !is_word(id)) {
            found.push(format!("`{id}` is not an id"));
        }
        if !seen.insert(id.clone()) {
            found.push(format!("ids must be unique: `{id}`"));
        }
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn is(value: &Value, kind: &str) -> bool {
    text(value, "type") == kind
}

fn is_blank(content: Option<&Value>) -> bool {
    match content {
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(Value::Array(parts)) => parts.is_empty(),
        _ => true,
    }
}

fn anthropic(body: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    for message in list(body, "messages") {
        let blocks = list(message, "content");
        let has_blank = blocks.iter().any(|block| is(block, "text") && text(block, "text").trim().is_empty());
        if text(message, "role") == "assistant" {
            let calls = blocks.iter().filter(|block| is(block, "tool_use"));
            let calls = calls
                .map(|call| (Some(text(call, "id").to_owned()), text(call, "name").to_owned()))
                .collect();
            let is_blank = blocks.is_empty() || has_blank;
            steps.push(Step::Model { calls, is_blank });
            continue;
        }
        let answers: Vec<_> = blocks.iter().take_while(|block| is(block, "tool_result")).collect();
        if !answers.is_empty() {
            steps.push(Step::Answers(
                answers.iter().map(|answer| text(answer, "tool_use_id").to_owned()).collect(),
            ));
        }
        let rest = blocks.get(answers.len()..).unwrap_or_default();
        if !rest.is_empty() || answers.is_empty() {
            steps.push(Step::User { is_blank: rest.is_empty() || has_blank });
        }
    }
    steps
}

/// An open turn begins with thinking if thinking is enabled, and contains none if it is disabled.
fn thinking(body: &Value, found: &mut Vec<String>) {
    let messages = list(body, "messages");
    let is_thought = |block: &Value| is(block, "thinking") || is(block, "redacted_thinking");
    let mode = body.get("thinking").map(|thinking| text(thinking, "type"));
    let is_answer = |message: &Value| list(message, "content").iter().any(|block| is(block, "tool_result"));
    let is_only_answer =
        |message: &Value| list(message, "content").iter().all(|block| is(block, "tool_result"));
    let is_model = |message: &&Value| text(message, "role") == "assistant";
    let mut first = None;
    if messages.last().is_some_and(is_answer) {
        for (place, message) in messages.iter().enumerate().rev() {
            let is_last = place + 1 == messages.len();
            if is_model(&message) {
                first = Some(message);
            } else if !is_last && !is_only_answer(message) {
                break;
            }
        }
    }
    let begins = |message: &Value| list(message, "content").first().is_some_and(is_thought);
    if mode == Some("enabled") && first.is_some_and(|first| !begins(first)) {
        found.push("a turn that goes on does not begin with thinking".into());
    }
    let is_off =
        mode == Some("disabled") || (mode.is_none() && text(body, "model").starts_with("claude-sonnet-4-5"));
    let last = messages.iter().rfind(is_model);
    if is_off && last.is_some_and(|last| list(last, "content").iter().any(is_thought)) {
        found.push("thinking is disabled, and the last message of the model has some".into());
    }
    let blocks = messages.iter().flat_map(|message| list(message, "content"));
    if blocks.filter(|block| is(block, "thinking")).any(|block| text(block, "signature").is_empty()) {
        found.push("thinking without its signature".into());
    }
}

fn gemini(body: &Value) -> Vec<Step> {
    let mut steps = Vec::new();
    for content in list(body, "contents") {
        let parts = list(content, "parts");
        let key = |call: &Value| match text(call, "id") {
            "" => None,
            id => Some(id.to_owned()),
        };
        let has_blank = parts.iter().any(|part| {
            part.get("text").is_some_and(|text| text == "") && part.get("thoughtSignature").is_none()
        });
        if text(content, "role") == "model" {
            let calls = parts.iter().filter_map(|part| part.get("functionCall"));
            let calls = calls.map(|call| (key(call), text(call, "name").to_owned())).collect();
            steps.push(Step::Model { calls, is_blank: parts.is_empty() || has_blank });
            continue;
        }
        let answers: Vec<_> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
        if answers.is_empty() {
            steps.push(Step::User { is_blank: parts.is_empty() || has_blank });
        } else {
            let keys =
                answers.iter().map(|answer| key(answer).unwrap_or_else(|| text(answer, "name").to_owned()));
            steps.push(Step::Answers(keys.collect()));
        }
    }
    steps
}

/// The first call of each turn has a signature.
fn signatures(body: &Value, found: &mut Vec<String>) {
    for content in list(body, "contents") {
        let first = list(content, "parts").iter().find(|part| part.get("functionCall").is_some());
        if first.is_some_and(|part| text(part, "thoughtSignature").is_empty()) {
            found.push("a call without a signature".into());
        }
    }
}

fn responses(body: &Value) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for item in list(body, "input") {
        match text(item, "type") {
            "function_call" => {
                let call = (Some(text(item, "call_id").to_owned()), text(item, "name").to_owned());
                match steps.last_mut() {
                    Some(Step::Model { calls, .. }) => calls.push(call),
                    _ => steps.push(Step::Model { calls: vec![call], is_blank: true }),
                }
            }
            "function_call_output" => {
                let id = text(item, "call_id").to_owned();
                match steps.last_mut() {
                    Some(Step::Answers(answers)) => answers.push(id),
                    _ => steps.push(Step::Answers(vec![id])),
                }
            }
            "reasoning" => {}
            _ if text(item, "role") == "user" => {
                steps.push(Step::User { is_blank: is_blank(item.get("content")) });
            }
            _ => steps.push(Step::Model { calls: Vec::new(), is_blank: is_blank(item.get("content")) }),
        }
    }
    steps
}

/// Each reasoning item is followed by another item.
fn reasoning(body: &Value, found: &mut Vec<String>) {
    let items = list(body, "input");
    for (place, _) in items.iter().enumerate().filter(|(_, item)| is(item, "reasoning")) {
        let next = items.get(place + 1);
        let leads = next.is_some_and(|next| {
            is(next, "function_call") || is(next, "reasoning") || text(next, "role") == "assistant"
        });
        if !leads {
            found.push("reasoning without its following item".into());
        }
    }
}

/// Reads chat completions and Ollama's chat, which may identify answers by name alone.
fn chat(body: &Value, is_ollama: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for message in list(body, "messages") {
        let content = message.get("content");
        match text(message, "role") {
            "system" => {}
            "tool" => {
                let id = text(message, "tool_call_id");
                let key = if id.is_empty() && is_ollama { text(message, "tool_name") } else { id }.to_owned();
                match steps.last_mut() {
                    Some(Step::Answers(answers)) => answers.push(key),
                    _ => steps.push(Step::Answers(vec![key])),
                }
            }
            "assistant" => {
                let calls = list(message, "tool_calls").iter().map(|call| {
                    let id = Some(text(call, "id").to_owned()).filter(|id| !id.is_empty() || !is_ollama);
                    (id, text(&call["function"], "name").to_owned())
                });
                steps.push(Step::Model { calls: calls.collect(), is_blank: is_blank(content) });
            }
            _ => steps.push(Step::User { is_blank: is_blank(content) && message.get("images").is_none() }),
        }
    }
    steps
}

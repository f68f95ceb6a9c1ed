//! Tool schemas as found in published servers, against each vendor: no request is rejected because of a schema, and
//! the tool gets its original argument names.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use haft::agent::{Agent, AgentSettings, End, History};
use haft::call::{ToolCall, ToolDef, ToolResult};
use haft::grant::Grant;
use haft::limit::Limits;
use haft::tool::{Context, Session, Tool, ToolError, Toolbox};
use serde_json::{Value, json};

use super::server::{Answer, Said, Server};
use super::{VENDORS, provider, settings};

/// A tool that records its arguments.
struct Odd(ToolDef, Arc<Mutex<Vec<Value>>>);

#[async_trait]
impl Tool for Odd {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, call: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        self.1.lock().unwrap().push(call.arguments.clone());
        Ok(ToolResult::success("ok"))
    }
}

/// Schemas of published servers, each in its own tool.
fn schemas() -> Vec<Value> {
    let filter = json!({ "type": "object", "required": ["$filter"], "properties": {
        "$filter": { "type": "string" }, "order by": { "type": "array", "items": { "type": "string" } } } });
    vec![
        filter,
        json!({ "type": "object", "properties": { "tags": { "type": "array" } } }),
        json!({ "type": "object", "properties": { "range": { "type": "array",
            "prefixItems": [{ "type": "integer" }, { "type": "string" }] } } }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {
            "n": { "type": "number", "minimum": 0, "exclusiveMinimum": true }, "x": { "type": "any", "required": true } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/definitions/gone" }, "b": { "$ref": "other.json" } } }),
        json!({ "type": "object", "properties": { "tree": { "type": "object", "properties": { "left": { "$ref": "#/properties/tree" } } } } }),
        json!({}),
    ]
}

/// G03: odd schemas fail no request, and haft maps the model's argument names back.
#[tokio::test]
async fn an_odd_schema_fails_no_request_of_any_vendor() {
    for vendor in VENDORS {
        let calls = vec![("call_1", "odd0", json!({ "filter": "a eq 1", "order_by": ["b"] }))];
        let script = [Said { calls, ..Said::default() }, Said { text: "done", ..Said::default() }];
        let server = Server::start(vendor, script.map(Answer::Turn)).await;
        let (mut toolbox, called) = (Toolbox::default(), Arc::new(Mutex::new(Vec::new())));
        for (number, parameters) in schemas().into_iter().enumerate() {
            let def = ToolDef {
                name: format!("odd{number}"),
                description: "d".into(),
                parameters,
                ..ToolDef::default()
            };
            let tool = Arc::new(Odd(def, called.clone()));
            toolbox.insert(tool, Grant::none(), Limits::default(), "the test").unwrap();
        }
        let agent = Agent::new(provider(settings(&server, true)), toolbox, AgentSettings::default());
        let outcome = agent.run(&mut History::default(), "go", &Session::default()).await.unwrap();
        server.assert_done();
        assert_eq!(outcome.end, End::Final, "{}: {:?}", vendor.name(), outcome.failure);
        let meant = json!({ "$filter": "a eq 1", "order by": ["b"] });
        assert_eq!(*called.lock().unwrap(), [meant], "{}", vendor.name());
    }
}

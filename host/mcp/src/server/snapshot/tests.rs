use std::sync::Arc;

use haft_core::call::{ToolCall, ToolDef, ToolResult};
use haft_core::grant::Grant;
use haft_core::limit::Limits;
use haft_core::tool::{Context, ToolError};
use serde_json::json;

use super::*;

struct Named(ToolDef);

#[async_trait::async_trait]
impl haft_core::tool::Tool for Named {
    fn def(&self) -> &ToolDef {
        &self.0
    }

    async fn call(&self, _: &ToolCall, _: &Context<'_>) -> Result<ToolResult, ToolError> {
        Ok(ToolResult::success("done"))
    }
}

pub(in crate::server) fn snapshot(names: &[&str]) -> ToolSnapshot {
    let mut toolbox = Toolbox::default();
    for name in names {
        let def =
            ToolDef { name: (*name).to_owned(), parameters: json!({"type": "object"}), ..ToolDef::default() };
        toolbox.insert(Arc::new(Named(def)), Grant::none(), Limits::default(), "test").unwrap();
    }
    ToolSnapshot::new(toolbox, Session::default(), ServerInfo::default(), true)
}

/// A caller sees its own tools, and an unknown caller sees none.
#[tokio::test]
async fn callers_see_their_own_tools() {
    let own = |names: &[&str]| snapshot(names).toolbox;
    let whole = snapshot(&["p__a", "p__b"]).without_prefix("p__".to_owned());
    let (publisher, all) = Publisher::new(whole.with_callers([("ci".to_owned(), own(&["p__b"]))]));
    let names = |seen: &ToolSnapshots| -> Vec<String> {
        seen.now().tools.iter().map(|tool| tool.name.clone()).collect()
    };
    let (ci, other) = (all.of_caller("ci"), all.of_caller("other"));
    assert_eq!((names(&all), names(&ci)), (vec!["a".into(), "b".into()], vec!["b".into()]));
    assert!(names(&other).is_empty());
    let seen = ci.now();
    let differs = |tools: &[&str]| {
        let again = snapshot(&["p__a", "p__b"]).without_prefix("p__".to_owned());
        publisher.publish(again.with_callers([("ci".to_owned(), own(tools))]))
    };
    assert!(!differs(&["p__b"]) && differs(&["p__a"]));
    assert_eq!(ci.other_than(&seen).await.unwrap().tools.len(), 1);
    assert_eq!(names(&ci), ["a"]);
}

/// Every tool is found by the name that clients see, with and without a prefix.
#[test]
fn tools_are_found_by_the_names_that_clients_see() {
    let names = ["p__a", "p__b", "other"];
    let whole = snapshot(&names);
    let short = snapshot(&names).without_prefix("p__".to_owned());
    for (seen, snapshot) in [(["p__a", "p__b", "other"], &whole), (["a", "b", "other"], &short)] {
        assert_eq!(snapshot.tools.len(), seen.len());
        for name in seen {
            let found = snapshot.find(name);
            let listed = found.listed.and_then(|place| snapshot.tools.get(place));
            assert_eq!(listed.map(|tool| tool.name.as_str()), Some(name));
            assert!(found.entry.is_some_and(|entry| entry.def().name.ends_with(name)));
        }
    }
    assert!(short.find("p__a").listed.is_none() && whole.find("a").listed.is_none());
}

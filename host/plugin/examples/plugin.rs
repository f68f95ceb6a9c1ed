//! One call of a component's tool with `haft-plugin-host` and `haft-core` alone: no program.toml, no model, no
//! server. `cargo run --example plugin -- plugins/built/wordcount.wasm count README.md`

#![expect(clippy::print_stdout, reason = "a program of its own, which prints what it likes")]

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haft_core::call::{ToolCall, ToolResult};
use haft_core::grant::{Grant, Root};
use haft_core::limit::Limits;
use haft_core::tool::{Session, Toolbox};
use haft_plugin_host::{Engine, EngineOptions, GrantPlace, Plugin, PluginTool, Source};
use serde_json::{Value, json};

/// Calls `tool` of `component`, which may read `folder` and nothing else.
pub async fn call(
    component: PathBuf,
    folder: &Path,
    tool: &str,
    arguments: Value,
) -> Result<ToolResult, Box<dyn Error>> {
    let engine = Engine::new(&EngineOptions::default());
    let limits = Limits::default();
    let plugin = Plugin::load(&engine, "example", Source::File(component), &limits).await?;
    let grant = Grant::none().with_read(Root::resolve(folder, Path::new("."))?);
    let mut toolbox = Toolbox::default();
    for def in plugin.tools() {
        let tool = PluginTool::new(&plugin, def, def.name.clone(), GrantPlace::Plugin);
        toolbox.insert(Arc::new(tool), grant.clone(), limits, "the example")?;
    }
    let call = ToolCall { id: "1".into(), tool: tool.into(), arguments };
    Ok(toolbox.dispatch(call, &Session::default()).await)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let [component, tool, path] = [1, 2, 3].map(|place| env::args().nth(place).unwrap_or_default());
    let result = call(component.into(), &env::current_dir()?, &tool, json!({ "path": path })).await?;
    println!("{}", result.content);
    Ok(())
}

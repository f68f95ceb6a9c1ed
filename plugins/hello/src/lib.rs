//! The smallest plugin: one tool, which greets.

use haft_plugin::{Context, Error, Output, Tool};

/// Greets somebody.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Hello {
    /// Who to greet.
    name: String,
}

impl Tool for Hello {
    const NAME: &str = "hello";

    fn call(self, _context: &Context) -> Result<Output, Error> {
        Ok(format!("hello {}", self.name).into())
    }
}

haft_plugin::export!(Hello);

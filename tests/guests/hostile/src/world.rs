//! Guests that inspect the process and its environment.

use std::io::Read;

use haft_plugin::{Error, Output};

deed! {
    /// Gives a text back.
    Echo, "echo" { text: String } |self, _context| Ok(self.text.into())
}

deed! {
    /// Answers with a text and so many bytes that are none.
    Binary, "binary" { bytes: Option<usize> } |self, _context| {
        let data = (0..=u8::MAX).cycle().take(self.bytes.unwrap_or(256)).collect();
        Ok(Output::from("some bytes").with_binary("application/octet-stream", data))
    }
}

deed! {
    /// Lists the environment variables, one a line.
    Env, "env" {} |self, _context| {
        let lines = std::env::vars_os().map(|(name, value)| format!("{}={}", name.display(), value.display()));
        Ok(lines.collect::<Vec<_>>().join("\n").into())
    }
}

deed! {
    /// Needs an environment variable.
    Variable, "variable" { name: String } |self, _context| Ok(std::env::var(&self.name)?.into())
}

deed! {
    /// Needs a process argument.
    Argument, "argument" {} |self, _context| {
        let argument = std::env::args().nth(1);
        Ok(argument.ok_or_else(|| Error::failed("expected an argument"))?.into())
    }
}

deed! {
    /// Lists the process arguments, one a line.
    Args, "args" {} |self, _context| {
        let lines = std::env::args_os().map(|argument| argument.display().to_string());
        Ok(lines.collect::<Vec<_>>().join("\n").into())
    }
}

deed! {
    /// Reads stdin to its end.
    Stdin, "stdin" {} |self, _context| {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes)?;
        Ok(format!("{} bytes: {}", bytes.len(), String::from_utf8_lossy(&bytes)).into())
    }
}

deed! {
    /// Says what the current directory and the workspace are, and what a path means.
    Paths, "paths" { path: String } |self, context| {
        let current = std::env::current_dir();
        let workspace = context.workspace();
        Ok(format!("current {current:?}\nworkspace {workspace:?}\npath {}", context.path(&self.path).display()).into())
    }
}

deed! {
    /// Makes a directory the current one, and then reads a file by a path that starts from it.
    SetDir, "set_dir" { directory: String, path: String } |self, _context| {
        std::env::set_current_dir(&self.directory)?;
        Ok(std::fs::read_to_string(&self.path)?.into())
    }
}

/// Answers with data, as its output schema has it or not.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Structured {
    fits: bool,
}

/// What [`Structured`] says it answers.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Answer {
    answer: u8,
}

/// What it must not answer.
#[derive(serde::Serialize)]
struct Text {
    answer: &'static str,
}

impl haft_plugin::Tool for Structured {
    const NAME: &str = "structured";

    fn output_schema() -> Option<String> {
        Some(haft_plugin::schema_of::<Answer>())
    }

    fn call(self, _context: &haft_plugin::Context) -> Result<Output, Error> {
        let output = Output::from("the answer is 42");
        if self.fits {
            output.with_structured(&Answer { answer: 42 })
        } else {
            output.with_structured(&Text { answer: "42" })
        }
    }
}

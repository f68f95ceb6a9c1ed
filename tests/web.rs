//! haft with its built-in tools for the web, started as a user starts it: `[builtins]` limits the hosts that they
//! reach.

#![expect(clippy::disallowed_methods, reason = "these tests start haft itself")]

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::cache;

/// A home directory that is also the workspace, with a program.toml.
pub(crate) struct Web {
    directory: tempfile::TempDir,
    options: Vec<String>,
}

/// The result of a call.
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) is_error: bool,
}

impl Web {
    /// haft with these lines under `[builtins]`.
    pub(crate) fn new(builtins: &str) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(directory.path().join("tmp")).unwrap();
        let program = format!("[sandbox]\nworkspace = \".\"\n[builtins]\n{builtins}\n");
        fs::write(directory.path().join("program.toml"), program).unwrap();
        Self { directory, options: Vec::new() }
    }

    /// haft with more command-line options.
    pub(crate) fn with(self, options: &[&str]) -> Self {
        Self { options: options.iter().map(|&option| option.to_owned()).collect(), ..self }
    }

    /// Runs haft and returns the text of both output streams.
    pub(crate) fn haft(&self, arguments: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_haft"))
            .args(&self.options)
            .args(arguments)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("HAFT_TRUST", "1")
            .env("TMPDIR", self.directory.path().join("tmp"))
            .env("XDG_CACHE_HOME", cache())
            .env_remove("HAFT_LOG")
            // No request must use these proxies.
            .envs(["http_proxy", "https_proxy", "all_proxy"].map(|proxy| (proxy, "http://127.0.0.1:1")))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    }

    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> Answer {
        let output = self.haft(&["--json", "call", tool, &arguments.to_string()]);
        let answer: Value = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}"));
        let text = answer["content"].as_str().unwrap().to_owned();
        Answer { text, is_error: answer["is_error"] == true }
    }

    /// Calls a tool that must succeed.
    pub(crate) fn says(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.call(tool, arguments);
        assert!(!answer.is_error, "{arguments}: {}", answer.text);
        answer.text
    }

    /// Calls a tool that must fail.
    pub(crate) fn fails(&self, tool: &str, arguments: &Value) -> String {
        let answer = self.call(tool, arguments);
        assert!(answer.is_error, "{arguments}: {}", answer.text);
        answer.text
    }
}

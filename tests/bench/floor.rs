//! A minimal server: it reads a message, parses it and writes a fixed answer to every call. Its time is the floor
//! of a measurement, with this client, on these processors and in this kernel. It runs in a separate process of
//! this benchmark's program.

use std::io::{BufRead, BufReader, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

/// The first argument of a process that is this server.
pub(crate) const FLOOR: &str = "floor";

/// The command that starts this server: this program, with [`FLOOR`] before `more`.
pub(crate) fn command(more: &[&str]) -> Vec<String> {
    let own = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    [own.as_str(), FLOOR].iter().chain(more).map(ToString::to_string).collect()
}

/// Serves if this process was started as the server; the exit code then.
pub(crate) fn entry(serve: impl FnOnce(&str)) -> Option<ExitCode> {
    let mut words = std::env::args().skip(1);
    (words.next()? == FLOOR).then(|| {
        serve(&words.next().unwrap_or_default());
        ExitCode::SUCCESS
    })
}

/// The answer to a message, if it is a request.
pub(crate) fn answer(message: &[u8]) -> Option<String> {
    let message: Value = serde_json::from_slice(message).unwrap();
    let id = message.get("id")?;
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "floor", "version": "0"},
        }),
        "tools/list" => json!({"tools": []}),
        "ping" => json!({}),
        _ => json!({"content": [{"type": "text", "text": "Hello, hi!"}]}),
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}

/// Serves standard streams to their end.
#[allow(dead_code, reason = "one benchmark uses it")]
pub(crate) fn serve_streams() {
    let (mut input, mut output) = (BufReader::new(std::io::stdin()), std::io::stdout());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).unwrap() > 0 {
        if let Some(answer) = answer(&line) {
            output.write_all(format!("{answer}\n").as_bytes()).unwrap();
        }
        line.clear();
    }
}

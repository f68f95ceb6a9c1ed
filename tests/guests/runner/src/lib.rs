//! A program of WASI 0.3 (`wasi:cli/run@0.3`): command-line arguments, standard streams as streams, a file, an exit
//! code, and attacks of a program.

#![allow(clippy::panic, reason = "what a program does")]

#[allow(clippy::pedantic, unsafe_code, reason = "generated")]
mod bindings {
    use super::Runner;

    wit_bindgen::generate!({ path: "src/runner.wit", generate_all });
    export!(Runner with_types_in self);
}

use bindings::exports::wasi::cli::run::Guest;
use bindings::wasi::cli::{environment, exit, stderr, stdin, stdout};
use bindings::wit_stream;

/// The component.
struct Runner;

impl Guest for Runner {
    async fn run() -> Result<(), ()> {
        let words = environment::get_arguments();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match work(&words).await {
            Ok(()) => Ok(()),
            Err(error) => {
                complain(&format!("{}: {error}", words.first().unwrap_or(&"?"))).await;
                Err(())
            }
        }
    }
}

async fn work(words: &[&str]) -> Result<(), String> {
    match words {
        [_, "echo", rest @ ..] => write(rest.join(" ").into_bytes()).await,
        [name, "name"] => write(name.to_string().into_bytes()).await,
        [_, "count"] => {
            let (input, _) = stdin::read_via_stream();
            let bytes = input.collect().await;
            write(format!("{} bytes", bytes.len()).into_bytes()).await;
        }
        [_, "both"] => {
            write(b"to standard output".to_vec()).await;
            complain("to standard error").await;
        }
        [_, "exit", code] => exit::exit_with_code(code.parse().unwrap_or(99)),
        [_, "panic"] => panic!("told to"),
        [_, "read", path] => {
            let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
            write(text.into_bytes()).await;
        }
        [_, "env"] => {
            let all =
                environment::get_environment().into_iter().map(|(name, value)| format!("{name}={value}"));
            write(all.collect::<Vec<_>>().join("\n").into_bytes()).await;
        }
        [_, "spam", megabytes] => {
            for _ in 0..megabytes.parse().unwrap_or(0) {
                write(vec![b'x'; 1 << 20]).await;
            }
        }
        [_, "spin"] => loop {
            std::hint::spin_loop();
        },
        _ => return Err("what?".into()),
    }
    Ok(())
}

/// Writes to standard output. A stream whose reader is gone is none of this program's business.
async fn write(bytes: Vec<u8>) {
    let (mut writer, reader) = wit_stream::new();
    let written = stdout::write_via_stream(reader);
    writer.write_all(bytes).await;
    drop(writer);
    let _ = written.await;
}

async fn complain(text: &str) {
    let (mut writer, reader) = wit_stream::new();
    let written = stderr::write_via_stream(reader);
    writer.write_all(text.as_bytes().to_vec()).await;
    drop(writer);
    let _ = written.await;
}

//! An ordinary program: command-line arguments, standard streams, files, an exit code.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    clippy::panic,
    reason = "what a program does"
)]

use std::io::{self, Read, Write};
use std::process::{ExitCode, exit};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", words.first().unwrap_or(&"?"));
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> io::Result<()> {
    match words {
        [_, "echo", rest @ ..] => println!("{}", rest.join(" ")),
        [name, "name"] => println!("{name}"),
        [_, "count"] => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            println!("{} bytes", text.len());
        }
        [_, "both"] => {
            println!("to standard output");
            eprintln!("to standard error");
        }
        [_, "exit", code] => exit(code.parse().unwrap_or(99)),
        [_, "panic"] => panic!("told to"),
        [_, "read", path] => print!("{}", std::fs::read_to_string(path)?),
        [_, "write", path] => std::fs::write(path, "written")?,
        [_, "env", name] => println!("{}", std::env::var(name).unwrap_or_else(|_| "unset".into())),
        [_, "spam", megabytes] => {
            let megabyte = vec![b'x'; 1 << 20];
            for _ in 0..megabytes.parse().unwrap_or(0) {
                io::stdout().write_all(&megabyte)?;
            }
        }
        [_, "spin"] => loop {
            std::hint::spin_loop();
        },
        _ => return Err(io::Error::other("what?")),
    }
    Ok(())
}

//! The wire protocol of the NATS server, written by hand.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::json;

use super::world::World;
use crate::common::HANG;

/// A raw connection to the server.
pub(crate) struct Raw {
    stream: TcpStream,
    lines: std::io::Lines<BufReader<TcpStream>>,
}

impl Raw {
    pub(crate) fn login(world: &World, user: &str) -> Self {
        let stream = TcpStream::connect(world.url().trim_start_matches("nats://")).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let mut raw = Self { stream, lines };
        let login =
            json!({"user": user, "pass": format!("{user}-password"), "headers": true, "verbose": false});
        raw.say(&format!("CONNECT {login}\r\nPING\r\n"));
        assert!(raw.until(|line| line == "PONG" || line.starts_with("-ERR")).starts_with("PONG"));
        raw
    }

    pub(crate) fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn until(&mut self, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            if is_it(&line) {
                return line;
            }
        }
    }

    /// Whether the server permits a message to `subject` and an answer arrives at `inbox`.
    pub(crate) fn asks(&mut self, subject: &str, inbox: &str, text: &str) -> bool {
        let length = text.len();
        self.say(&format!("SUB {inbox} 1\r\nPUB {subject} {inbox} {length}\r\n{text}\r\nPING\r\n"));
        let line = self.until(|line| line.starts_with("-ERR") || line.contains("MSG ") || line == "PONG");
        if line == "PONG" {
            self.until(|line| line.contains("MSG ")).contains("MSG ")
        } else {
            line.contains("MSG ")
        }
    }

    /// The first message to `subject`: its full subject and its content.
    pub(crate) fn first(&mut self, subject: &str) -> (String, String) {
        self.say(&format!("SUB {subject} 3\r\n"));
        let head = self.until(|line| line.starts_with("MSG "));
        (head.split(' ').nth(1).unwrap().to_owned(), self.lines.next().unwrap().unwrap())
    }

    /// Whether the server permits a message to `subject`.
    pub(crate) fn may_say(&mut self, subject: &str) -> bool {
        self.say(&format!("PUB {subject} 1\r\nx\r\nPING\r\n"));
        self.until(|line| line.starts_with("-ERR") || line == "PONG") == "PONG"
    }

    /// Whether the server permits a subscription of `subject`.
    pub(crate) fn hears(&mut self, subject: &str) -> bool {
        self.say(&format!("SUB {subject} 2\r\nPING\r\n"));
        self.until(|line| line.starts_with("-ERR") || line == "PONG") == "PONG"
    }
}

//! A browser of the tests: opens the dashboard by its link, stores the cookie, reads the stream of events.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use serde_json::{Value, json};

use crate::common::HANG;
use crate::common::wait::until_some;
use crate::serve::Stage;
use crate::serve::http::{Reply, reply};

/// haft with a dashboard, and one browser's cookie.
pub(super) struct Browser {
    pub(super) child: Child,
    /// Host and port.
    pub(super) host: String,
    /// The path of the link.
    pub(super) link: String,
    pub(super) cookie: String,
}

/// The stream of events.
pub(super) struct Stream {
    lines: Receiver<String>,
    /// Rows that arrived with others and are not read yet.
    rows: RefCell<VecDeque<Value>>,
}

/// The time zone in which it is noon, so that no day ends during a test.
fn noon() -> String {
    let hour = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).hour();
    format!("NOON{}", hour - 12)
}

impl Browser {
    /// Starts `haft dashboard`, and opens its link.
    pub(super) fn open(stage: &Stage) -> Self {
        let mut browser = Self::start(stage, &["dashboard"]);
        browser.enter();
        browser
    }

    /// Starts haft without opening the link.
    pub(super) fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.command(arguments);
        let child =
            command.env("HAFT_TEST_TOKEN", TOKEN).env("TZ", noon()).stdout(Stdio::piped()).spawn().unwrap();
        let mut browser = Self { child, host: String::new(), link: String::new(), cookie: String::new() };
        let said = lines(browser.child.stderr.take().unwrap());
        let mut all = String::new();
        loop {
            let line = said.recv_timeout(HANG).unwrap_or_else(|_| panic!("no page: {all}"));
            all += &(line.clone() + "\n");
            if let Some(url) = line.trim().strip_prefix("http://").filter(|url| url.contains("/open/")) {
                let (address, path) = url.split_once('/').unwrap();
                address.clone_into(&mut browser.host);
                browser.link = format!("/{path}");
                return browser;
            }
        }
    }

    /// Uses the link.
    pub(super) fn enter(&mut self) {
        let reply = self.send("GET", &self.link, &[("cookie", "")], "");
        assert_eq!(reply.status, 200, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut self.cookie);
    }

    /// A request of the dashboard's page with `headers` in place of the usual ones; empty headers are omitted.
    pub(super) fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream.write_all(self.head(method, path, headers, body.len()).as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        reply(stream)
    }

    fn head(&self, method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
        let (origin, length) = (format!("http://{}", self.host), length.to_string());
        let mut usual = vec![("host", self.host.as_str()), ("cookie", &self.cookie), ("connection", "close")];
        if method == "POST" {
            usual.extend([
                ("origin", origin.as_str()),
                ("content-type", "application/json"),
                ("content-length", length.as_str()),
            ]);
        }
        let own = |name: &str| headers.iter().any(|(other, _)| *other == name);
        let all =
            usual.iter().filter(|(name, _)| !own(name)).chain(headers).filter(|(_, value)| !value.is_empty());
        let lines: String = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("{method} {path} HTTP/1.1\r\n{lines}\r\n")
    }

    pub(super) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "")
    }

    /// The data at `path`, which must exist.
    pub(super) fn json(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        serde_json::from_str(&reply.body).unwrap()
    }

    /// Answers a question.
    pub(super) fn answer(&self, question: &Value, answer: &str) -> Reply {
        let body = json!({ "id": question["id"], "digest": question["digest"], "answer": answer });
        self.send("POST", "/api/answer", &[], &body.to_string())
    }

    /// Opens the stream of events.
    pub(super) fn stream(&self) -> Stream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.write_all(self.head("GET", "/events", &[], 0).as_bytes()).unwrap();
        let stream = Stream { lines: lines(stream), rows: RefCell::default() };
        // The first event is the list of questions, possibly empty; after it the dashboard counts as open.
        stream.next("waiting", |_| true);
        stream
    }
}

/// The token of an MCP client.
pub(super) const TOKEN: &str = "a-token-of-the-test-4711";

impl Stream {
    /// The data of the next event `name` for which `is_meant` holds.
    pub(super) fn next(&self, name: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        let mut own = false;
        let mut meant = |line: &str| {
            if let Some(event) = line.strip_prefix("event: ") {
                own = event == name;
            }
            let data = line.strip_prefix("data: ").filter(|_| own)?;
            Some(serde_json::from_str(data).unwrap()).filter(&is_meant)
        };
        // The dashboard sends events regularly, so that a limit on silence would not end the wait.
        until_some(&format!("`{name}` comes"), || {
            loop {
                match self.lines.try_recv() {
                    Ok(line) => match meant(&line) {
                        None => {}
                        found => return found,
                    },
                    Err(TryRecvError::Empty) => return None,
                    Err(TryRecvError::Disconnected) => panic!("the page ends before `{name}`"),
                }
            }
        })
    }

    /// The first waiting question.
    pub(super) fn question(&self) -> Value {
        self.next("waiting", |all| all.as_array().is_some_and(|all| !all.is_empty()))[0].take()
    }

    /// The row of a call with this outcome.
    pub(super) fn row(&self, tool: &str, outcome: &str) -> Value {
        loop {
            let next = self.rows.borrow_mut().pop_front();
            match next {
                Some(row) if row["tool"] == tool && row["outcome"] == outcome => return row,
                Some(_) => {}
                None => {
                    let batch = self.next("rows", |_| true);
                    self.rows.borrow_mut().extend(batch["rows"].as_array().unwrap().iter().cloned());
                }
            }
        }
    }

    /// The batches until `calls` calls have ended.
    pub(super) fn batches(&self, calls: u64) -> Vec<Value> {
        let (mut ended, mut all) = (0, Vec::new());
        while ended < calls {
            let batch = self.next("rows", |_| true);
            ended += batch["ended"].as_u64().unwrap();
            all.push(batch);
        }
        all
    }
}

/// The lines of `input` as they arrive. The reader ends with its input.
pub(super) fn lines(input: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(input).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

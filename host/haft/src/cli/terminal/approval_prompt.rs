//! Asks the user at the terminal whether a call may run. The question goes to standard error; the answer is read
//! from the terminal, never from standard input. Piped input and keys typed before the question are not an answer.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::OFlags;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::ask::{LOOK, TTY};
use super::{Screen, Terminal, changed, first_lines, more_lines};
use haft_core::tool::{Approver, Decision, Question};

/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 1 << 10;

/// Maximum lines of arguments in the first display. A command is displayed whole.
const MAX_LINES: usize = 20;

/// Maximum lines of a difference in the first display. The user agrees to this difference.
const MAX_CHANGED: usize = 40;

/// Maximum characters of a line of arguments in the first display.
const MAX_LINE: usize = 400;

/// The user at the terminal, who is asked one question at a time.
pub(in crate::cli) struct Person {
    terminal: Terminal,
    turn: Mutex<()>,
    /// The screen of a session that continues. It also allows the answer `always`.
    screen: Option<Arc<Screen>>,
}

impl Terminal {
    /// Returns the user at this terminal.
    pub(in crate::cli) fn person(self) -> Person {
        Person { terminal: self, turn: Mutex::default(), screen: None }
    }
}

impl Screen {
    /// Returns the user at this screen, who can allow a tool for the whole session.
    pub(in crate::cli) fn person(self: &Arc<Self>) -> Person {
        Person { screen: Some(self.clone()), ..self.terminal.person() }
    }
}

#[async_trait]
impl Approver for Person {
    async fn ask(&self, question: &Question) -> Decision {
        let _turn = self.turn.lock().await;
        let tty = match tty() {
            Ok(tty) => Arc::new(tty),
            Err(why) => return Decision::Unasked(why),
        };
        let mut shown = self.screen.as_ref().map(Shown::new);
        if let Err(error) = discard(&tty) {
            return Decision::Unasked(format!("`{TTY}` cannot be read: {error}"));
        }
        let answered = self.answer(question, &tty).await;
        if let Some(shown) = &mut shown {
            shown.is_answered = true;
        }
        match answered {
            Ok(answer) => {
                let offered = Offered { always: self.screen.is_some(), write: question.written_by.is_some() };
                self.decided(question, decision(&answer, offered))
            }
            Err(error) => Decision::Unasked(format!("the answer could not be read from `{TTY}`: {error}")),
        }
    }
}

impl Person {
    /// Asks the question, and repeats it with all folded lines on request.
    async fn answer(&self, question: &Question, tty: &Arc<File>) -> io::Result<String> {
        let mut is_whole = false;
        loop {
            let (text, is_folded) = prompt(question, self.screen.is_some(), is_whole);
            self.terminal.ask(&text);
            let gone = CancellationToken::new();
            let (asked, _until_dropped) = (gone.clone(), gone.drop_guard());
            let tty = tty.clone();
            let answered = tokio::task::spawn_blocking(move || line(&tty, &asked));
            let answer = answered.await.map_err(io::Error::other)??;
            if !is_folded || !matches!(answer.trim(), "v" | "view") {
                return Ok(answer);
            }
            is_whole = true;
        }
    }

    /// Returns the decision. After `always`, which ends with the session, prints how to make it permanent.
    fn decided(&self, question: &Question, decision: Decision) -> Decision {
        if let (Decision::Always, Some(rule)) = (&decision, &question.rule) {
            self.terminal.hint(&format!(
                "to allow this call permanently, add \"{rule}\" to `allow` in `[agent]`, or type `/allow \
                 --save {rule}` in a chat"
            ));
        }
        decision
    }
}

/// A question on the screen.
struct Shown {
    screen: Arc<Screen>,
    /// Whether the question's line has ended.
    is_answered: bool,
}

impl Shown {
    fn new(screen: &Arc<Screen>) -> Self {
        screen.asking();
        Self { screen: screen.clone(), is_answered: false }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if !self.is_answered {
            self.screen.terminal.message("");
        }
        self.screen.answered();
    }
}

/// Returns the terminal if standard error, which shows the question, is a terminal.
fn tty() -> Result<File, String> {
    if !io::stderr().is_terminal() {
        return Err("standard error, where haft asks, is not a terminal".into());
    }
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    File::options()
        .read(true)
        .custom_flags(flags)
        .open(TTY)
        .map_err(|error| format!("there is no terminal to answer at: `{TTY}`: {error}"))
}

/// Returns the question, and whether parts of it are folded. With `is_whole` nothing is folded.
fn prompt(question: &Question, always: bool, is_whole: bool) -> (String, bool) {
    let Question { verb, what, difference, .. } = question;
    // Every line of a command is relevant.
    let most = if is_whole || *verb == "Run" { (usize::MAX, usize::MAX) } else { (MAX_LINES, MAX_LINE) };
    let (mut lines, mut more) = first_lines(what, most.0, most.1);
    let mut is_folded =
        more > 0 || lines.iter().zip(what.lines()).any(|(shown, line)| shown.len() != line.len());
    if more > 0 {
        lines.push(more_lines(more, "v shows them"));
    }
    if let Some(difference) = difference {
        let mut all = changed(difference);
        if !is_whole && all.len() > MAX_CHANGED + 1 {
            more = all.len() - MAX_CHANGED;
            all.truncate(MAX_CHANGED);
            all.push(more_lines(more, "v shows them"));
            is_folded = true;
        }
        lines.extend(all);
    }
    let written_by = question.written_by.as_ref().map(|command| format!("\n  write: `{command}`"));
    let choices = [(always, "/always"), (written_by.is_some(), "/write"), (is_folded, "/view")];
    let choices: String =
        choices.iter().filter(|(is_there, _)| *is_there).map(|(_, choice)| *choice).collect();
    let agent = question.agent.as_ref().map(|agent| format!("{agent}: ")).unwrap_or_default();
    let end = if difference.is_some() || written_by.is_some() { "\n  " } else { " " };
    let lines = lines.join("\n       ") + &written_by.unwrap_or_default();
    (format!("  {agent}{verb}: {lines}{end}[y/N{choices}] "), is_folded)
}

/// Discards input from before the question.
fn discard(mut tty: &File) -> io::Result<()> {
    let mut typed = [0; MAX_ANSWER];
    loop {
        match tty.read(&mut typed) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the next line. It is empty at the end of input and after the question is withdrawn.
fn line(mut tty: &File, asked: &CancellationToken) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; MAX_ANSWER];
    while !asked.is_cancelled() && !bytes.contains(&b'\n') && bytes.len() < MAX_ANSWER {
        let mut waiting = [PollFd::new(tty, PollFlags::IN)];
        match poll(&mut waiting, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        // The question may have been withdrawn meanwhile: later input is not an answer to it.
        if asked.is_cancelled() {
            break;
        }
        match tty.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The possible answers besides yes and no.
#[derive(Clone, Copy)]
struct Offered {
    always: bool,
    write: bool,
}

/// Returns the decision. Only an explicit yes approves.
fn decision(answer: &str, offered: Offered) -> Decision {
    match answer.trim() {
        "y" | "Y" | "yes" | "Yes" | "YES" => Decision::Approved,
        "a" | "A" | "always" | "Always" | "ALWAYS" if offered.always => Decision::Always,
        "w" | "W" | "write" | "Write" | "WRITE" if offered.write => Decision::Written,
        _ => Decision::Denied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Offered = Offered { always: false, write: false };
    const ALL: Offered = Offered { always: true, write: true };

    /// RS06: only the listed words are a yes; every other line is a no.
    #[test]
    fn only_a_yes_is_one() {
        for yes in ["y\n", "Y\n", " yes \r\n"] {
            assert_eq!(decision(yes, NOTHING), Decision::Approved, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "yy\n", "yesterday\n", "да\n", "\u{1b}y\n"] {
            assert_eq!(decision(no, ALL), Decision::Denied, "{no:?}");
        }
        assert_eq!((decision("a\n", ALL), decision("w\n", ALL)), (Decision::Always, Decision::Written));
        for no in ["always\n", "write\n"] {
            assert_eq!(decision(no, NOTHING), Decision::Denied);
        }
    }

    /// RS06: a script is shown line by line, and a command is never cut.
    #[test]
    fn a_script_is_shown_line_by_line() {
        let question = Question {
            call: "a".into(),
            tool: "bash".into(),
            agent: None,
            verb: "Run",
            what: "cd x\nrm y".into(),
            text: String::new(),
            difference: None,
            arguments: serde_json::Value::Null,
            rule: None,
            written_by: None,
        };
        let whole = |text: &str| (text.to_owned(), false);
        assert_eq!(prompt(&question, false, false), whole("  Run: cd x\n       rm y [y/N] "));
        assert_eq!(prompt(&question, true, false), whole("  Run: cd x\n       rm y [y/N/always] "));
        let right = Question { written_by: Some("haft grant bash network".into()), ..question.clone() };
        let expected = "  Run: cd x\n       rm y\n  write: `haft grant bash network`\n  [y/N/write] ";
        assert_eq!(prompt(&right, false, false), whole(expected));
        let long = Question { what: "x\n".repeat(1000), ..question.clone() };
        assert_eq!(prompt(&long, true, false).0.lines().count(), 1000, "all of a command is agreed to");
        let long = Question { verb: "Call", ..long };
        let (text, is_folded) = prompt(&long, true, false);
        assert!(is_folded && text.contains("980 more lines"), "{text}");
        assert!(text.ends_with("[y/N/always/view] "), "{text}");
        let (text, is_folded) = prompt(&long, true, true);
        assert!(!is_folded && text.lines().count() == 1000, "{text}");
    }

    /// U3: an edit is shown as its diff.
    #[test]
    fn an_edit_is_shown_as_the_lines_that_differ() {
        let arguments = serde_json::json!({ "file_path": "a", "old_string": "one", "new_string": "two" });
        let difference = haft_core::tool::Difference::of(&arguments, None);
        let what = "edit a".to_owned();
        let question = Question {
            call: "a".into(),
            tool: "edit".into(),
            agent: Some("reviewer".into()),
            verb: "Call",
            what,
            difference,
            text: String::new(),
            arguments,
            rule: None,
            written_by: None,
        };
        let (text, is_folded) = prompt(&question, false, false);
        let expected = "  reviewer: Call: edit a\n       - one\n       + two\n  [y/N] ";
        assert_eq!((crate::cli::terminal::written(&text, false).as_str(), is_folded), (expected, false));
        assert!(crate::cli::terminal::written(&text, true).contains("\u{1b}[32m+ two"), "{text}");
    }

    /// RS06: Ctrl-C withdraws a question, and its reader stops.
    #[test]
    fn a_question_that_is_taken_back_reads_nothing() {
        let (reader, mut writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let reader = File::from(std::os::fd::OwnedFd::from(reader));
        let asked = CancellationToken::new();
        asked.cancel();
        io::Write::write_all(&mut writer, b"y\n").unwrap();
        assert_eq!(line(&reader, &asked).unwrap(), "");
        assert_eq!(line(&reader, &CancellationToken::new()).unwrap(), "y\n");
        io::Write::write_all(&mut writer, b"y\nyes\n").unwrap();
        discard(&reader).unwrap();
        drop(writer);
        assert_eq!(line(&reader, &CancellationToken::new()).unwrap(), "");
    }
}

//! Prompts and resources besides a tool. The list depends on the kind, which tests write into the bytes of the component.
#![allow(clippy::panic, reason = "one of the ways to fail")]
use haft_plugin::offers::{Contents, Message, Prompt, Resource, Resources};
use haft_plugin::{Context, Error, Output, Tool};

/// What kind of plugin this is, between `=` and `;`.
#[used]
static MODE: [u8; 21] = *b"haft-mode=plain     ;";

fn mode() -> String {
    let text = String::from_utf8_lossy(std::hint::black_box(&MODE)).into_owned();
    text.trim_start_matches("haft-mode=").trim_end_matches(';').trim().to_owned()
}

/// Says it again.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Echo {
    /// What to say.
    text: String,
}

impl Tool for Echo {
    const NAME: &str = "echo";

    fn call(self, _context: &Context) -> Result<Output, Error> {
        Ok(self.text.into())
    }
}

/// Asks for a review.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Review {
    /// What is to be reviewed.
    what: String,
    /// How to speak.
    tone: Option<String>,
}

impl Prompt for Review {
    const NAME: &str = "review";
    const TITLE: Option<&str> = Some("Review something");

    fn messages(self, _context: &Context) -> Result<Vec<Message>, Error> {
        let tone = self.tone.unwrap_or_else(|| "plainly".into());
        Ok(vec![
            Message::user(format!("Review {} {tone}.", self.what)),
            Message::file("image/png", b"\x89PNG\r\n\x1a\n".to_vec()),
            Message::assistant("I will."),
        ])
    }
}

/// Does what it is told to.
#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct Misbehave {
    /// What to do, and with what.
    how: String,
}

impl Prompt for Misbehave {
    const NAME: &str = "misbehave";

    fn messages(self, _context: &Context) -> Result<Vec<Message>, Error> {
        let (word, rest) = self.how.split_once(' ').unwrap_or((&self.how, ""));
        let text = match word {
            "trap" => panic!("told to"),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "flood" => "x".repeat(rest.parse()?),
            "read" => std::fs::read_to_string(rest)?,
            "write" => std::fs::write(rest, "written").map(|()| "written".into())?,
            "fail" => return Err(Error::failed("it broke")),
            other => other.to_owned(),
        };
        Ok(vec![Message::user(text)])
    }
}

/// Its resources.
pub struct Shelf;

impl Resources for Shelf {
    fn list() -> Vec<Resource> {
        let one = |path: &str| Resource::new(path, "Of this shelf.");
        match mode().as_str() {
            "many" => (0..2000).map(|number| one(&number.to_string())).collect(),
            "foreign" => vec![one("../other/notes.md")],
            "absolute" => vec![one("file:///etc/passwd")],
            "long" => vec![Resource::new("a", "x".repeat(100_000))],
            "twice" => vec![one("a"), one("a")],
            "trap" => panic!("told to"),
            _ => vec![
                one("notes/today.md").with_title("Today").with_media_type("text/markdown"),
                one("picture.png").with_name("picture").with_media_type("image/png"),
                one("trap"),
            ],
        }
    }

    fn templates() -> Vec<Resource> {
        match mode().as_str() {
            "closed" => Vec::new(),
            _ => vec![Resource::new("days/{day}", "A day.").with_media_type("text/plain")],
        }
    }

    fn read(path: &str, _context: &Context) -> Result<Contents, Error> {
        match path {
            "notes/today.md" => Ok(Contents::text("# Today\nNothing yet.")),
            "picture.png" => Ok(Contents::bytes(b"\x89PNG\r\n\x1a\n".to_vec())),
            "trap" => panic!("told to"),
            other => match other.strip_prefix("days/") {
                Some(day) => Ok(Contents::text(format!("it was {day}")).with_media_type("text/x-day")),
                None => Err(Error::invalid(format!("there is no {other}"))),
            },
        }
    }
}

haft_plugin::export!(Echo);
haft_plugin::export_offers!(prompts: [Review, Misbehave], resources: Shelf);

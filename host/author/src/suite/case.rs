//! A test case: the call, its rights and the expected result. Runs nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Error;
use serde_json::{Map, Value};
use toml::Spanned;

use super::snapshot_name;
use haft_core::grant::HostPattern;
use haft_core::limit::Limits;
use haft_core::report::Span;
use haft_manifest::units;

/// Limit on the time of a case.
const MAX_TIME: Duration = Duration::from_mins(10);

/// Limit on the characters of a name, which is part of the snapshot's file name.
const MAX_NAME: usize = 200;

/// A test case.
#[derive(Debug)]
pub struct Case {
    /// The name, unique in its file.
    pub name: String,
    /// The tool, by the plugin's name for it.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The rights of the call.
    pub grant: Grants,
    /// The limits of the call that differ from the plugin's.
    pub limits: OwnLimits,
    /// Files in the case's folder before the call, by relative path.
    pub files: BTreeMap<PathBuf, String>,
    /// A folder below `tests` that is copied into the case's folder.
    pub folder: Option<PathBuf>,
    /// Expected files in the case's folder after the call.
    pub after: BTreeMap<PathBuf, String>,
    /// Responses to the tool's requests.
    pub http: Vec<Http>,
    /// The expected result.
    pub wanted: Wanted,
}

/// The limits of a case; the plugin's limits replace missing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnLimits {
    memory: Option<u64>,
    time: Option<Duration>,
    result: Option<u64>,
    disk: Option<u64>,
}

impl OwnLimits {
    /// Returns all limits of the case; the plugin's are `usual`.
    pub fn over(self, usual: Limits) -> Limits {
        Limits {
            memory: self.memory.unwrap_or(usual.memory),
            time: self.time.unwrap_or(usual.time),
            result: self.result.unwrap_or(usual.result),
            disk: self.disk.unwrap_or(usual.disk),
        }
    }
}

/// The rights of a call. Directories are relative to the case's folder.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grants {
    /// Readable directories.
    pub read: Vec<PathBuf>,
    /// Readable and writable directories.
    pub write: Vec<PathBuf>,
    /// Permitted hosts, as in program.toml.
    #[serde(deserialize_with = "hosts")]
    pub hosts: Vec<HostPattern>,
    /// Environment variables, with their values.
    pub env: BTreeMap<String, String>,
}

/// A request that the tool must make, and the response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// The method and the URL, such as `GET https://example.com/a?b=c`.
    pub request: String,
    /// A text that the request's body must contain.
    pub sent: Option<String>,
    /// The status of the response.
    #[serde(default = "ok")]
    pub status: u16,
    /// The headers of the response.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body of the response.
    #[serde(default)]
    pub body: String,
    /// A file below `tests` with the body of the response.
    pub body_file: Option<PathBuf>,
}

/// The expected result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Any successful result.
    Anything,
    /// Exactly this result, as text.
    Answer(String),
    /// A result that equals this JSON value.
    Json(Value),
    /// A result that contains all of these texts.
    Contains(Vec<String>),
    /// The result in the snapshot.
    Snapshot,
    /// An error that contains this text.
    Error(String),
    /// A refusal whose message contains this text.
    Refused(String),
    /// An error at this limit.
    Limit(LimitName),
}

/// The limits that end a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitName {
    /// `memory`.
    Memory,
    /// `time`.
    Time,
    /// `result`.
    Result,
    /// `disk`.
    Disk,
}

impl LimitName {
    /// Returns the key in `[plugins.limits]`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Time => "time",
            Self::Result => "result",
            Self::Disk => "disk",
        }
    }
}

/// A file, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    test: Vec<Spanned<Written>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Spanned<String>,
    tool: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    #[serde(default)]
    grant: Grants,
    #[serde(default)]
    limits: WrittenLimits,
    #[serde(default)]
    files: BTreeMap<PathBuf, String>,
    folder: Option<PathBuf>,
    #[serde(default)]
    after: BTreeMap<PathBuf, String>,
    #[serde(default)]
    http: Vec<Http>,
    answer: Option<String>,
    json: Option<Value>,
    contains: Option<Vec<String>>,
    snapshot: Option<bool>,
    error: Option<String>,
    refused: Option<String>,
    limit: Option<LimitName>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimits {
    memory: Option<Spanned<String>>,
    time: Option<Spanned<String>>,
    result: Option<Spanned<String>>,
    disk: Option<Spanned<String>>,
}

type Mistake = (Span, String);

/// Parses the cases of a file; returns all mistakes.
pub(super) fn parse(text: &str) -> Result<Vec<Case>, Vec<Mistake>> {
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().map_or_else(Span::default, Span::from);
        vec![(span, error.message().to_owned())]
    })?;
    let (mut cases, mut mistakes) = (Vec::<Case>::new(), Vec::new());
    for written in file.test {
        let (span, name) = (Span::from(written.span()), written.get_ref().name.clone());
        let is_same = |case: &Case| snapshot_name(&case.name) == snapshot_name(name.get_ref().trim());
        if cases.iter().any(is_same) {
            mistakes.push((
                name.span().into(),
                "another test of this file has this name, or a name whose answer is stored in the same file"
                    .to_owned(),
            ));
        }
        match written.into_inner().checked(span) {
            Ok(case) => cases.push(case),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(cases) } else { Err(mistakes) }
}

impl Written {
    fn checked(self, span: Span) -> Result<Case, Mistake> {
        let name_span = self.name.span().into();
        let name = self.name.get_ref().trim().to_owned();
        if name.is_empty() || name.chars().count() > MAX_NAME || name.contains(char::is_control) {
            return Err((name_span, format!("a name has 1 to {MAX_NAME} characters, on one line")));
        }
        let wanted = self.wanted().map_err(|mistake| (name_span, mistake))?;
        if let Some(http) = self.http.iter().find(|http| !http.is_request()) {
            let expected = "expected a method and an address, such as `GET https://example.com/`";
            return Err((span, format!("`{}`: {expected}", http.request)));
        }
        Ok(Case {
            name,
            tool: self.tool,
            arguments: self.arguments,
            grant: self.grant,
            limits: self.limits.checked()?,
            files: self.files,
            folder: self.folder,
            after: self.after,
            http: self.http,
            wanted,
        })
    }

    fn wanted(&self) -> Result<Wanted, String> {
        let expectations = [
            self.answer.clone().map(Wanted::Answer),
            self.json.clone().map(Wanted::Json),
            self.contains.clone().map(Wanted::Contains),
            self.snapshot.unwrap_or_default().then_some(Wanted::Snapshot),
            self.error.clone().map(Wanted::Error),
            self.refused.clone().map(Wanted::Refused),
            self.limit.map(Wanted::Limit),
        ];
        let mut given = expectations.into_iter().flatten();
        match (given.next(), given.next()) {
            (wanted, None) => Ok(wanted.unwrap_or(Wanted::Anything)),
            _ => Err("a test needs exactly one of `answer`, `json`, `contains`, `snapshot`, `error`, \
                `refused` and `limit`"
                .into()),
        }
    }
}

impl WrittenLimits {
    fn checked(&self) -> Result<OwnLimits, Mistake> {
        Ok(OwnLimits {
            memory: size(self.memory.as_ref(), Limits::MAX_MEMORY)?,
            time: time(self.time.as_ref())?,
            result: size(self.result.as_ref(), Limits::MAX_RESULT)?,
            disk: size(self.disk.as_ref(), Limits::MAX_DISK)?,
        })
    }
}

fn size(written: Option<&Spanned<String>>, most: u64) -> Result<Option<u64>, Mistake> {
    let Some(written) = written else { return Ok(None) };
    let wrong = |message: String| (Span::from(written.span()), message);
    let size = units::parse_size(written.get_ref()).map_err(|error| wrong(error.to_string()))?;
    if size > most { Err(wrong(format!("at most `{}`", units::format_size(most)))) } else { Ok(Some(size)) }
}

fn time(written: Option<&Spanned<String>>) -> Result<Option<Duration>, Mistake> {
    let Some(written) = written else { return Ok(None) };
    let wrong = |message: String| (Span::from(written.span()), message);
    let time = units::parse_duration(written.get_ref()).map_err(|error| wrong(error.to_string()))?;
    if time.is_zero() || time > MAX_TIME {
        return Err(wrong(format!("more than 0 and at most `{}`", units::format_duration(MAX_TIME))));
    }
    Ok(Some(time))
}

impl Http {
    fn is_request(&self) -> bool {
        let parts = self.request.split_once(' ');
        parts.is_some_and(|(method, url)| {
            !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase()) && url.contains("://")
        })
    }
}

fn ok() -> u16 {
    200
}

fn hosts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<HostPattern>, D::Error> {
    let written = Vec::<String>::deserialize(deserializer)?;
    written.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> Vec<String> {
        parse(text)
            .unwrap_err()
            .into_iter()
            .map(|(span, what)| format!("{}: {what}", text.get(span.start..span.end).unwrap()))
            .collect()
    }

    #[test]
    fn a_case_says_all_that_it_needs() {
        let text = r#"
            [[test]]
            name = "a page"
            tool = "read-page"
            arguments = { url = "https://example.com/" }
            grant = { hosts = ["example.com"], read = ["."], env = { LANG = "C" } }
            limits = { time = "2s", memory = "8MiB" }
            files = { "a.txt" = "text" }
            contains = ["words"]
            [[test.http]]
            request = "GET https://example.com/"
            body = "some words"
        "#;
        let cases = parse(text).unwrap();
        let case = &cases[0];
        assert_eq!((case.name.as_str(), case.tool.as_str()), ("a page", "read-page"));
        let limits = case.limits.over(Limits::default());
        let own = Limits { time: Duration::from_secs(2), memory: 8 << 20, ..Limits::default() };
        assert_eq!(limits, own);
        assert_eq!((case.http[0].status, case.grant.hosts.len()), (200, 1));
        assert_eq!(case.wanted, Wanted::Contains(vec!["words".into()]));
    }

    #[test]
    fn what_no_test_can_say_is_told_with_its_place() {
        assert_eq!(
            wrong("[[test]]\nname = \"a\"\ntool = \"t\"\nexpect = 1")[0].split(',').next().unwrap(),
            "expect: unknown field `expect`"
        );
        assert_eq!(
            wrong("[[test]]\nname = \"a\"\ntool = \"t\"\nanswer = \"x\"\nerror = \"y\"")[0],
            "\"a\": a test needs exactly one of `answer`, `json`, `contains`, `snapshot`, `error`, `refused` \
             and `limit`"
        );
        let twice = "[[test]]\nname = \"a\"\ntool = \"t\"\n[[test]]\nname = \"a\"\ntool = \"t\"";
        assert_eq!(
            wrong(twice),
            ["\"a\": another test of this file has this name, or a name whose answer is stored in the \
                 same file"]
        );
        assert_eq!(
            wrong("[[test]]\nname = \"a\"\ntool = \"t\"\nlimits = { time = \"2\" }")[0]
                .split(':')
                .next()
                .unwrap(),
            "\"2\""
        );
        assert_eq!(wrong(&twice.replacen("\"a\"", "\"b/c\"", 1).replacen("\"a\"", "\"b_c\"", 1)).len(), 1);
        assert!(
            wrong("[[test]]\nname = \"a\"\ntool = \"t\"\nhttp = [{ request = \"get x\" }]")[0]
                .contains("a method and an address")
        );
    }
}

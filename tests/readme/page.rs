//! docs/dashboard.md: haft serves the page, and prints its link.

use super::Reader;
use super::servers::Serving;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;

pub(super) const LINES: &[&str] =
    &["haft dashboard", "haft serve --page", "haft dashboard --listen 127.0.0.1:7411"];

#[test]
fn the_page_is_served_as_its_page_says() {
    let reader = Reader::new().where_is(":7411", ":0");
    for line in LINES {
        let mut command = reader.shell(line);
        let mut child = command.stdin(std::process::Stdio::piped()).process_group(0).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let _serving = Serving(child);
        let link = said.lines().map_while(Result::ok).find(|line| line.contains("/open/"));
        assert!(link.is_some_and(|link| link.trim().starts_with("http://127.")), "{line}");
    }
}

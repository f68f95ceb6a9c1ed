//! docs/import.md: servers of other clients.

use super::Reader;

pub(super) const LINES: &[&str] = &[
    "haft import --list",
    "haft import claude",
    "haft import cursor --only github",
    "haft import .vscode/mcp.json --yes # a file; all of its servers",
    "haft import --undo claude",
];

#[test]
fn servers_of_other_clients_are_imported_as_the_page_says() {
    let reader = Reader::new();
    let servers = r#"{"mcpServers": {"github": {"command": "sh", "args": ["-c", "true"]}}}"#;
    let work = reader.home.work();
    std::fs::create_dir_all(work.join(".cursor")).unwrap();
    std::fs::create_dir_all(work.join(".vscode")).unwrap();
    for (file, text) in [
        (".mcp.json", servers.to_owned()),
        (".cursor/mcp.json", servers.to_owned()),
        (".vscode/mcp.json", servers.replace("mcpServers", "servers")),
    ] {
        reader.home.write(file, &text);
    }
    let read = |file: &str| std::fs::read_to_string(work.join(file)).unwrap();
    assert!(reader.runs(LINES[0]).stdout.contains("github"));
    // No person can answer the question.
    reader.types(LINES[1], "");
    assert_eq!(read(".mcp.json"), servers);
    for (line, file) in [(LINES[2], ".cursor/mcp.json"), (LINES[3], ".vscode/mcp.json")] {
        reader.runs(line);
        assert!(read(file).contains("wrap"), "{line}: {}", read(file));
    }
    reader.runs("haft import claude --yes");
    assert!(read(".mcp.json").contains("wrap"));
    reader.runs(LINES[4]);
    assert_eq!(read(".mcp.json"), servers);
}

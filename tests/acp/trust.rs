//! An editor opens a folder whose program.toml has no consent of the user.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Place, begin, prompt};
use crate::sessions::Says;

/// X13, A22: haft starts nothing of a folder when it is opened; the first prompt asks for consent, and without
/// consent haft sends nothing.
#[test]
fn an_editor_is_asked_before_anything_of_a_folder_counts() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let place = Place::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        Says::text("hello from the model")
    });
    let (folder, ran) = (place.folder(), place.folder().join("ran"));
    let server =
        format!("[[mcp_servers]]\nname = \"s\"\ncommand = [\"sh\", \"-c\", \"touch {}\"]\n", ran.display());
    let text = fs::read_to_string(folder.join("program.toml")).unwrap() + &server;
    fs::write(folder.join("program.toml"), text).unwrap();
    let mut command = place.home.command(&["acp"]);
    command.current_dir("/").env_remove("HAFT_TRUST");
    let mut editor = super::editor::Editor::start(command);
    let session = begin(&mut editor, &folder);
    assert!(!ran.exists() && editor.questions() == 0);
    editor.permit = Ok("reject");
    let refused = editor.ask("session/prompt", prompt(&session, "hi"));
    assert!(refused["error"].to_string().contains("` requests rights beyond its folder:"), "{refused}");
    assert!(!ran.exists() && asked.load(Ordering::SeqCst) == 0 && editor.questions() == 1);
    editor.permit = Ok("allow-once");
    let answered = editor.ask("session/prompt", prompt(&session, "hi"));
    assert_eq!(answered["result"]["stopReason"], "end_turn", "{answered}");
    assert!(ran.exists() && editor.said().contains("hello from the model") && editor.questions() == 2);
    // The consent is permanent.
    let session = begin(&mut editor, &folder);
    editor.ask("session/prompt", prompt(&session, "hi"));
    assert_eq!(editor.questions(), 2);
    editor.leave();
}

use haft_core::call::ToolCall;
use serde_json::json;

use super::*;
use crate::provider::{Reply, RequestedCall};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n-";
const SMALL: Takes = Takes {
    kinds: &[Kind { media_types: PICTURES, most: 40 }, Kind { media_types: DOCUMENTS, most: 400 }],
    total: 100,
    count: 50,
};

fn said(attachments: Vec<Attachment>) -> Message {
    Message::User(Prompt { text: "see".into(), attachments })
}

fn answered(attachments: Vec<Attachment>) -> Message {
    let call = ToolCall { id: "a".into(), tool: "t".into(), arguments: json!({}) };
    let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
    Message::Turn(Exchange::new(reply, [ToolResult { attachments, ..ToolResult::success("done") }]))
}

fn only(attachments: Vec<Attachment>) -> (String, Vec<Attachment>) {
    let fitted = fit(&[said(attachments)], &SMALL, &|_| false).into_owned();
    let Some(Message::User(prompt)) = fitted.into_iter().next() else { panic!() };
    (prompt.text, prompt.attachments)
}

fn named(name: &str, media_type: &str, data: &[u8]) -> Attachment {
    Attachment { name: Some(name.into()), ..Attachment::new(media_type, data.to_vec()) }
}

/// G09: text is inline for every vendor, and a rejected file is mentioned with the reason.
#[test]
fn what_is_not_sent_is_told_and_why() {
    let sound = named("a.wav", "audio/wav", b"RIFF");
    assert_eq!(
        only(vec![sound]),
        (
            "see\n[not shown: a.wav: audio/wav, 4 bytes: the model's API does not accept `audio/wav`]".into(),
            vec![]
        )
    );
    let broken = Attachment::new("image/png", vec![0]);
    assert_eq!(only(vec![broken]).0, "see\n[not shown: image/png, 1 bytes: its bytes are not `image/png`]");
    let large = Attachment::new("image/png", [PNG, &[0; 30]].concat());
    assert!(only(vec![large]).0.ends_with("image/png, 39 bytes: the model's API accepts at most 30 bytes]"));
    let notes = named("no\"tes>.txt", "text/plain; charset=utf-8", b"one\ntwo\n");
    assert_eq!(only(vec![notes]), ("see\n<file name=\"notes.txt\">\none\ntwo\n</file>".into(), vec![]));
}

/// G09: the bytes, not the name, decide the media type: vendors compare them.
#[test]
fn a_picture_is_sent_as_what_its_bytes_are() {
    for claimed in ["image/jpeg", "image/jpg", "application/octet-stream", "IMAGE/PNG; a=b"] {
        let (text, sent) = only(vec![named("a", claimed, PNG)]);
        assert_eq!(sent, [named("a", "image/png", PNG)], "{text}");
        assert_eq!(text, format!("see\n[a: {claimed}, 9 bytes]"));
    }
}

/// G09: a session of many pictures stays within the vendor's limits, the newest are sent, and the first one sent
/// does not change with every new picture.
#[test]
fn the_oldest_files_make_room_in_strides() {
    let mut messages = Vec::new();
    let mut firsts = Vec::new();
    for number in 0..40 {
        let file = vec![Attachment::new("image/png", PNG.to_vec())];
        messages.push(if number % 2 == 0 { said(file) } else { answered(file) });
        let fitted = fit(&messages, &SMALL, &|_| false);
        let sent: Vec<usize> = fitted.iter().map(|message| files(message).count()).collect();
        let bytes: usize = fitted.iter().flat_map(files).map(|file| encoded(file.file)).sum();
        assert!(bytes <= SMALL.total && sent.last() == Some(&1), "{sent:?}");
        let first = sent.iter().position(|count| *count == 1).unwrap();
        assert!(sent.iter().skip(first).all(|count| *count == 1), "{sent:?}");
        firsts.push(first);
    }
    firsts.dedup();
    assert!(firsts.len() < 20, "{firsts:?}");
    let many = Takes { total: 1 << 20, count: 4, ..SMALL };
    assert!(fit(&messages, &many, &|_| false).iter().flat_map(files).count() <= 4);
    assert!(fit(&messages, &SMALL, &|_| true).iter().flat_map(files).next().is_none());
}

#[test]
fn a_conversation_without_files_is_not_copied() {
    assert!(matches!(fit(&[said(vec![])], &SMALL, &|_| false), Cow::Borrowed(_)));
}

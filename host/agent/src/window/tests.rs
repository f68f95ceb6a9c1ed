//! Tests of the window with conversations of every size.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::AFTER_NOTHING;
use crate::provider::{Exchange, Reply, RequestedCall};
use crate::session::{Kept, Place};
use haft_core::call::{ToolCall, ToolResult};

fn turn(bytes: usize) -> Message {
    called("t", bytes)
}

fn called(tool: &str, bytes: usize) -> Message {
    let call = ToolCall { id: "a".into(), tool: tool.into(), arguments: json!({}) };
    let reply = Reply { calls: vec![RequestedCall { call, problem: None }], ..Reply::default() };
    Message::Turn(Exchange::new(reply, [ToolResult::success("x".repeat(bytes))]))
}

fn says(text: &str) -> Message {
    Message::User(text.into())
}

fn new(room: Room) -> Window {
    let mut window = Window::default();
    window.begin("m", room);
    window
}

fn visible<'m>(window: &Window, messages: &'m [Message]) -> Cow<'m, [Message]> {
    window.visible(messages, &|_, _| None)
}

fn history(tokens: u32) -> Room {
    Room { history: Some(tokens), ..Room::default() }
}

fn bytes(message: &Message) -> usize {
    Size::new(message).shown(Shares::WHOLE)
}

fn shown(window: &Window, messages: &[Message]) -> usize {
    visible(window, messages).iter().map(bytes).sum()
}

/// G02: an answer of megabytes leaves room for the task and for the next answers.
#[test]
fn a_single_answer_never_takes_more_than_its_share() {
    let messages = vec![says("the task"), turn(3 << 20)];
    for room in [history(4000), Room { window: Some(6000), fixed: 2000, ..Room::default() }] {
        let mut window = new(room);
        assert_eq!(window.fit(&messages), None);
        let all = visible(&window, &messages).into_owned();
        assert!(matches!(&all[0], Message::User(said) if said.text == "the task"));
        let Message::Turn(exchange) = &all[1] else { panic!() };
        let text = &exchange.answered().next().unwrap().1.content;
        assert!(text.len() <= 16_000 / SHARE + 200, "{}", text.len());
        assert!(text.starts_with("[haft: this text of 3145728 bytes is more"));
        assert!(shown(&window, &messages) < 5000);
    }
}

/// G02: the vendor's count of the last turn corrects the estimate; digits are three tokens for four bytes.
#[test]
fn tokens_are_estimated_by_the_vendor_s_own_count() {
    let messages: Vec<_> = std::iter::once(says("the task")).chain((0..30).map(|_| turn(1000))).collect();
    let mut window = new(history(10_000));
    assert_eq!(window.fit(&messages), None);
    window.count(24_000);
    assert!(window.fit(&messages).is_some());
    assert!(shown(&window, &messages) < 12_500 / 2 + 1200, "{}", shown(&window, &messages));
    window.count(100);
    window.count(1500);
    assert_eq!(window.fit(&messages), None, "a count is never a reason to show more");
}

/// A long prompt (a diff, a log) is the user's request: only the context window shortens it, no budget.
#[test]
fn a_long_prompt_is_shown_whole_where_the_model_can_read_it() {
    let messages = vec![says(&"diff ".repeat(60_000))];
    for room in [history(100_000), history(1000), Room { window: Some(200_000), ..history(1000) }] {
        let mut window = new(room);
        window.fit(&messages);
        assert_eq!(shown(&window, &messages), 300_000, "{room:?}");
    }
    let mut small = new(Room { window: Some(16_384), ..Room::default() });
    small.fit(&messages);
    assert!((20_000..50_000).contains(&shown(&small, &messages)), "{}", shown(&small, &messages));
}

/// The task stays after a cut, also if haft has asked the model to continue since; haft's last question stays too.
#[test]
fn a_request_to_go_on_does_not_take_the_place_of_the_task() {
    let again = "[Your answer cannot be used: `n` is required. Answer again, with nothing else.]";
    let own =
        [AFTER_NOTHING.to_owned(), [AFTER_NOTHING; 2].join("\n\n"), format!("{again}\n\n{AFTER_NOTHING}")];
    for (own, after) in own.iter().flat_map(|own| [(own, 0), (own, 1)]) {
        let mut messages = vec![says("the task")];
        messages.extend((0..8).map(|_| turn(900)));
        messages.push(says(own));
        messages.extend((0..after).map(|_| turn(900)));
        let mut window = new(history(250));
        window.fit(&messages);
        let all = visible(&window, &messages).into_owned();
        let Message::User(said) = &all[0] else { panic!() };
        let end = if after == 0 { format!("the task\n\n{own}") } else { "the task".into() };
        assert!(said.text.ends_with(&end), "{}", said.text);
        let counted = window.shown();
        assert!(all.iter().map(bytes).sum::<usize>() <= counted, "{counted}");
    }
    let picture = haft_core::call::Attachment::new("image/png", vec![0]);
    let with_file = Prompt { text: AFTER_NOTHING.into(), attachments: vec![picture] };
    assert!(!is_own_question(&with_file), "a person attached it");
    assert!(!is_own_question(&format!("{AFTER_NOTHING}\n\nmend it\n\n{AFTER_NOTHING}").as_str().into()));
    assert!(!is_own_question(&Prompt::default()));
}

/// G02: after an error less is sent, until nothing more can be omitted.
#[test]
fn a_refusal_shrinks_what_is_shown() {
    let messages: Vec<_> = std::iter::once(says("the task")).chain((0..30).map(|_| turn(1000))).collect();
    let mut window = new(Room::default());
    window.fit(&messages);
    let mut before = shown(&window, &messages);
    let mut shrunk = 0;
    while window.shrink(TooLong::default()) {
        window.fit(&messages);
        let now = shown(&window, &messages);
        assert!(now < before || now < 2000, "{now} after {before}");
        (before, shrunk) = (now, shrunk + 1);
    }
    assert!((2..12).contains(&shrunk), "{shrunk}");
    let mut told = new(Room::default());
    told.fit(&messages);
    assert!(told.shrink(TooLong { limit: Some(2000), asked: Some(8000) }));
    told.fit(&messages);
    assert!(shown(&told, &messages) < 2000 * 4, "{}", shown(&told, &messages));
}

#[test]
fn a_long_run_keeps_its_task_and_its_latest_steps() {
    let mut messages = vec![says("the task")];
    let mut window = new(history(1000));
    let mut cuts = Vec::new();
    for _ in 0..40 {
        messages.push(turn(500));
        cuts.extend(window.fit(&messages));
        let shown = visible(&window, &messages);
        assert!(matches!(&shown[0], Message::User(said) if said.text.ends_with("the task")));
        assert!(shown.iter().map(bytes).sum::<usize>() < 4000 + 200);
        assert_eq!(shown.last(), messages.last());
    }
    assert!(cuts.len() < 12, "a prompt cache lives between two cuts: {cuts:?}");
}

#[test]
fn what_is_asked_after_a_cut_is_the_task() {
    let turns = (0..4).map(|_| turn(9000));
    let messages: Vec<_> = [says("old")].into_iter().chain(turns).chain([says("new"), turn(10)]).collect();
    let mut window = new(history(250));
    assert_eq!(window.fit(&messages), Some(0..5));
    let shown = visible(&window, &messages);
    assert_eq!(shown.len(), 2);
    assert!(
        matches!(&shown[0], Message::User(said) if said.text.contains("first 5 messages") && said.text.ends_with("new"))
    );
}

#[test]
fn what_fits_is_shown_as_it_is() {
    let messages = vec![says("x"), turn(10)];
    let mut window = new(Room::default());
    assert_eq!(window.fit(&messages), None);
    assert!(matches!(visible(&window, &messages), Cow::Borrowed(_)));
}

/// The first and the last request stay verbatim, regardless of the messages between them.
#[test]
fn what_is_left_out_leaves_its_summary_and_the_first_and_last_prompt() {
    let mut messages = vec![says("the first task")];
    messages.extend((0..3).map(|_| turn(900)));
    messages.push(says("the second task"));
    messages.extend((0..6).map(|_| turn(900)));
    let mut window = new(history(1000));
    let range = window.fit(&messages).unwrap();
    assert!(range.start == 0 && range.end > 5, "{range:?}");
    let (text, model, usage) = ("the key is 4711".into(), "small".into(), crate::provider::Usage::default());
    window.summary = Some(Summarised { messages: range.end, text, model, usage });
    let shown = visible(&window, &messages);
    let Message::User(said) = &shown[0] else { panic!() };
    let places =
        ["`small`", "the key is 4711", "the first task", "the second task"].map(|part| said.text.find(part));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{}", said.text);
    assert_eq!(shown.len(), messages.len() - range.end + 1);
    // A continued conversation begins at the summary.
    let mut resumed = Window::after(window.summary.clone(), None);
    resumed.begin("m", history(1000));
    assert_eq!(resumed.fit(&messages), None);
    assert_eq!(visible(&resumed, &messages), shown);
}

/// Short prompts stay verbatim, regardless of the summary.
#[test]
fn what_was_said_in_few_words_stays_as_it_was_said() {
    let mut messages =
        vec![says("the first task"), turn(10), says("Keep in mind: the key is 4711."), turn(10)];
    for report in 0..8 {
        messages.extend([says(&format!("report {report}: {}", "x".repeat(900))), turn(20)]);
    }
    messages.extend([says("the last task"), turn(10)]);
    let mut window = new(history(1500));
    let range = window.fit(&messages).unwrap();
    assert!(range.end > 5, "{range:?}");
    let shown = visible(&window, &messages);
    let Message::User(said) = &shown[0] else { panic!() };
    assert!(
        said.text.contains("[After that the person said:]\n\n- Keep in mind: the key is 4711.\n\n["),
        "{}",
        said.text
    );
    assert!(!said.text.contains("report 0"), "{}", said.text);
    let all: usize = shown.iter().map(bytes).sum();
    assert!(all <= window.shown(), "{all}, and {} were counted", window.shown());
}

/// The cut stays from one task to the next, for the prompt cache.
#[test]
fn the_cut_stays_from_one_task_to_the_next() {
    let mut messages = vec![says("the task")];
    messages.extend((0..12).map(|_| turn(900)));
    let mut window = new(history(1000));
    let range = window.fit(&messages).unwrap();
    window.count(9000);
    let bytes_of_100 = window.bytes_of_100;
    messages.push(says("the next"));
    window.begin("m", history(1000));
    assert_eq!((window.from, window.bytes_of_100), (range.end, bytes_of_100));
    window.begin("other", history(1000));
    assert_eq!((window.from, window.bytes_of_100), (range.end, BYTES_OF_100));
    assert_eq!(window.fit(&messages), None);
}

/// The token count of an earlier process is used: no error is needed first.
#[test]
fn a_conversation_that_goes_on_knows_what_was_counted() {
    let mut messages = vec![says("the task")];
    messages.extend((0..30).map(|_| turn(1000)));
    let fits = |counted| {
        let mut window = Window::after(None, counted);
        window.begin("m", history(10_000));
        window.fit(&messages).is_none()
    };
    assert!(fits(None) && fits(Some((20, 1000))) && fits(Some((90, 90_000))));
    assert!(!fits(Some((30, 24_000))));
}

/// The model gets the location of the full answer, but not for an answer of its own reader.
#[test]
fn an_answer_that_is_cut_says_where_all_of_it_is() {
    let place = std::sync::Mutex::new(Vec::new());
    let keeper = |at: Place, text: &str| {
        place.lock().unwrap().push(at);
        Some(Kept { path: "/kept/1-0.txt".into(), bytes: text.len(), lines: 7 })
    };
    let messages = vec![says("the task"), turn(9000), called(READER, 9000), turn(10)];
    let mut window = new(history(4000));
    window.fit(&messages);
    let shown = window.visible(&messages, &keeper);
    let text = |index: usize| match &shown[index] {
        Message::Turn(exchange) => exchange.answered().next().unwrap().1.content.clone(),
        Message::User(_) => panic!(),
    };
    assert!(
        text(1).contains("all of it, 9000 bytes in 7 lines, is in `/kept/1-0.txt`: `read` shows"),
        "{}",
        text(1)
    );
    assert!(text(2).contains("ask for a part of it") && !text(2).contains("/kept"), "{}", text(2));
    assert_eq!((text(3).len(), place.into_inner().unwrap()), (10, vec![Place { message: 1, call: 0 }]));
}

/// A prompt that fills the room leaves some room for the work on it.
#[test]
fn beside_a_long_prompt_the_cut_does_not_move_at_every_turn() {
    let mut messages = vec![says(&"diff ".repeat(3000))];
    let mut window = new(history(4000));
    let mut cuts = 0;
    for _ in 0..40 {
        messages.push(turn(500));
        cuts += usize::from(window.fit(&messages).is_some());
        assert!(visible(&window, &messages).len() > 2 || messages.len() < 3);
    }
    assert!((2..14).contains(&cuts), "{cuts}");
}

proptest! {
    /// PL20: after any cut, the first message is the user's, and roles alternate.
    #[test]
    fn what_is_shown_is_valid(sizes in prop::collection::vec(0_usize..3000, 1..40), budget in 1_u32..3000) {
        let mut messages = vec![says("task")];
        let mut window = new(history(budget));
        for size in sizes {
            let next = if size % 5 == 0 && matches!(messages.last(), Some(Message::Turn(_))) { says("go on") } else { turn(size) };
            messages.push(next);
            window.fit(&messages);
            let shown = visible(&window, &messages);
            prop_assert!(matches!(shown[0], Message::User(_)));
            prop_assert!(!shown.windows(2).any(|pair| matches!(pair, [Message::User(_), Message::User(_)])));
        }
    }
}

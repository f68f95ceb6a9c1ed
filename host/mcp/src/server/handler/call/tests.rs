use rmcp::model::NumberOrString;

use super::*;

fn wanted(log: Option<LoggingLevel>) -> Notifications {
    let progress = Some(ProgressToken(NumberOrString::Number(1)));
    Notifications { tool: "t".into(), progress, log, last_progress: Lock::new(f64::NEG_INFINITY) }
}

#[test]
fn progress_only_goes_on() {
    let wanted = wanted(None);
    let step = |done| Event::Progress { call: "1".into(), done, total: None, message: String::new() };
    let sent: Vec<bool> = [0.0, 1.0, 1.0, 0.5, f64::NAN, f64::INFINITY, 2.0]
        .map(|done| wanted.of(&step(done)).is_some())
        .into();
    assert_eq!(sent, [true, true, false, false, false, false, true]);
}

#[test]
fn pieces_of_an_answer_are_progress() {
    let wanted = wanted(None);
    let piece = Event::Partial { call: "1".into(), text: "a piece".into() };
    for expected in [1.0, 2.0] {
        let notification = wanted.of(&piece);
        let Some(ServerNotification::ProgressNotification(sent)) = notification else {
            panic!("no progress")
        };
        assert_eq!((sent.params.progress, sent.params.message.as_deref()), (expected, Some("a piece")));
    }
}

#[test]
fn the_log_has_levels() {
    let info = Event::Info { call: "1".into(), message: "m".into() };
    let stdout = Event::Stdout { call: "1".into(), chunk: "c".into() };
    for (level, expected) in [
        (Some(LoggingLevel::Debug), [true, true]),
        (Some(LoggingLevel::Info), [true, false]),
        (Some(LoggingLevel::Error), [false, false]),
        (None, [false, false]),
    ] {
        let sent = [&info, &stdout].map(|event| wanted(level).of(event).is_some());
        assert_eq!(sent, expected, "{level:?}");
    }
}

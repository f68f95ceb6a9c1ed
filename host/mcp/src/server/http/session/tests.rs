use super::*;
use crate::server::handler::ServerShared;
use crate::server::{Publisher, ServerInfo, ToolSnapshot};
use haft_core::tool::{Session as Accompanied, Toolbox};
use haft_core::trace::Wire;

fn ago(time: Duration) -> Instant {
    Instant::now().checked_sub(time).unwrap()
}

fn handler() -> Handler {
    let snapshot = ToolSnapshot::new(Toolbox::default(), Accompanied::default(), ServerInfo::default(), true);
    ServerShared::new(Publisher::new(snapshot).1, "test", Wire::Http).handler()
}

fn agreed() -> Agreed {
    Agreed { version: ProtocolVersion::V_2025_11_25, elicitation: None }
}

/// C05: sessions never share a place, and only an abandoned session loses its place.
#[test]
fn a_full_house_takes_nobody_in_and_turns_nobody_out() {
    let sessions = Sessions::new(2, None);
    let open = || sessions.open("ada".into(), handler(), agreed());
    let (first, second) = (open().unwrap(), open().unwrap());
    assert_eq!(open().unwrap_err().into_response().status(), StatusCode::SERVICE_UNAVAILABLE);
    let is_there = |id: &str| sessions.enter(id, "ada").is_ok();
    assert!(is_there(&first) && is_there(&second) && sessions.enter(&first, "bob").is_err());
    let in_use = sessions.enter(&second, "ada").unwrap();
    sessions.all.lock().values_mut().for_each(|own| own.last = ago(ABANDONED));
    assert!(open().is_ok() && !is_there(&first) && is_there(&second));
    sessions.end(&in_use);
    drop(in_use);
    assert!(!is_there(&second) && sessions.all.lock().len() == 1);
}

/// A caller with all places loses idle ones to other callers, and none to itself.
#[test]
fn no_caller_takes_all_places() {
    let sessions = Sessions::new(3, None);
    let open = |owner: &str| sessions.open(owner.into(), handler(), agreed());
    let taken: Vec<_> = (0..3).map(|_| open("ada").unwrap()).collect();
    assert!(open("ada").is_err() && open("bob").is_ok());
    let left = taken.iter().filter(|id| sessions.enter(id, "ada").is_ok()).count();
    assert_eq!((left, sessions.all.lock().len()), (2, 3));
    assert!(open("eve").is_ok(), "ada still has more than her share");
    assert!(open("dan").is_err(), "nobody has");
}

/// C05: a client with a running request keeps its session.
#[test]
fn only_a_session_that_was_left_gives_way() {
    let long = ago(ABANDONED + UNUSED);
    for (gives_way, last, came_back, open) in [
        (true, long, true, 0),
        (true, ago(UNUSED), false, 0),
        (false, ago(UNUSED), true, 0),
        (false, long, false, 1),
        (false, Instant::now(), false, 0),
    ] {
        let room = Arc::new(Semaphore::new(0));
        let session = Arc::new(Session::new(handler(), agreed(), room));
        let (id, owner) = ("id".into(), "ada".into());
        let own = Entry { id, session, owner, open, last, came_back };
        assert_eq!(own.gives_way(), gives_way);
    }
}

/// C05: a session ends after a long idle time, and not before.
#[test]
fn a_session_that_nobody_uses_ends() {
    let sessions = Sessions::new(2, None);
    let [left, used] = [(); 2].map(|()| sessions.open("ada".into(), handler(), agreed()).unwrap());
    sessions.sweep();
    assert_eq!(sessions.all.lock().len(), 2);
    let _used = sessions.enter(&used, "ada").unwrap();
    sessions.all.lock().values_mut().for_each(|own| own.last = ago(IDLE));
    sessions.sweep();
    assert!(sessions.enter(&left, "ada").is_err() && sessions.enter(&used, "ada").is_ok());
}

/// RP02: a session's id names its replica, and another replica's refusal names both.
#[test]
fn an_id_says_where_its_session_lives() {
    let (one, two) = (Home::named("web 1.example", 8080), Home::named("web-2", 8080));
    let id = one.session_id().unwrap();
    assert!(id.ends_with("@web-1.example-8080"), "{id}");
    assert_eq!(one.refusal(&id), None);
    let refusal = two.refusal(&id).unwrap();
    assert!(refusal.contains("`web-1.example-8080`") && refusal.contains("`web-2-8080`"), "{refusal}");
    for other in ["", "4711", "4711@web-2-8080", "4711@<script>", &format!("x@{}", "a".repeat(100))] {
        assert_eq!(two.refusal(other), None, "{other}");
    }
}

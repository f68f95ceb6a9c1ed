use crate::subjects::definition;
use haft_core::call::ToolDef;

use super::*;

fn beat(instance: &str, places: u32, busy: u32) -> Beat {
    let worker = WorkerId { name: "w".into(), instance: instance.into() };
    Beat { worker, labels: vec!["eu".into()], places, busy, leaving: false, revision: 0 }
}

/// Returns a tool with this description.
fn known(description: &str) -> Known {
    let def = ToolDef { name: "t".into(), description: description.into(), ..ToolDef::default() };
    Known {
        definition: definition(&def, None),
        def,
        title: None,
        hints: haft_core::call::Hints::default(),
        output: None,
        reads: true,
        component: None,
    }
}

fn labels() -> HashSet<String> {
    HashSet::from(["eu".to_owned(), ANY.to_owned()])
}

fn text(tools: &[Known]) -> Vec<u8> {
    crate::message::encode(&tools)
}

fn wanted(on: &str) -> Wanted {
    Wanted { tool: "t".into(), definition: known("d").definition, on: Arc::new([on.parse().unwrap()]) }
}

/// Returns a fleet with a worker for each beat, which has the tool.
fn fleet(beats: &[Beat]) -> Arc<Fleet> {
    let fleet = Arc::new(Fleet::default());
    for beat in beats {
        assert!(fleet.beat(beat), "it has to be asked what it has");
        fleet.has(beat, labels(), &text(&[known("d")]));
    }
    fleet
}

#[tokio::test(start_paused = true)]
async fn the_worker_with_the_most_room_is_taken_and_nobody_s_label_or_definition_is_passed_over() {
    let fleet = fleet(&[beat("a", 4, 0), beat("b", 2, 1)]);
    let first = fleet.lease(&wanted("eu")).await.unwrap();
    assert_eq!(first.worker.instance, "a");
    assert_eq!(fleet.lease(&wanted("us")).await.err(), Some(NoPlace::NoWorker));
    let other = Wanted { definition: "other".into(), ..wanted("*") };
    assert_eq!(fleet.lease(&other).await.err(), Some(NoPlace::NoWorker));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_place_in_order_and_not_for_ever() {
    let fleet = fleet(&[beat("a", 1, 0)]);
    let first = fleet.lease(&wanted("*")).await.unwrap();
    let second = tokio::spawn({
        let fleet = fleet.clone();
        async move { fleet.lease(&wanted("*")).await.map(|lease| lease.worker.instance.clone()) }
    });
    tokio::task::yield_now().await;
    drop(first);
    assert_eq!(second.await.unwrap().unwrap(), "a");
    let _held = fleet.lease(&wanted("*")).await.unwrap();
    assert_eq!(fleet.lease(&wanted("*")).await.err(), Some(NoPlace::Full(1)));
}

#[tokio::test(start_paused = true)]
async fn what_is_full_by_others_is_asked_again_when_it_says_something_else() {
    let fleet = fleet(&[beat("a", 2, 0)]);
    let lease = fleet.lease(&wanted("*")).await.unwrap();
    fleet.is_full(&lease.worker);
    drop(lease);
    assert_eq!(fleet.lease(&wanted("*")).await.err(), Some(NoPlace::Full(1)));
    assert!(!fleet.beat(&beat("a", 2, 1)));
    assert!(fleet.lease(&wanted("*")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_hear_of_the_death_of_their_worker() {
    let fleet = fleet(&[beat("a", 1, 0)]);
    let lease = fleet.lease(&wanted("*")).await.unwrap();
    fleet.gone(|worker| worker.instance == "a");
    assert!(lease.gone.is_cancelled());
    drop(lease);
    assert_eq!(fleet.lease(&wanted("*")).await.err(), Some(NoPlace::NoWorker));
    // A worker that was removed after a suspension is added again.
    assert!(fleet.beat(&beat("a", 1, 0)));
}

/// A worker that shuts down gets no more calls while its running ones finish.
#[tokio::test(start_paused = true)]
async fn a_worker_that_takes_no_calls_is_not_gone() {
    let fleet = fleet(&[beat("a", 2, 0)]);
    let lease = fleet.lease(&wanted("*")).await.unwrap();
    fleet.takes_none(&lease.worker);
    assert!(!lease.gone.is_cancelled());
    assert_eq!(fleet.lease(&wanted("*")).await.err(), Some(NoPlace::NoWorker));
}

#[test]
fn tools_that_differ_are_those_of_most_names() {
    let named = |name: &str, instance: &str| {
        let mut beat = beat(instance, 1, 0);
        beat.worker.name = name.into();
        beat
    };
    let fleet = fleet(&[named("a", "1"), named("b", "2"), named("c", "3"), named("c", "4"), named("c", "5")]);
    for instance in ["3", "4", "5"] {
        fleet.has(&named("c", instance), labels(), &text(&[known("z")]));
    }
    let tools = fleet.tools(&["eu".parse().unwrap()], |name| name == "t");
    assert_eq!(tools.iter().map(|tool| tool.def.description.as_str()).collect::<Vec<_>>(), ["d"]);
}

/// A worker has no vote on a tool that it does not have.
#[test]
fn a_tool_under_the_digest_of_another_is_none() {
    let fleet = fleet(&[beat("a", 1, 0)]);
    let liar = Known { definition: known("d").definition, ..known("evil") };
    fleet.has(&beat("a", 1, 0), labels(), &text(&[liar]));
    assert!(fleet.tools(&["eu".parse().unwrap()], |_| true).is_empty());
}

/// The resources of one worker name are bounded, regardless of its messages (Y4).
#[test]
fn what_one_name_makes_up_is_bounded() {
    let fleet = Arc::new(Fleet::default());
    let asked = (0..300).filter(|number| fleet.beat(&beat(&number.to_string(), 1, 0))).count();
    assert_eq!(asked, MAX_NAMESAKES);
    let first = beat("0", 1, 0);
    assert!(!fleet.beat(&first), "it was asked just now");
    fleet.has(&first, labels(), &text(&[known("d")]));
    let large = |at: usize| text(&[known(&format!("{at}{}", "x".repeat(MAX_TOOLS)))]);
    for at in 1..MAX_NAMESAKES {
        fleet.has(&beat(&at.to_string(), 1, 0), labels(), &large(at));
    }
    let known = fleet.list().iter().filter(|worker| !worker.tools.is_empty()).count();
    assert_eq!(
        known,
        MAX_ALL_TOOLS / MAX_TOOLS,
        "one that is small, and as many large ones as there is room for"
    );
    fleet.has(&beat("15", 1, 0), labels(), &large(1));
    let known = fleet.list().iter().filter(|worker| !worker.tools.is_empty()).count();
    assert_eq!(known, MAX_ALL_TOOLS / MAX_TOOLS + 1, "what is the same is kept once");
}

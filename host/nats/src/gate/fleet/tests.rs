use haft_core::call::ToolDef;

use super::*;

fn beat(instance: &str, places: u32, busy: u32) -> Beat {
    let worker = WorkerId { name: "w".into(), instance: instance.into() };
    Beat { worker, labels: vec!["eu".into()], places, busy, leaving: false }
}

fn known(definition: &str) -> Known {
    Known {
        def: ToolDef { name: "t".into(), ..ToolDef::default() },
        title: None,
        hints: haft_core::call::Hints::default(),
        output: None,
        definition: definition.into(),
        reads: true,
        component: None,
    }
}

fn wanted(on: &str) -> Wanted {
    Wanted { tool: "t".into(), definition: "d".into(), on: Arc::new([on.parse().unwrap()]) }
}

/// A fleet with a worker for each beat, which has the tool.
fn fleet(beats: &[Beat]) -> Arc<Fleet> {
    let fleet = Arc::new(Fleet::default());
    for beat in beats {
        assert!(fleet.beat(beat), "it has to be asked what it has");
        fleet.has(&beat.worker, vec![known("d")]);
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
    // One that was thought dead, stopped for a while, is a new one.
    assert!(fleet.beat(&beat("a", 1, 0)));
}

#[test]
fn tools_that_differ_are_those_of_most() {
    let fleet = fleet(&[beat("a", 1, 0), beat("b", 1, 0), beat("c", 1, 0)]);
    fleet.has(&beat("c", 1, 0).worker, vec![known("z")]);
    let tools = fleet.tools(&["eu".parse().unwrap()], |name| name == "t");
    assert_eq!(tools.iter().map(|tool| tool.definition.as_str()).collect::<Vec<_>>(), ["d"]);
}

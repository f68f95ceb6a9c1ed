use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn from(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// S11: a new connection evicts the one that was silent for longest, of the source with the most connections.
#[tokio::test]
async fn whoever_comes_takes_the_place_of_a_stranger() {
    let slots = ConnectionSlots::new(8);
    let first = slots.admit(from(1)).await;
    let second = slots.admit(from(2)).await;
    let third = slots.admit(from(2)).await;
    let known = slots.admit(from(2)).await;
    assert!(known.begin().is_some());
    let _fourth = slots.admit(from(1)).await;
    let since = Instant::now() + GRACE;
    slots.0.state.lock().unauthenticated.values_mut().for_each(|stranger| stranger.since = since);
    assert!(slots.try_admit(from(3)).is_err(), "whoever came just now is left alone for a moment");
    assert!(!first.closed.is_cancelled());
    let _fifth = slots.admit(from(3)).await;
    assert!(first.closed.is_cancelled() && !second.closed.is_cancelled(), "the oldest of two with as many");
    let _sixth = slots.admit(from(3)).await;
    assert!(second.closed.is_cancelled() && !third.closed.is_cancelled() && !known.closed.is_cancelled());
}

/// S11: a connection of an authenticated client is admitted at once, and closed connections free their places.
#[tokio::test]
async fn what_a_client_leaves_is_free_at_once() {
    let slots = ConnectionSlots::new(8);
    let first = slots.admit(HERE).await;
    first.begin().unwrap();
    let second = slots.try_admit(HERE).expect("a client is no stranger");
    let third = {
        let slots = slots.clone();
        tokio::spawn(async move { slots.admit(HERE).await })
    };
    tokio::task::yield_now().await;
    drop(second);
    drop(third.await.unwrap());
    drop(first);
    slots.are_empty().await;
}

/// C05: a client with a running request keeps its connection.
#[tokio::test]
async fn clients_in_the_middle_of_a_request_are_not_cut_off() {
    let slots = ConnectionSlots::new(2);
    let first = slots.admit(HERE).await;
    let busy = first.begin().unwrap();
    let second = slots.admit(HERE).await;
    assert!(second.begin().is_none() && !first.closed.is_cancelled() && !second.is_authenticated());
    drop(busy);
    assert!(second.begin().is_none(), "it was answered just now");
    slots.0.state.lock().authenticated.values_mut().for_each(|client| client.last -= IDLE);
    assert!(second.begin().is_some() && first.closed.is_cancelled() && second.is_authenticated());
}

#[test]
fn a_network_is_one_source() {
    let is = |one: &str, other: &str| network(one.parse().unwrap()) == network(other.parse().unwrap());
    assert!(is("2001:db8::1", "2001:db8::ffff:2") && !is("2001:db8::1", "2001:db8:0:1::1"));
    assert!(is("::ffff:192.0.2.1", "192.0.2.1") && !is("192.0.2.1", "192.0.2.2"));
}

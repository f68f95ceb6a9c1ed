use serde_json::json;

use super::*;

/// Time limit of a wait: only a hanging test reaches this.
const HANG: Duration = Duration::from_mins(10);

/// Returns the complete body of a response.
async fn read(response: HttpResponse) -> String {
    let body = tokio::time::timeout(HANG, response.into_body().collect()).await.unwrap().unwrap();
    String::from_utf8(body.to_bytes().into()).unwrap()
}

/// MC09: the events after a client's last one are sent again, in order, and no others.
#[tokio::test]
async fn a_stream_goes_on_after_the_last_event() {
    let stream = EventStream::new(Ids::Request(7));
    let first = stream.clone().response(None, true, std::future::pending());
    for number in 1..=3 {
        assert!(stream.append(&json!(number), false));
    }
    stream.answer("\"answer\"".into(), StatusCode::OK);
    let all = "id: 1/7\ndata: 1\n\nid: 2/7\ndata: 2\n\nid: 3/7\ndata: 3\n\nid: 4/7\ndata: \"answer\"\n\n";
    assert_eq!(read(first).await, format!("id: 0/7\nretry: 3000\ndata: \n\n{all}"));
    let last = LastEvent::parse("2/7").unwrap();
    assert_eq!(last.request, Some(7));
    let rest = read(stream.clone().response(Some(&last), false, std::future::pending())).await;
    assert_eq!(Some(rest.as_str()), all.find("id: 3/7").and_then(|at| all.get(at..)));
    assert!(["", "x", "1/", "1/x", "/7", "-1"].iter().all(|text| LastEvent::parse(text).is_none()));
}

/// A client that reads again replaces its old connection.
#[tokio::test]
async fn the_last_reader_of_a_request_reads() {
    let stream = EventStream::new(Ids::Request(1));
    let old = stream.clone().response(None, false, std::future::pending());
    let new = stream.clone().response(None, false, std::future::pending());
    stream.answer("1".into(), StatusCode::OK);
    assert_eq!((read(old).await, read(new).await), (String::new(), "id: 1/1\ndata: 1\n\n".into()));
}

/// S11: unread events are bounded, and the answer always has room.
#[tokio::test]
async fn events_that_nobody_reads_are_bounded() {
    let stream = EventStream::new(Ids::None);
    let told = (0..2 * WAITING).filter(|number| stream.append(number, number % 2 == 0)).count();
    assert_eq!(told, WAITING);
    stream.answer("\"answer\"".into(), StatusCode::OK);
    let text = read(stream.whole(false).unwrap()).await;
    assert!(text.ends_with("data: \"answer\"\n\n") && !text.contains("id:"));
    let left = EventStream::new(Ids::Session);
    (0..100).for_each(|number| assert!(left.append(&number, false)));
    left.forget_old();
    left.end();
    let text = read(left.response(None, false, std::future::pending())).await;
    assert_eq!((text.matches("data:").count(), text.contains("data: 99\n")), (KEPT, true));
}

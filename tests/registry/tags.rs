//! The tags of a repository, page by page, from registries of every kind.

use haft::package::oci::tags;
use serde_json::json;

use super::access;
use super::fake::{Fake, Reply, reply};

/// A registry with two tags per page, linked as in the specification.
fn paging() -> Fake {
    Fake::lying(|request, _| {
        let (path, query) = request.path.split_once('?')?;
        let all = ["0.9.0", "1.0.0", "1.1.0", "1.2.0", "latest"];
        let last = query.split('&').find_map(|pair| pair.strip_prefix("last="));
        let from = last.map_or(0, |last| all.iter().position(|tag| *tag == last).unwrap() + 1);
        let page: Vec<_> = all.iter().skip(from).take(2).collect();
        let more = vec![("link", format!("<{path}?n=2&last={}>; rel=\"next\"", page.last()?))];
        let headers = if from + 2 < all.len() { more } else { Vec::new() };
        path.ends_with("/tags/list")
            .then(|| Reply::Full(200, headers, json!({ "tags": page }).to_string().into_bytes()))
    })
}

/// U7: haft lists all tags, page by page.
#[tokio::test]
async fn tags_are_listed_page_by_page() {
    let fake = paging();
    let found = tags(&fake.reference("a/b:1.0.0"), &access()).await.unwrap();
    assert_eq!(found, ["0.9.0", "1.0.0", "1.1.0", "1.2.0", "latest"]);
    assert_eq!(fake.seen().len(), 3);
}

/// U7: a list of tags with a loop ends, a list may be missing, and an invalid list is an error.
#[tokio::test]
async fn a_list_of_tags_is_bounded_and_checked() {
    let more = || vec![("link", "</v2/x>; rel=\"next\"".to_owned())];
    let same = Fake::lying(move |_, _| Some(Reply::Full(200, more(), b"{\"tags\":[\"1.0\"]}".to_vec())));
    assert_eq!(tags(&same.reference("a/b:1"), &access()).await.unwrap(), ["1.0"]);
    let none = Fake::lying(|_, _| Some(reply(200, "{\"tags\":null}")));
    assert_eq!(tags(&none.reference("a/b:1"), &access()).await.unwrap(), [""; 0]);
    let other = Fake::lying(|_, _| Some(reply(200, "<html>")));
    let error = tags(&other.reference("a/b:1"), &access()).await.unwrap_err().to_string();
    assert!(error.contains("the list of tags"), "{error}");
}

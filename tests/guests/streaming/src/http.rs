//! Functions that send HTTP requests.

use wit_bindgen::rt::async_support::StreamReader;

use super::bindings::wasi::http::client;
use super::bindings::wasi::http::types::{Fields, Method, Request, Response, Scheme};
use super::bindings::wit_future;

/// The body of what is answered.
pub(crate) async fn get(
    authority: &str,
    path: &str,
    method: Option<String>,
) -> Result<StreamReader<u8>, String> {
    let (_, trailers) = wit_future::new(|| Ok(None));
    let (request, _) = Request::new(Fields::new(), None, trailers, None);
    let refused = |()| "not taken".to_owned();
    request.set_scheme(Some(&Scheme::Http)).map_err(refused)?;
    request.set_authority(Some(authority)).map_err(refused)?;
    request.set_path_with_query(Some(path)).map_err(refused)?;
    if let Some(method) = method {
        request.set_method(&Method::Other(method)).map_err(refused)?;
    }
    let response = client::send(request).await.map_err(|code| format!("{code:?}"))?;
    if response.get_status_code() != 200 {
        return Err(format!("status {}", response.get_status_code()));
    }
    let (_, finished) = wit_future::new(|| Ok(()));
    Ok(Response::consume_body(response, finished).0)
}

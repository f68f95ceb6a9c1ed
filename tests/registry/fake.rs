//! A registry for one test: stores blobs and manifests in memory, is as strict as the specification, and has faults
//! on request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use haft::package::Digest;
use serde_json::json;

use crate::common::HANG;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// With the query.
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn is(&self, method: &str, part: &str) -> bool {
        self.method == method && self.path.contains(part)
    }
}

/// An answer.
pub(crate) enum Reply {
    /// Status, headers and a body.
    Full(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A head, then bytes without end.
    Endless(String),
    /// A head and some bytes; then the connection closes.
    Broken(String, Vec<u8>),
}

pub(crate) fn reply(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    Reply::Full(status, Vec::new(), body.into())
}

pub(crate) fn redirect(to: &str) -> Reply {
    Reply::Full(307, vec![("location", to.to_owned())], Vec::new())
}

/// A fault of a registry; `None` for the correct answer.
type Lie = dyn Fn(&Request, &Kept) -> Option<Reply> + Send + Sync;

/// The content of the registry.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// By repository and tag or digest: media type and bytes.
    pub(crate) manifests: BTreeMap<String, (String, Vec<u8>)>,
}

/// A registry. Its threads end with the test's process.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    pub(crate) kept: Arc<Mutex<Kept>>,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Fake {
    /// A registry without faults.
    pub(crate) fn honest() -> Self {
        Self::lying(|_, _| None)
    }

    /// A registry with the fault `lie`.
    pub(crate) fn lying(lie: impl Fn(&Request, &Kept) -> Option<Reply> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (kept, seen) = (Arc::<Mutex<Kept>>::default(), Arc::<Mutex<Vec<Request>>>::default());
        let lie: Arc<Lie> = Arc::new(lie);
        let (own, asked) = (kept.clone(), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (own, asked, lie) = (own.clone(), asked.clone(), lie.clone());
                thread::spawn(move || serve(&stream, &own, &asked, &*lie));
            }
        });
        Self { address, kept, seen }
    }

    /// `oci://127.0.0.1:PORT/REST`.
    pub(crate) fn reference(&self, rest: &str) -> haft::package::oci::Reference {
        format!("oci://{}/{rest}", self.address).parse().unwrap()
    }

    /// Every request so far.
    pub(crate) fn seen(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }

    /// Stores a blob.
    pub(crate) fn blob(&self, bytes: &[u8]) -> String {
        let digest = Digest::hash(bytes).to_string();
        self.kept.lock().unwrap().blobs.insert(digest.clone(), bytes.to_vec());
        digest
    }

    /// Stores a manifest under a tag of `a/b` and under its digest.
    pub(crate) fn manifest(&self, tag: &str, manifest: &serde_json::Value) -> Digest {
        let bytes = manifest.to_string().into_bytes();
        let media_type =
            manifest["mediaType"].as_str().unwrap_or("application/vnd.oci.image.manifest.v1+json");
        let digest = Digest::hash(&bytes);
        let mut kept = self.kept.lock().unwrap();
        for target in [tag.to_owned(), digest.to_string()] {
            kept.manifests.insert(format!("a/b/{target}"), (media_type.to_owned(), bytes.clone()));
        }
        digest
    }

    /// Stores one layer of `bytes` as `a/b:TAG`, as other clients push it.
    pub(crate) fn thing(&self, tag: &str, media_type: &str, bytes: &[u8]) -> Digest {
        let layer = json!({ "mediaType": media_type, "digest": self.blob(bytes), "size": bytes.len() });
        let config = json!({ "mediaType": "application/vnd.oci.empty.v1+json", "digest": self.blob(b"{}"), "size": 2 });
        self.manifest(tag, &json!({ "schemaVersion": 2, "config": config, "layers": [layer] }))
    }
}

fn serve(stream: &TcpStream, kept: &Mutex<Kept>, seen: &Mutex<Vec<Request>>, lie: &Lie) {
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream.set_write_timeout(Some(HANG)).unwrap();
    let Some(request) = read(&mut BufReader::new(stream)) else { return };
    seen.lock().unwrap().push(request.clone());
    let said = lie(&request, &kept.lock().unwrap());
    let reply = said.unwrap_or_else(|| answer(&request, &mut kept.lock().unwrap()));
    // The client may have closed the connection.
    let _ = write(stream, &request, reply);
}

fn read(stream: &mut impl BufRead) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).ok()?;
    let (method, rest) = line.trim_end().split_once(' ')?;
    let path = rest.split(' ').next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Request { method: method.to_owned(), path, headers, body })
}

fn write(mut stream: &TcpStream, request: &Request, reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Full(status, headers, body) => {
            let headers: String =
                headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let announced = headers.contains("content-length");
            let length =
                if announced { String::new() } else { format!("content-length: {}\r\n", body.len()) };
            write!(stream, "HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}{length}\r\n")?;
            if request.method != "HEAD" {
                stream.write_all(&body)?;
            }
        }
        Reply::Endless(head) => {
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n")?;
            let much = vec![b'x'; 65_536];
            loop {
                stream.write_all(&much)?;
            }
        }
        Reply::Broken(head, body) => {
            write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\n{head}\r\n")?;
            stream.write_all(&body)?;
        }
    }
    stream.flush()
}

/// The correct answer.
fn answer(request: &Request, kept: &mut Kept) -> Reply {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let Some(rest) = path.strip_prefix("/v2/") else { return reply(404, "") };
    let missing =
        |code: &str| reply(404, json!({ "errors": [{ "code": code, "message": "unknown" }] }).to_string());
    if let Some((repository, target)) = rest.split_once("/manifests/") {
        let key = format!("{repository}/{target}");
        if request.method == "PUT" {
            return take_manifest(request, kept, repository, target);
        }
        let Some((media_type, bytes)) = kept.manifests.get(&key) else { return missing("MANIFEST_UNKNOWN") };
        let digest = Digest::hash(bytes).to_string();
        let headers = vec![("content-type", media_type.clone()), ("docker-content-digest", digest)];
        return Reply::Full(200, headers, bytes.clone());
    }
    if let Some(repository) = rest.strip_suffix("/tags/list") {
        let names = kept.manifests.keys().filter_map(|key| key.strip_prefix(repository)?.strip_prefix('/'));
        let tags: Vec<&str> = names.filter(|name| !name.starts_with("sha256:")).collect();
        return reply(200, json!({ "name": repository, "tags": tags }).to_string());
    }
    if rest.ends_with("/blobs/uploads/") && request.method == "POST" {
        assert_eq!(request.header("content-length"), Some("0"), "{request:?}");
        return Reply::Full(202, vec![("location", format!("/v2/{rest}1?state=x"))], Vec::new());
    }
    if rest.contains("/blobs/uploads/") && request.method == "PUT" {
        let digest = query.split('&').find_map(|pair| pair.strip_prefix("digest=")).unwrap_or_default();
        let digest = digest.replace("%3A", ":");
        assert!(query.contains("state=x"), "{query}");
        if Digest::hash(&request.body).to_string() != digest {
            return reply(400, json!({ "errors": [{ "code": "DIGEST_INVALID" }] }).to_string());
        }
        kept.blobs.insert(digest, request.body.clone());
        return reply(201, "");
    }
    match rest.split_once("/blobs/").and_then(|(_, digest)| kept.blobs.get(digest)) {
        Some(bytes) => reply(200, bytes.clone()),
        None => missing("BLOB_UNKNOWN"),
    }
}

/// Accepts a manifest only if everything that it names exists.
fn take_manifest(request: &Request, kept: &mut Kept, repository: &str, target: &str) -> Reply {
    let manifest: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
    let layers = manifest["layers"].as_array().unwrap().iter();
    for named in layers.chain([&manifest["config"]]) {
        let digest = named["digest"].as_str().unwrap();
        let Some(blob) = kept.blobs.get(digest) else {
            return reply(400, json!({ "errors": [{ "code": "MANIFEST_BLOB_UNKNOWN" }] }).to_string());
        };
        assert_eq!(blob.len() as u64, named["size"].as_u64().unwrap());
    }
    let media_type = request.header("content-type").unwrap_or_default().to_owned();
    assert_eq!(manifest["mediaType"], media_type);
    for target in [target.to_owned(), Digest::hash(&request.body).to_string()] {
        kept.manifests.insert(format!("{repository}/{target}"), (media_type.clone(), request.body.clone()));
    }
    reply(201, "")
}

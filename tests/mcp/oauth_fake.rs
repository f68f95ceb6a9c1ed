//! An MCP server that requires a login and its authorization server, on loopback, at two ports. Both are strict: a
//! code is valid once and for its verifier, address and resource; a refresh token is valid once, and its second use
//! ends the login. Each fault is one deviation.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::http_fake::{Request, json_response, read, response};

/// A deviation of the fakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// The authorization server's document has another issuer.
    Issuer,
    /// The server names an authorization server whose document says that it belongs to another issuer.
    Planted,
    /// The authorization server gives a plain word as a token.
    Word,
    /// The server's document has another resource.
    Resource,
    /// The server accepts no token, as if each had another audience.
    Audience,
    /// The browser returns with another issuer.
    MixUp,
    /// The browser returns without the announced issuer.
    NoIssuer,
    /// The authorization server does not announce PKCE.
    NoPkce,
    /// The authorization server announces `plain` alone.
    PlainPkce,
    /// The server names a cloud's metadata service as its authorization server.
    Inside,
    /// The authorization server refuses the user.
    Refusing,
    /// The token endpoint redirects.
    Redirecting,
}

/// The behaviour of the authorization server.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Like {
    pub(super) fault: Fault,
    /// Whether it accepts client ID metadata documents.
    pub(super) takes_documents: bool,
    /// Whether it refuses every registration.
    pub(super) registers_nobody: bool,
    /// Seconds until an access token expires; `None` for never.
    pub(super) expires: Option<u64>,
}

/// The data of a code or a token.
#[derive(Clone, Debug)]
struct Given {
    login: usize,
    client: String,
    redirect: String,
    challenge: String,
    scope: String,
}

#[derive(Default)]
struct State {
    count: usize,
    codes: BTreeMap<String, Given>,
    access: BTreeMap<String, Given>,
    refresh: BTreeMap<String, Given>,
    used: BTreeMap<String, Given>,
    ended: Vec<usize>,
    /// The actions of the authorization server.
    log: Vec<String>,
    /// Every token that the MCP server got.
    seen: Vec<String>,
}

pub(super) struct OAuthFake {
    like: Like,
    server: SocketAddr,
    authorization: SocketAddr,
    state: Mutex<State>,
    /// The status of every answer during an outage.
    outage: Mutex<Option<&'static str>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for OAuthFake {
    fn drop(&mut self) {
        self.tasks.lock().unwrap().iter().for_each(JoinHandle::abort);
    }
}

impl OAuthFake {
    pub(super) async fn start(like: Like) -> Arc<Self> {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authorization = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = (server.local_addr().unwrap(), authorization.local_addr().unwrap());
        let own = Arc::new(Self {
            like,
            server: addresses.0,
            authorization: addresses.1,
            state: Mutex::default(),
            outage: Mutex::default(),
            tasks: Mutex::default(),
        });
        for listener in [server, authorization] {
            // Weak, so that the fake ends with its last owner.
            let shared = Arc::downgrade(&own);
            let task = tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let Some(own) = shared.upgrade() else { return };
                    tokio::spawn(async move { own.serve(stream).await });
                }
            });
            own.tasks.lock().unwrap().push(task);
        }
        own
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.server)
    }

    pub(super) fn issuer(&self) -> String {
        format!("http://{}", self.authorization)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The number of an action: `register`, `authorize SCOPE`, `code`, `refresh`, `reuse`, `revoke`, `probe`.
    pub(super) fn count(&self, what: &str) -> usize {
        self.state().log.iter().filter(|done| *done == what).count()
    }

    /// All actions.
    pub(super) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Every token that the MCP server got.
    pub(super) fn seen(&self) -> Vec<String> {
        self.state().seen.clone()
    }

    /// Every token that the authorization server gave.
    pub(super) fn tokens(&self) -> Vec<String> {
        let state = self.state();
        let all = state.access.keys().chain(state.refresh.keys()).chain(state.used.keys());
        all.cloned().collect()
    }

    /// Ends every login.
    pub(super) fn end_all(&self) {
        let mut state = self.state();
        state.ended = (0..=state.count).collect();
    }

    /// Begins an outage, in which every answer has a proxy's page and this status, or ends it.
    pub(super) fn set_outage(&self, status: Option<&'static str>) {
        *self.outage.lock().unwrap() = status;
    }

    /// Whether a login is valid.
    pub(super) fn has_login(&self) -> bool {
        let state = self.state();
        state.access.values().chain(state.refresh.values()).any(|given| !state.ended.contains(&given.login))
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let is_server = stream.local_addr().ok()? == self.server;
        let mut stream = BufReader::new(stream);
        loop {
            let request = read(&mut stream).await?;
            let outage = *self.outage.lock().unwrap();
            let answer = match outage {
                Some(status) => response(status, "", "<p>Back soon.</p>"),
                None if is_server => self.mcp(&request),
                None => self.authorization(&request),
            };
            stream.write_all(answer.as_bytes()).await.ok()?;
        }
    }

    fn mcp(&self, (first, headers, body): &Request) -> String {
        if first.starts_with("GET /.well-known/oauth-protected-resource") {
            let resource =
                if self.like.fault == Fault::Resource { "https://other.test/mcp" } else { &self.url() };
            let inside = "https://169.254.169.254".to_owned();
            let issuer = match self.like.fault {
                Fault::Inside => inside,
                Fault::Planted => format!("{}/.well-known/planted", self.issuer()),
                _ => self.issuer(),
            };
            let document = json!({ "resource": resource, "authorization_servers": [issuer], "scopes_supported": ["read"] });
            return json_response("", &document);
        }
        let token =
            headers.get("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let given = self.admitted(token);
        let Some(given) = given.filter(|_| self.like.fault != Fault::Audience) else {
            return self.challenge("401 Unauthorized", "error=\"invalid_token\", scope=\"read\"");
        };
        let Ok(message) = serde_json::from_str::<Value>(body) else {
            return response("405 Method Not Allowed", "", "");
        };
        let (id, text) = (&message["id"], message["params"]["name"].as_str().unwrap_or_default());
        let result = match message["method"].as_str().unwrap() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "fake", "version": "1" },
            }),
            "tools/list" => {
                let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
                json!({ "tools": [tool("read"), tool("write")] })
            }
            "tools/call" if !given.scope.split(' ').any(|scope| scope == text) => {
                let scope = format!("error=\"insufficient_scope\", scope=\"{text}\"");
                return self.challenge("403 Forbidden", &scope);
            }
            "tools/call" => json!({ "content": [{ "type": "text", "text": format!("done: {text}") }] }),
            _ if id.is_null() => return response("202 Accepted", "", ""),
            _ => {
                let error = json!({ "code": -32601, "message": "no such method" });
                return json_response("", &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
            }
        };
        json_response("", &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    fn admitted(&self, token: &str) -> Option<Given> {
        let mut state = self.state();
        if token.is_empty() {
            state.log.push("probe".into());
            return None;
        }
        state.seen.push(token.to_owned());
        state.access.get(token).filter(|given| !state.ended.contains(&given.login)).cloned()
    }

    fn challenge(&self, status: &str, more: &str) -> String {
        let document = format!("http://{}/.well-known/oauth-protected-resource/mcp", self.server);
        let head = format!("www-authenticate: Bearer resource_metadata=\"{document}\", {more}\r\n");
        response(status, &head, "")
    }

    fn authorization(&self, (first, headers, body): &Request) -> String {
        let (path, query) = first.split_once('?').unwrap_or((first, ""));
        match path {
            "GET /.well-known/oauth-authorization-server" | "GET /.well-known/planted" => {
                json_response("", &self.document())
            }
            "POST /register" => {
                let redirect = serde_json::from_str::<Value>(body).unwrap()["redirect_uris"][0].clone();
                let mut state = self.state();
                state.log.push("register".into());
                json_response("", &json!({ "client_id": "registered", "redirect_uris": [redirect] }))
            }
            "GET /authorize" => self.authorize(&pairs(query)),
            "POST /token" if self.like.fault == Fault::Redirecting => response(
                "307 Temporary Redirect",
                &format!("location: http://{}/stolen\r\n", self.server),
                "",
            ),
            "POST /token" => self.token(&pairs(body), headers.get("authorization")),
            "POST /revoke" => {
                let form = pairs(body);
                let mut state = self.state();
                let given = [&state.access, &state.refresh]
                    .into_iter()
                    .find_map(|all| all.get(&form["token"]).cloned());
                state.ended.extend(given.map(|given| given.login));
                state.log.push("revoke".into());
                response("200 OK", "", "")
            }
            _ => response("404 Not Found", "", ""),
        }
    }

    fn document(&self) -> Value {
        let at = |path: &str| format!("{}/{path}", self.issuer());
        let issuer = match self.like.fault {
            Fault::Issuer | Fault::Planted => "https://other.test".to_owned(),
            _ => self.issuer(),
        };
        let mut document = json!({
            "issuer": issuer, "authorization_endpoint": at("authorize"), "token_endpoint": at("token"),
            "revocation_endpoint": at("revoke"), "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": self.like.takes_documents,
            "authorization_response_iss_parameter_supported": true,
        });
        match self.like.fault {
            Fault::NoPkce => document["code_challenge_methods_supported"] = Value::Null,
            Fault::PlainPkce => document["code_challenge_methods_supported"] = json!(["plain"]),
            _ => {}
        }
        if !self.like.registers_nobody {
            document["registration_endpoint"] = at("register").into();
        }
        document
    }

    /// Redirects the browser back at once, as if the user agreed.
    fn authorize(&self, query: &BTreeMap<String, String>) -> String {
        assert_eq!((&*query["response_type"], &*query["code_challenge_method"]), ("code", "S256"));
        assert_eq!(query["resource"], self.url());
        let mut state = self.state();
        state.count += 1;
        let scope = query.get("scope").cloned().unwrap_or_default();
        state.log.push(format!("authorize {} {scope}", query["client_id"]));
        let code = format!("code-7331-{}-Q29kZQ", state.count);
        let given = Given {
            login: state.count,
            client: query["client_id"].clone(),
            redirect: query["redirect_uri"].clone(),
            challenge: query["code_challenge"].clone(),
            scope,
        };
        state.codes.insert(code.clone(), given);
        let issuer = match self.like.fault {
            Fault::MixUp => "&iss=https%3A%2F%2Fother.test".into(),
            Fault::NoIssuer => String::new(),
            _ => format!("&iss={}", self.issuer()),
        };
        let what = match self.like.fault {
            Fault::Refusing => "error=access_denied&error_description=not+you".to_owned(),
            _ => format!("code={code}"),
        };
        let location = format!("{}?{what}&state={}{issuer}", query["redirect_uri"], query["state"]);
        response("302 Found", &format!("location: {location}\r\n"), "")
    }

    fn token(&self, form: &BTreeMap<String, String>, basic: Option<&String>) -> String {
        if let Some(assertion) = form.get("assertion") {
            return self.by_assertion(assertion);
        }
        assert_eq!(form["resource"], self.url());
        let mut state = self.state();
        let given = if form["grant_type"] == "refresh_token" {
            let token = &form["refresh_token"];
            if let Some(given) = state.used.get(token).cloned() {
                state.log.push("reuse".into());
                state.ended.push(given.login);
                return refused("invalid_grant");
            }
            let given = state.refresh.remove(token);
            if let Some(given) = &given {
                state.used.insert(token.clone(), given.clone());
            }
            let is_good = |given: &Given| !state.ended.contains(&given.login);
            given.filter(is_good).inspect(|_| state.log.push("refresh".into()))
        } else {
            let digest = ring::digest::digest(&ring::digest::SHA256, form["code_verifier"].as_bytes());
            let shown = BASE64_URL_SAFE_NO_PAD.encode(digest);
            let given = state.codes.remove(&form["code"]);
            let fits = |given: &Given| given.challenge == shown && given.redirect == form["redirect_uri"];
            given.filter(fits).inspect(|_| state.log.push("code".into()))
        };
        let Some(given) = given else { return refused("invalid_grant") };
        let shows = basic.map_or_else(|| form.get("client_id").cloned(), |_| Some(given.client.clone()));
        if shows.as_ref() != Some(&given.client) {
            return refused("invalid_client");
        }
        state.count += 1;
        let own = format!("{}-{}", self.authorization.port(), state.count);
        let (access, refresh) = (format!("at-4711-{own}-QWNjZXNz"), format!("rt-0815-{own}-UmVmcmVzaA"));
        let access = if self.like.fault == Fault::Word { "https://".to_owned() } else { access };
        state.access.insert(access.clone(), given.clone());
        state.refresh.insert(refresh.clone(), given.clone());
        let mut answer = json!({
            "access_token": access, "refresh_token": refresh, "token_type": "Bearer", "scope": given.scope,
        });
        if let Some(seconds) = self.like.expires {
            answer["expires_in"] = seconds.into();
        }
        json_response("", &answer)
    }

    /// Gives a token for an identity provider's assertion.
    fn by_assertion(&self, assertion: &str) -> String {
        let claims = BASE64_URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).unwrap()).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!((&claims["aud"], &claims["resource"]), (&json!(self.issuer()), &json!(self.url())));
        let mut state = self.state();
        state.count += 1;
        state.log.push("assertion".into());
        let [client, scope] = ["client_id", "scope"].map(|name| claims[name].as_str().unwrap().to_owned());
        let (redirect, challenge) = Default::default();
        let given = Given { login: state.count, client, redirect, challenge, scope };
        let access = format!("at-4711-{}-{}-QWNjZXNz", self.authorization.port(), state.count);
        state.access.insert(access.clone(), given);
        json_response("", &json!({ "access_token": access, "token_type": "Bearer" }))
    }
}

fn refused(error: &str) -> String {
    response("400 Bad Request", "content-type: application/json\r\n", &json!({ "error": error }).to_string())
}

/// The pairs of a query or a form.
pub(super) fn pairs(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| {
        let bytes = text.replace('+', " ").into_bytes();
        let (mut out, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let hex = |range| u8::from_str_radix(std::str::from_utf8(&bytes[range]).unwrap(), 16).unwrap();
            let (byte, count) = if bytes[at] == b'%' { (hex(at + 1..at + 3), 3) } else { (bytes[at], 1) };
            out.push(byte);
            at += count;
        }
        String::from_utf8(out).unwrap()
    };
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// The head of the answer to a browser at `url`.
pub(super) async fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    while !answer.contains("\r\n\r\n") {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "{answer}");
        answer += std::str::from_utf8(&piece[..count]).unwrap();
    }
    answer
}

/// The target of the redirect at `url`.
pub(super) async fn sent_on(url: &str) -> String {
    let answer = get(url).await;
    answer
        .lines()
        .find_map(|line| line.strip_prefix("location: "))
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

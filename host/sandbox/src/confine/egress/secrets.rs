//! Secrets that a child uses and never has. The child gets a placeholder for each. Its connections to the hosts of a
//! secret lead to haft, which opens TLS with a certificate authority of this child alone, puts the secret in the
//! placeholder's place and sends the request to the host. All other connections are handed over as usual.

mod answer;
mod authority;
mod buffered;
mod forward;
mod intercepted;
mod outside;
mod paused;
mod placeholder;
mod request;
mod sigv4;
mod upgrade;

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use secrecy::{ExposeSecret, SecretString};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::authority::{Authority, CA_VARIABLES};
use self::intercepted::Intercepted;
use self::outside::Route;
use super::Records;
use super::connect;
use super::message::Request;
use haft_core::grant::{Destination, HostSecret, Scheme};
use haft_core::secret::Redactor;
use haft_core::sync::Lock;

/// The directory in a child's `/dev` with the files that haft gives it.
pub(in crate::confine) const GIVEN: &str = "/dev/haft";
/// The file with the certificates that the child trusts.
const CA_FILE: &str = "ca.pem";
/// The variable in which programs look for the access key of AWS.
const ACCESS_KEY: &str = "AWS_ACCESS_KEY_ID";
/// The beginning of such a key.
const ACCESS_KEY_FORM: &str = "AKIA";
/// Limit on a child's connections to hosts of secrets at one time.
const MAX_CONNECTIONS: usize = 256;
/// Limit on the addresses whose connections are kept.
const MAX_ROUTES: usize = 64;
/// Time limit for a connection inside of this machine.
const INSIDE: Duration = Duration::from_secs(5);
/// Time limit for a connection to a host, for a child that waits.
const WAITING: Duration = Duration::from_mins(1);
/// Time limit for a connection to a host, for a child that does not wait.
const NOT_WAITING: Duration = Duration::from_secs(10);
/// Limit on the connections of other processes of this machine that come first: the port is open for a moment.
const MAX_STRANGERS: usize = 16;

/// The secrets of one child, and its connections to their hosts. Dropping it ends the connections.
#[derive(Debug)]
pub(in crate::confine) struct Relay {
    shared: Arc<Shared>,
    routes: Lock<Vec<Arc<Route>>>,
    connections: Lock<JoinSet<()>>,
    limit: Arc<Semaphore>,
}

#[derive(Debug)]
struct Shared {
    held: Vec<Held>,
    authority: Authority,
    redactor: Redactor,
    records: Records,
}

#[derive(Debug)]
struct Held {
    secret: HostSecret,
    placeholder: String,
    /// The placeholder of its access key, if it has one.
    access_key: Option<String>,
}

impl Relay {
    /// Makes the placeholders and the certificate authority of a child with these secrets.
    ///
    /// # Errors
    /// The system provides no random numbers, or no certificate can be made.
    pub(in crate::confine) fn new(secrets: &[HostSecret], records: Records) -> io::Result<Self> {
        let redactor = Redactor::default();
        // The name of a header is in lower case.
        let lower_case = |secret: &HostSecret| secret.value.expose_secret().to_ascii_lowercase().into();
        let lower_case: Vec<SecretString> = secrets.iter().map(lower_case).collect();
        redactor.add(secrets.iter().map(|secret| &secret.value).chain(&lower_case));
        let held = |secret: &HostSecret| {
            let id =
                secret.access_key.as_ref().map(|_| placeholder::new(&ACCESS_KEY_FORM.into())).transpose()?;
            let placeholder = placeholder::new(&secret.value)?;
            io::Result::Ok(Held { secret: secret.clone(), placeholder, access_key: id })
        };
        let held = secrets.iter().map(held).collect::<io::Result<_>>()?;
        let authority = Authority::new().map_err(io::Error::other)?;
        let shared = Arc::new(Shared { held, authority, redactor, records });
        let limit = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        Ok(Self { shared, routes: Lock::default(), connections: Lock::default(), limit })
    }

    /// Returns the files for [`GIVEN`], by their names.
    pub(in crate::confine) fn files(&self) -> Vec<(String, String)> {
        let text = |(number, held): (usize, &Held)| {
            let (_, text) = held.secret.file.as_ref()?;
            Some((number.to_string(), text.replace("{}", &held.placeholder)))
        };
        let placeholders = self.shared.held.iter().enumerate().filter_map(text);
        placeholders.chain([(CA_FILE.to_owned(), self.shared.authority.bundle())]).collect()
    }

    /// Returns the variables of the child: the placeholders, the paths of the files, and the certificates.
    pub(in crate::confine) fn variables(&self) -> Vec<(OsString, OsString)> {
        let path = |name: &str| format!("{GIVEN}/{name}");
        let mut variables: Vec<_> =
            CA_VARIABLES.iter().map(|name| ((*name).to_owned(), path(CA_FILE))).collect();
        for (number, Held { secret, placeholder, access_key }) in self.shared.held.iter().enumerate() {
            variables.extend(access_key.iter().map(|id| (ACCESS_KEY.to_owned(), id.clone())));
            let file = secret.file.as_ref().map(|(name, _)| (name.clone(), path(&number.to_string())));
            variables
                .extend(secret.variable.iter().map(|name| (name.clone(), placeholder.clone())).chain(file));
        }
        variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    /// Returns whether a connection to one of these hosts, each as in a URL, is for a secret.
    pub(super) fn is_for(&self, hosts: &[String], port: u16) -> bool {
        hosts.iter().any(|host| {
            [Scheme::Https, Scheme::Http]
                .into_iter()
                .any(|scheme| self.shared.destination(scheme, host, port).is_some())
        })
    }

    /// Returns the error number and the socket for the child, whose connection to one of `hosts` leads to haft.
    /// `name` is the granted name that led there, if one did.
    pub(super) async fn intercept(
        &self,
        hosts: Vec<String>,
        name: Option<&str>,
        request: &Request,
    ) -> (i32, Option<OwnedFd>) {
        let Ok(permit) = self.limit.clone().try_acquire_owned() else {
            return (Errno::CONNREFUSED.raw_os_error(), None);
        };
        match self.opened(name, request).await {
            Ok((socket, inside, route)) => {
                let intercepted = Intercepted { shared: self.shared.clone(), hosts, route };
                let mut connections = self.connections.lock();
                while connections.try_join_next().is_some() {}
                connections.spawn(async move {
                    intercepted.serve(inside).await;
                    drop(permit);
                });
                (0, Some(socket))
            }
            Err(error) => {
                tracing::debug!(%error, "cannot intercept a connection");
                (error.raw_os_error().unwrap_or(Errno::CONNREFUSED.raw_os_error()), None)
            }
        }
    }

    /// Opens a connection from the child to haft if the address can be reached: programs try another address if it
    /// cannot.
    async fn opened(
        &self,
        name: Option<&str>,
        request: &Request,
    ) -> io::Result<(OwnedFd, TcpStream, Arc<Route>)> {
        let route = self.route(name, request.address)?;
        let late = |_| io::Error::from(Errno::TIMEDOUT);
        // A program that does not wait has other tasks.
        let limit = request.wait.map_or(NOT_WAITING, |limit| Duration::from_millis(limit.get()).min(WAITING));
        timeout(limit, route.dial.check()).await.map_err(late)??;
        let (socket, inside) = timeout(INSIDE, pair(request.is_v6)).await.map_err(late)??;
        Ok((socket, inside, route))
    }

    /// Returns the route to an address to which `name` led.
    fn route(&self, name: Option<&str>, address: SocketAddr) -> io::Result<Arc<Route>> {
        let mut routes = self.routes.lock();
        if let Some(known) = routes.iter().find(|route| route.dial.is_to(name, address)) {
            return Ok(known.clone());
        }
        let route = Arc::new(Route::new(name, address).map_err(io::Error::other)?);
        if routes.len() >= MAX_ROUTES {
            routes.clear();
        }
        routes.push(route.clone());
        Ok(route)
    }
}

impl Shared {
    /// Returns the destination if it is one of a secret.
    fn destination(&self, scheme: Scheme, host: &str, port: u16) -> Option<Destination> {
        let destination = Destination::new(scheme.name(), &format!("{host}:{port}"))?;
        self.held.iter().any(|held| held.secret.is_for(&destination)).then_some(destination)
    }
}

/// Returns the two ends of a connection on this machine's loopback interface: a socket of the child's family, whose
/// options work as those of any connection, and haft's end. The port accepts this connection alone.
async fn pair(is_v6: bool) -> io::Result<(OwnedFd, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let request =
        Request { id: 0, is_v6, wait: Some(NonZeroU64::MAX), address: (Ipv4Addr::LOCALHOST, port).into() };
    let (error, socket) = connect::open(&request).await;
    let socket = socket.filter(|_| error == 0).ok_or_else(|| io::Error::from_raw_os_error(error))?;
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    for _ in 0..MAX_STRANGERS {
        let (stream, from) = listener.accept().await?;
        if (from.ip(), from.port()) == (own.ip().to_canonical(), own.port()) {
            stream.set_nodelay(true)?;
            return Ok((socket, stream));
        }
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

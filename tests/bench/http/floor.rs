//! The floor over HTTP: one thread that waits for all connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::epoll;

use crate::client::header;
use crate::floor;

/// Limit on connections.
const CONNECTIONS: usize = 8192;

/// Events per wait.
const EVENTS: usize = 256;

/// Bytes per read.
const BUFFER: usize = 16 << 10;

/// A connection, and the bytes of a request so far.
type Connection = Option<(TcpStream, Vec<u8>)>;

/// Serves on a loopback port until the process is killed.
pub(crate) fn serve(port: &str) {
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    watch(&poll, &listener, CONNECTIONS);
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let mut events = Vec::with_capacity(EVENTS);
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).unwrap();
        for event in &events {
            let index = usize::try_from(event.data.u64()).unwrap();
            if index == CONNECTIONS {
                accept(&listener, &poll, &mut connections);
            } else if !serve_once(&mut connections[index]) {
                connections[index] = None;
            }
        }
    }
}

fn watch(poll: impl AsFd, source: impl AsFd, index: usize) {
    epoll::add(poll, source, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN).unwrap();
}

fn accept(listener: &TcpListener, poll: impl AsFd, connections: &mut Vec<Connection>) {
    let (stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_nonblocking(true).unwrap();
    let free = connections.iter().position(Option::is_none).unwrap_or(connections.len());
    assert!(free < CONNECTIONS, "too many connections");
    watch(poll, &stream, free);
    if free == connections.len() {
        connections.push(None);
    }
    connections[free] = Some((stream, Vec::new()));
}

/// Reads once and answers, if the request is complete. False if the client has closed the connection.
fn serve_once(connection: &mut Connection) -> bool {
    let Some((stream, received)) = connection else { return true };
    let mut buffer = [0; BUFFER];
    match stream.read(&mut buffer) {
        Ok(0) => return false,
        Ok(read) => received.extend_from_slice(&buffer[..read]),
        Err(error) => return error.kind() == ErrorKind::WouldBlock,
    }
    let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return true };
    let head = std::str::from_utf8(&received[..end]).unwrap();
    let length: usize = header(head, "content-length").unwrap().parse().unwrap();
    if received.len() < end + 4 + length {
        return true;
    }
    let response = match floor::answer(&received[end + 4..]) {
        Some(body) => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ),
        None => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    received.clear();
    stream.write_all(response.as_bytes()).is_ok()
}

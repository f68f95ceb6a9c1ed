//! Guests that access the network, with plain `std::net`.

use std::net::{TcpListener, TcpStream, ToSocketAddrs, UdpSocket};

deed! {
    /// Connects to an address such as `127.0.0.1:80` or `example.com:443`.
    Connect, "connect" { addr: String } |self, _context| {
        let stream = TcpStream::connect(&self.addr)?;
        Ok(format!("connected to {}", stream.peer_addr()?).into())
    }
}

deed! {
    /// Listens on an address.
    Listen, "listen" { addr: String } |self, _context| {
        let listener = TcpListener::bind(&self.addr)?;
        Ok(format!("listens on {}", listener.local_addr()?).into())
    }
}

deed! {
    /// Sends one datagram to an address.
    Udp, "udp" { addr: String } |self, _context| {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        let sent = socket.send_to(b"hello", &self.addr)?;
        Ok(format!("sent {sent} bytes").into())
    }
}

deed! {
    /// Looks a name up, given with a port: `localhost:80`.
    LookUp, "look_up" { name: String } |self, _context| {
        let addresses = self.name.to_socket_addrs()?.map(|address| address.to_string());
        Ok(addresses.collect::<Vec<_>>().join("\n").into())
    }
}

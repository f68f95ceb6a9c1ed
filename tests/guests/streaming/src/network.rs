//! Functions that use sockets and resolve names.

use super::bindings::wasi::sockets::ip_name_lookup;
use super::bindings::wasi::sockets::types::{
    IpAddressFamily, IpSocketAddress, Ipv4SocketAddress, TcpSocket, UdpSocket,
};

fn address(address: (u8, u8, u8, u8), port: u16) -> IpSocketAddress {
    IpSocketAddress::Ipv4(Ipv4SocketAddress { port, address })
}

pub(crate) async fn connect(to: (u8, u8, u8, u8), port: u16) -> Result<String, String> {
    let socket = TcpSocket::create(IpAddressFamily::Ipv4).map_err(|code| format!("{code:?}"))?;
    socket.connect(address(to, port)).await.map_err(|code| format!("{code:?}"))?;
    Ok("connected".to_owned())
}

pub(crate) fn listen(port: u16) -> Result<String, String> {
    let socket = TcpSocket::create(IpAddressFamily::Ipv4).map_err(|code| format!("{code:?}"))?;
    socket.bind(address((0, 0, 0, 0), port)).map_err(|code| format!("bind: {code:?}"))?;
    socket.listen().map_err(|code| format!("listen: {code:?}"))?;
    Ok("listens".to_owned())
}

pub(crate) async fn look_up(name: String) -> Result<String, String> {
    let addresses = ip_name_lookup::resolve_addresses(name).await;
    addresses.map(|addresses| format!("{addresses:?}")).map_err(|code| format!("{code:?}"))
}

pub(crate) fn datagrams() -> Result<String, String> {
    let socket = UdpSocket::create(IpAddressFamily::Ipv4).map_err(|code| format!("{code:?}"))?;
    drop(socket);
    Ok("made".to_owned())
}

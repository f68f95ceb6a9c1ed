use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::*;

fn egress(hosts: &[&str]) -> Egress {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    Egress {
        judge: Judge::new(&hosts, &[]).unwrap(),
        look_up: |name| Box::pin(async move { fake(&name) }),
        records: Records::default(),
        relay: None,
    }
}

/// A fake resolver.
fn fake(name: &str) -> io::Result<Vec<IpAddr>> {
    let addresses: &[&str] = match name {
        "api.test" => &["93.184.215.14", "93.184.215.15"],
        "private.test" => &["10.0.0.1", "169.254.169.254", "127.0.0.1", "::1", "fd00::1", "64:ff9b::a00:1"],
        "mixed.test" => &["93.184.215.16", "192.168.0.1"],
        _ => return Err(io::ErrorKind::NotFound.into()),
    };
    Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
}

fn question(name: &str, kind: TYPE) -> Vec<u8> {
    let mut packet = Packet::new_query(7);
    let name = Name::new_unchecked(name);
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().unwrap()
}

async fn asked(egress: &Egress, name: &str, kind: TYPE) -> (RCODE, usize) {
    let answer = names::answer(egress, &question(name, kind)).await.unwrap();
    let answer = Packet::parse(&answer).unwrap();
    (answer.rcode(), answer.answers.len())
}

#[tokio::test]
async fn granted_names_are_answered_and_nothing_else() {
    let egress = egress(&["api.test", "*.deep.test"]);
    assert_eq!(asked(&egress, "API.test", TYPE::A).await, (RCODE::NoError, 2));
    for kind in [TYPE::TXT, TYPE::MX, TYPE::SRV, TYPE::NULL, TYPE::AAAA] {
        assert_eq!(asked(&egress, "api.test", kind).await, (RCODE::NoError, 0), "{kind:?}");
    }
    for name in ["other.test", "x.api.test", "deep.test", "c2VjcmV0.evil.test"] {
        assert_eq!(asked(&egress, name, TYPE::A).await, (RCODE::NameError, 0), "{name}");
        let refused = Refusal::Host(name.to_ascii_lowercase(), None);
        assert!(egress.records.refused.lock().contains(&refused), "{name}");
    }
    assert_eq!(names::answer(&egress, b"no question").await, None);
    let answer = names::answer(&egress, &question("api.test", TYPE::A)).await.unwrap();
    assert_eq!(names::answer(&egress, &answer).await, None);
}

#[tokio::test]
async fn a_connection_needs_a_name_that_was_answered_with_its_address() {
    let egress = egress(&["api.test", "mixed.test:22"]);
    let judged = |address: &str| egress.judge.judge(address.parse().unwrap());
    assert!(judged("93.184.215.14:443").is_err());
    egress.addresses("api.test").await.unwrap();
    egress.addresses("mixed.test").await.unwrap();
    assert_eq!(judged("93.184.215.14:443"), Ok(Some("api.test".into())));
    assert_eq!(judged("[::ffff:93.184.215.14]:443"), Ok(Some("api.test".into())));
    assert_eq!(judged("93.184.215.14:80"), Err(Refusal::Host("api.test".into(), Some(80))));
    assert_eq!(judged("93.184.215.16:22"), Ok(Some("mixed.test".into())));
    for closed in ["192.168.0.1:22", "93.184.215.17:443", "127.0.0.1:443"] {
        assert_eq!(judged(closed), Err(Refusal::Connect(closed.parse().unwrap())), "{closed}");
    }
}

/// A public name that resolves to this machine, its networks or a cloud's metadata is refused.
#[tokio::test]
async fn a_name_leads_to_no_closed_address() {
    let egress = egress(&["private.test"]);
    assert_eq!(egress.addresses("private.test").await, Err(NoAddress::Unknown));
    for address in fake("private.test").unwrap() {
        assert!(egress.judge.judge((address, 443).into()).is_err(), "{address}");
    }
}

/// An address that stands for a name which only a proxy can resolve is valid for this name alone, on its ports.
#[test]
fn an_address_stands_for_a_name_that_cannot_be_resolved() {
    let egress = egress(&["closed.test", "other.test:22"]);
    let (one, other) = (egress.judge.stand_in("closed.test"), egress.judge.stand_in("other.test"));
    assert!(one != other && egress.judge.stand_in("closed.test") == one);
    let judged = |address: IpAddr, port: u16| egress.judge.judge((address, port).into());
    assert_eq!(judged(one, 443), Ok(Some("closed.test".into())));
    assert_eq!(judged(other, 22), Ok(Some("other.test".into())));
    assert_eq!(judged(one, 22), Err(Refusal::Host("closed.test".into(), Some(22))));
    assert!(judged("198.18.0.3".parse().unwrap(), 443).is_err());
}

/// A loopback address is reachable only by a grant of a loopback name or address, on the granted port.
#[test]
fn an_address_of_this_machine_is_granted_by_itself_alone() {
    let egress = egress(&["http://127.0.0.1:8080", "localhost:5432"]);
    let judged = |address: &str| egress.judge.judge(address.parse().unwrap());
    assert!(judged("127.0.0.1:8080").is_ok() && judged("[::ffff:127.0.0.1]:8080").is_ok());
    assert!(judged("127.0.0.1:5432").is_ok() && judged("[::1]:5432").is_ok());
    assert!(judged("127.0.0.1:80").is_err() && judged("[::1]:8080").is_err());
}

#[test]
fn what_cannot_be_understood_is_no_policy() {
    assert!(Judge::new(&["a b".into()], &[]).is_err() && Judge::new(&[], &["*".into()]).is_err());
}

/// A connection that a server keeps open counts for each call that uses it.
#[tokio::test]
async fn bytes_count_once_for_the_call_that_sent_them() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = OwnedFd::from(TcpStream::connect(address).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    let connections = Arc::new(Connections::default());
    let new =
        |count| Connection { name: None, others: Vec::new(), address, count, secret: None, bytes: None };
    connections.add(&new(1));
    connections.follow(&client, None, address);
    let mut client = TcpStream::from(client);
    let mut exchange = |bytes: usize| {
        client.write_all(&vec![1; bytes]).unwrap();
        server.read_exact(&mut vec![0; bytes]).unwrap();
    };
    let taken = |sent: u64, count: u32| {
        let bytes = Some(Bytes { sent, received: 0 });
        let taken = connections.take();
        assert_eq!(taken, [Connection { bytes, ..new(count) }]);
        taken[0].to_string()
    };
    exchange(700);
    assert_eq!(taken(700, 1), format!("{address}, sent 700 bytes, received 0 bytes"));
    exchange(41);
    assert_eq!(taken(41, 0), format!("{address}, opened earlier, sent 41 bytes, received 0 bytes"));
    assert_eq!(connections.take(), []);
    exchange(5);
    drop((client, server));
    let last = connections.finished().await;
    assert_eq!((last.len(), last[0].bytes.unwrap().sent), (1, 5));
}

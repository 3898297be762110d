//! Looking up names against a name server of our own on loopback.

use super::*;
use simple_dns::rdata::{A, AAAA, RData};
use simple_dns::{CLASS, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

const LATE: &str = "hello-0.hello.team.svc.cluster.local";

/// Asks these name servers, with `search` as the search list and names of five dots complete.
fn resolver(servers: &[SocketAddr], search: &[&str]) -> Resolver {
    let search = search.iter().map(|&domain| domain.to_owned()).collect();
    let hosts = "127.0.0.1 localhost\n10.1.2.3 hello-0.hello Hello # x\n::1 localhost".to_owned();
    Resolver { servers: servers.to_vec(), search, dots: 5, hosts }
}

/// A name server that remembers what it was asked, and knows [`LATE`] from the second question for it on.
struct NameServer {
    address: SocketAddr,
    questions: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = UdpSocket::bind(address).await.unwrap();
        let server = Self { address, questions: Arc::default() };
        let (questions, long) = (Arc::clone(&server.questions), server.questions.clone());
        tokio::spawn(async move {
            let mut buffer = [0; 512];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
                let reply = reply(&buffer[..length], &questions, false);
                socket.send_to(&reply, client).await.unwrap();
            }
        });
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut request).await.unwrap();
            let reply = reply(&request, &long, true);
            stream.write_u16(reply.len().try_into().unwrap()).await.unwrap();
            stream.write_all(&reply).await.unwrap();
        });
        server
    }

    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>> {
        resolver(&[self.address], &["cluster.local."]).lookup(name).await
    }

    fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }
}

/// The answer to `request`. That for `long.example` is too long for UDP.
fn reply(request: &[u8], questions: &Mutex<Vec<String>>, is_tcp: bool) -> Vec<u8> {
    let request = Packet::parse(request).unwrap();
    let query = request.questions[0].clone();
    let (name, QTYPE::TYPE(kind)) = (query.qname.to_string(), query.qtype) else { panic!() };
    let question = format!("{name}. {kind:?}");
    let is_late = questions.lock().unwrap().contains(&question);
    questions.lock().unwrap().push(question);
    let four = |last| Some(RData::A(A { address: Ipv4Addr::new(10, 244, 1, last).into() }));
    let data = match (name.as_str(), kind) {
        (LATE, TYPE::A) if is_late => four(7),
        ("lead.team.svc.cluster.local", TYPE::A) => four(9),
        ("both.example", TYPE::A) => four(8),
        ("long.example", TYPE::A) if is_tcp => four(6),
        ("six.example" | "both.example", TYPE::AAAA) => {
            Some(RData::AAAA(AAAA { address: "fd00::7".parse::<Ipv6Addr>().unwrap().into() }))
        }
        _ => None,
    };
    let mut reply = request.into_reply();
    match (&data, name.as_str(), kind) {
        // As a name server of the cluster that cannot ask others about other names.
        (_, "lead.team.svc", _) => *reply.rcode_mut() = RCODE::ServerFailure,
        (None, "long.example", TYPE::A) => reply.set_flags(PacketFlag::TRUNCATION),
        (None, "six.example" | "long.example", _) | (Some(_), ..) => {}
        (None, ..) => *reply.rcode_mut() = RCODE::NameError,
    }
    let record = |data| ResourceRecord::new(query.qname.clone(), CLASS::IN, 30, data);
    reply.answers.extend(data.map(record));
    reply.build_bytes_vec().unwrap()
}

fn addresses<const COUNT: usize>(texts: [&str; COUNT]) -> [IpAddr; COUNT] {
    texts.map(|text| text.parse().unwrap())
}

#[tokio::test]
async fn a_name_that_appears_is_seen_at_once() {
    let server = NameServer::start().await;
    let error = server.lookup(LATE).await.unwrap_err();
    assert_eq!(error.to_string(), format!("name {LATE}. does not exist in DNS (yet)"));
    let mut questions = server.questions();
    questions.sort();
    assert_eq!(questions, [format!("{LATE}. A"), format!("{LATE}. AAAA")], "it is complete");
    assert_eq!(server.lookup(LATE).await.unwrap(), addresses(["10.244.1.7"]));
}

#[tokio::test]
async fn a_host_is_found_by_its_short_name_and_all_addresses() {
    let server = NameServer::start().await;
    for (name, expected) in [
        // In the search list, though the absolute name fails; libc and libzmq find it, too.
        ("lead.team.svc", &["10.244.1.9"][..]),
        // A pod may have a way to one kind only, and none to the other.
        ("six.example.", &["fd00::7"]),
        ("both.example.", &["10.244.1.8", "fd00::7"]),
        ("long.example.", &["10.244.1.6"]),
    ] {
        let found = server.lookup(name).await.unwrap();
        assert_eq!(found.iter().map(IpAddr::to_string).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn neither_the_hosts_file_nor_an_address_needs_a_name_server() {
    let server = NameServer::start().await;
    let found = server.lookup("localhost").await.unwrap();
    assert_eq!(found, addresses(["127.0.0.1", "::1"]));
    assert_eq!(server.lookup("hello.").await.unwrap(), addresses(["10.1.2.3"]));
    assert_eq!(server.lookup("fd00::7").await.unwrap(), addresses(["fd00::7"]));
    assert!(server.questions().is_empty());
}

#[tokio::test]
async fn a_missing_name_server_is_no_unknown_name() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let error = resolver(&[address], &[]).lookup(LATE).await.unwrap_err().to_string();
    assert!(error.starts_with("could not look up "), "{error}");
    let server = NameServer::start().await;
    let found = resolver(&[address, server.address], &[]).lookup("both.example.").await;
    assert_eq!(found.unwrap().len(), 2, "the next server is asked");
}

#[test]
fn complete_names_are_never_looked_for_in_the_search_list() {
    for (name, complete_dots, relative) in [
        ("hello-0.hello.team.svc.cluster.local", 5, false),
        // The pod's own rule.
        ("hello-0.hello.team.svc.cluster.local", 6, true),
        ("lead.", 5, false),
        ("lead", 5, true),
        ("hello-0.hello.team.svc", 5, true),
    ] {
        assert_eq!(may_be_relative(name, complete_dots), relative, "{name} {complete_dots}");
    }
}

#[tokio::test]
async fn every_server_answers_with_the_name_that_it_knows() {
    let (first, second) = (NameServer::start().await, NameServer::start().await);
    // The first of them has been asked for the name before, and knows it since.
    let _ = first.lookup(LATE).await;
    let both = resolver(&[first.address, second.address], &["team.svc.cluster.local."]);
    let found = both.resolution("hello-0.hello").await;
    assert_eq!(found.hosts, ["10.1.2.3".parse::<IpAddr>().unwrap()]);
    let [known, unknown] = &found.servers[..] else { panic!("{found:?}") };
    assert_eq!(known.name.as_deref(), Some(format!("{LATE}.").as_str()), "{known:?}");
    assert!(!known.addresses.is_empty() && known.error.is_none(), "{known:?}");
    assert!(unknown.addresses.is_empty() && unknown.error.is_some(), "{unknown:?}");
    assert!(found.is_known());
}

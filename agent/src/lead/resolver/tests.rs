//! Looking up names against a name server of our own on loopback.

use super::*;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SOA};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::UdpSocket;

const LATE: &str = "hello-0.hello.team.svc.cluster.local";

/// Asks only the name server at `address`, with `search` as the search list and names of five dots complete.
async fn lookup_at(address: SocketAddr, search: &[&str], name: &str) -> Result<Vec<IpAddr>> {
    let (mut udp, mut tcp) = (ConnectionConfig::udp(), ConnectionConfig::tcp());
    (udp.port, tcp.port) = (address.port(), address.port());
    let server = NameServerConfig::new(address.ip(), true, vec![udp, tcp]);
    let search = search.iter().map(|name| Name::from_ascii(name).unwrap()).collect();
    let configuration = ResolverConfig::from_parts(None, search, vec![server]);
    let provider = TokioRuntimeProvider::default();
    let mut builder = TokioResolver::builder_with_config(configuration, provider);
    builder.options_mut().ndots = 5;
    lookup_by(builder, name).await
}

/// A name server that remembers what it was asked, and knows [`LATE`] from the second question for it on.
struct NameServer {
    address: SocketAddr,
    questions: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    async fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: socket.local_addr().unwrap(), questions: Arc::default() };
        let questions = Arc::clone(&server.questions);
        tokio::spawn(async move {
            let mut buffer = [0; 1500];
            loop {
                let (length, client) = socket.recv_from(&mut buffer).await.unwrap();
                let request = Message::from_vec(&buffer[..length]).unwrap();
                let query = request.queries[0].clone();
                let question = format!("{} {}", query.name(), query.query_type());
                let reply = reply(&request, questions.lock().unwrap().contains(&question));
                questions.lock().unwrap().push(question);
                socket.send_to(&reply.to_vec().unwrap(), client).await.unwrap();
            }
        });
        server
    }

    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>> {
        lookup_at(self.address, &["cluster.local."], name).await
    }

    fn questions(&self) -> Vec<String> {
        self.questions.lock().unwrap().clone()
    }
}

fn reply(request: &Message, late_name_exists: bool) -> Message {
    let query = request.queries[0].clone();
    let name = query.name().to_string();
    let name = name.trim_end_matches('.');
    let data = match (name, query.query_type()) {
        (LATE, RecordType::A) if late_name_exists => Some(RData::A(A::new(10, 244, 1, 7))),
        ("lead.team.svc.cluster.local", RecordType::A) => Some(RData::A(A::new(10, 244, 1, 9))),
        ("both.example", RecordType::A) => Some(RData::A(A::new(10, 244, 1, 8))),
        ("six.example" | "both.example", RecordType::AAAA) => {
            Some(RData::AAAA("fd00::7".parse::<AAAA>().unwrap()))
        }
        _ => None,
    };
    let mut reply = Message::response(request.metadata.id, request.metadata.op_code);
    reply.add_query(query.clone());
    if let Some(data) = data {
        reply.add_answer(Record::from_rdata(query.name().clone(), 30, data));
        return reply;
    }
    if name == "lead.team.svc" {
        // As a name server of the cluster that has nobody to ask about other names.
        reply.metadata.response_code = ResponseCode::ServFail;
        return reply;
    }
    if name != "six.example" {
        reply.metadata.response_code = ResponseCode::NXDomain;
    }
    // A negative answer that may be remembered for 30 s (RFC 2308).
    let zone = Name::from_ascii("cluster.local.").unwrap();
    let soa = SOA::new(zone.clone(), zone.clone(), 1, 30, 30, 30, 30);
    reply.add_authority(Record::from_rdata(zone, 30, RData::SOA(soa)));
    reply
}

fn addresses<const COUNT: usize>(texts: [&str; COUNT]) -> [IpAddr; COUNT] {
    texts.map(|text| text.parse().unwrap())
}

#[tokio::test]
async fn a_name_that_appears_is_seen_at_once_although_its_absence_could_be_remembered() {
    let server = NameServer::start().await;
    let error = server.lookup(LATE).await.unwrap_err();
    assert_eq!(error.to_string(), format!("name {LATE}. does not exist in DNS (yet)"));
    let mut questions = server.questions();
    questions.sort();
    assert_eq!(questions, [format!("{LATE}. A"), format!("{LATE}. AAAA")], "it is complete");
    assert_eq!(server.lookup(LATE).await.unwrap(), addresses(["10.244.1.7"]));
}

#[tokio::test]
async fn a_host_is_found_by_its_short_name_and_by_all_kinds_of_address_that_it_has() {
    let server = NameServer::start().await;
    for (name, expected) in [
        // In the search list, though the absolute name fails; libc and libzmq find it, too.
        ("lead.team.svc", &["10.244.1.9"][..]),
        // A pod may have a way to one kind only, and none to the other.
        ("six.example.", &["fd00::7"]),
        ("both.example.", &["10.244.1.8", "fd00::7"]),
    ] {
        let found = server.lookup(name).await.unwrap();
        assert_eq!(found.iter().map(IpAddr::to_string).collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn neither_the_hosts_file_nor_an_address_needs_a_name_server() {
    let server = NameServer::start().await;
    let found = server.lookup("localhost").await.unwrap();
    assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    assert_eq!(server.lookup("fd00::7").await.unwrap(), addresses(["fd00::7"]));
    assert!(server.questions().is_empty());
}

#[tokio::test]
async fn a_name_server_that_is_not_there_is_a_failure_and_not_an_unknown_name() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let error = lookup_at(address, &[], LATE).await.unwrap_err().to_string();
    let failures = ["could not look up ", "the name servers gave no answer for "];
    assert!(failures.iter().any(|failure| error.starts_with(failure)), "{error}");
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
async fn every_server_is_asked_and_says_what_it_knows_under_which_name() {
    let (first, second) = (NameServer::start().await, NameServer::start().await);
    // The first of them has been asked for the name before, and knows it since.
    let _ = first.lookup(LATE).await;
    let servers = [&first, &second].map(|server| {
        let mut udp = ConnectionConfig::udp();
        udp.port = server.address.port();
        NameServerConfig::new(server.address.ip(), true, vec![udp])
    });
    let search = vec![Name::from_ascii("team.svc.cluster.local.").unwrap()];
    let config = ResolverConfig::from_parts(None, search, servers.into());
    let mut hosts = Hosts::default();
    hosts.read_hosts_conf("10.1.2.3 hello-0.hello\n".as_bytes()).unwrap();
    let mut options = ResolverOpts::default();
    options.ndots = 5;
    let found = resolution_by(config, &options, &hosts, "hello-0.hello").await.unwrap();
    assert_eq!(found.hosts, ["10.1.2.3".parse::<IpAddr>().unwrap()]);
    let [known, unknown] = &found.servers[..] else { panic!("{found:?}") };
    assert_eq!(known.name.as_deref(), Some(format!("{LATE}.").as_str()), "{known:?}");
    assert!(!known.addresses.is_empty() && known.error.is_none(), "{known:?}");
    assert!(unknown.addresses.is_empty() && unknown.error.is_some(), "{unknown:?}");
    assert!(found.is_known());
}

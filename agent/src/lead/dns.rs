//! A question to one name server (RFC 1035): over UDP, and over TCP if the answer is longer than UDP allows.

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, SimpleDnsError, TYPE};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// How long a name server has for an answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes of the longest answer over UDP without extensions.
const LONGEST_DATAGRAM: usize = 512;

/// Why a name server gives no addresses.
#[derive(Debug, thiserror::Error)]
pub(super) enum DnsError {
    #[error("the name does not exist, or has no addresses")]
    NotFound,
    #[error("no answer within {} s", TIMEOUT.as_secs())]
    Silent,
    #[error("talk to the name server")]
    Exchange(#[from] io::Error),
    #[error("the name server answers with {0:?}")]
    Refused(RCODE),
    #[error("this is no message of DNS")]
    Message(#[from] SimpleDnsError),
}

/// The addresses of the complete `name`, first those of IPv4, by the name server at `server`.
pub(super) async fn addresses(server: SocketAddr, name: &str) -> Result<Vec<IpAddr>, DnsError> {
    let of = |kind| async move {
        let asked = timeout(TIMEOUT, addresses_of_kind(server, name, kind)).await;
        asked.unwrap_or(Err(DnsError::Silent))
    };
    let found = match tokio::join!(of(TYPE::A), of(TYPE::AAAA)) {
        (Ok(four), Ok(six)) => [four, six].concat(),
        // One kind is enough.
        (Ok(found), Err(_)) | (Err(_), Ok(found)) if !found.is_empty() => found,
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    if found.is_empty() { Err(DnsError::NotFound) } else { Ok(found) }
}

async fn addresses_of_kind(
    server: SocketAddr,
    name: &str,
    kind: TYPE,
) -> Result<Vec<IpAddr>, DnsError> {
    let random = getrandom::u32().map_err(|error| io::Error::other(error.to_string()))?;
    let [one, two, ..] = random.to_be_bytes();
    let mut question = Packet::new_query(u16::from_be_bytes([one, two]));
    question.set_flags(PacketFlag::RECURSION_DESIRED);
    question.questions.push(Question::new(Name::new(name)?, kind.into(), CLASS::IN.into(), false));
    let mut answer = by_udp(server, &question).await?;
    if Packet::parse(&answer)?.has_flags(PacketFlag::TRUNCATION) {
        answer = by_tcp(server, &question).await?;
    }
    let answer = Packet::parse(&answer)?;
    if ![RCODE::NoError, RCODE::NameError].contains(&answer.rcode()) {
        return Err(DnsError::Refused(answer.rcode()));
    }
    // An alias comes with the records of the name that it stands for.
    let records = answer.answers.iter().filter_map(|record| {
        if let RData::A(found) = &record.rdata {
            return Some(Ipv4Addr::from(found.address).into());
        }
        let RData::AAAA(found) = &record.rdata else { return None };
        Some(Ipv6Addr::from(found.address).into())
    });
    Ok(records.collect())
}

async fn by_udp(server: SocketAddr, question: &Packet<'_>) -> Result<Vec<u8>, DnsError> {
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    // From here on the kernel drops datagrams of others.
    socket.connect(server).await?;
    socket.send(&question.build_bytes_vec()?).await?;
    let mut answer = vec![0; LONGEST_DATAGRAM];
    loop {
        let length = socket.recv(&mut answer).await?;
        if answers(&answer[..length], question) {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn by_tcp(server: SocketAddr, question: &Packet<'_>) -> Result<Vec<u8>, DnsError> {
    let mut stream = TcpStream::connect(server).await?;
    let text = question.build_bytes_vec()?;
    stream.write_u16(text.len().try_into().unwrap_or(u16::MAX)).await?;
    stream.write_all(&text).await?;
    let mut answer = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Whether this is the answer to `question`, and not to an earlier one or to that of a liar.
fn answers(answer: &[u8], question: &Packet<'_>) -> bool {
    let same = |one: &Question<'_>, other: &Question<'_>| {
        let names = [one, other].map(|it| it.qname.to_string().to_ascii_lowercase());
        names[0] == names[1] && one.qtype == other.qtype
    };
    Packet::parse(answer).is_ok_and(|answer| {
        answer.id() == question.id()
            && answer.has_flags(PacketFlag::RESPONSE)
            && answer.questions.iter().zip(&question.questions).any(|(one, other)| same(one, other))
    })
}

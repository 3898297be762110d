//! Asks the cluster's DNS one question, to see whether it answers.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use super::network::Network;

const QUESTION_ID: [u8; 2] = [0x66, 0x6c];
const PATIENCE: Duration = Duration::from_millis(500);

/// The record types A (RFC 1035) and AAAA (RFC 3596).
const TYPE_A: u8 = 1;
const TYPE_AAAA: u8 = 28;

/// Asks for the API server's Service; the calling thread must be in the node's network.
pub(crate) fn ask(network: &Network) -> Result<()> {
    let server = network.usual().dns;
    let address: IpAddr = server.parse().context("reading the DNS's address")?;
    let (any, kind) = match address {
        IpAddr::V4(_) => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), TYPE_A),
        IpAddr::V6(_) => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), TYPE_AAAA),
    };
    let name = network.api_name();
    let socket = UdpSocket::bind((any, 0)).context("opening a UDP socket")?;
    socket.set_read_timeout(Some(PATIENCE)).context("setting a time limit")?;
    socket
        .send_to(&question(&name, kind), (address, 53))
        .with_context(|| format!("asking the DNS at {server}"))?;
    let mut answer = [0; 512];
    let length =
        socket.recv(&mut answer).with_context(|| format!("waiting for the DNS at {server}"))?;
    check(&answer[..length], &name)
}

/// A question for addresses of a record type as in RFC 1035 section 4.1.
fn question(name: &str, kind: u8) -> Vec<u8> {
    let mut message = QUESTION_ID.to_vec();
    // A standard query, recursion desired, with one question.
    message.extend([0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.split('.') {
        message.extend(u8::try_from(label.len()));
        message.extend(label.as_bytes());
    }
    // The root label, the type, class IN.
    message.extend([0, 0, kind, 0, 1]);
    message
}

fn check(answer: &[u8], name: &str) -> Result<()> {
    if answer.len() < 12 || answer[..2] != QUESTION_ID {
        bail!("the DNS sent something that is no answer to the question");
    }
    let code = answer[3] & 0x0f;
    let addresses = u16::from_be_bytes([answer[6], answer[7]]);
    if code != 0 || addresses == 0 {
        bail!("the DNS knows no {name}: response code {code}, {addresses} answers");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_written_as_the_rfc_says() {
        let expected =
            b"\x66\x6c\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x02bc\x00\x00\x01\x00\x01";
        assert_eq!(question("a.bc", TYPE_A), expected);
    }

    #[test]
    fn only_an_answer_with_an_address_will_do() {
        let header = |code: u8, answers: u8| [0x66, 0x6c, 0x81, code, 0, 1, 0, answers, 0, 0, 0, 0];
        let check = |answer: &[u8]| check(answer, "a.bc");
        assert!(check(&header(0, 1)).is_ok());
        assert!(check(&header(3, 0)).is_err());
        assert!(check(&header(0, 0)).is_err());
        assert!(check(b"short").is_err());
    }
}

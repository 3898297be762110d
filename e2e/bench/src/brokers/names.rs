//! A name server that knows every pod of a round, and counts the questions.

use super::network::{GATEWAY, address};
use anyhow::{Context as _, Result};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// First part of the names of pods, before their index.
pub(super) const PREFIX: &str = "bench-";

/// Answers in the background for `count` pods; the result is the number of questions.
pub(super) fn serve(count: u16) -> Result<Arc<AtomicU32>> {
    let socket = UdpSocket::bind((GATEWAY, 53)).context("opening the port of a name server")?;
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut question) {
            counter.fetch_add(1, Ordering::Relaxed);
            if let Some(answer) = answer(&question[..length], count) {
                // A client without an answer asks again.
                let _ = socket.send_to(&answer, client);
            }
        }
    });
    Ok(asked)
}

fn answer(question: &[u8], count: u16) -> Option<Vec<u8>> {
    let mut message = Packet::parse(question).ok()?.into_reply();
    message.set_flags(PacketFlag::RECURSION_AVAILABLE | PacketFlag::AUTHORITATIVE_ANSWER);
    let question = message.questions.first()?.clone();
    let host = question.qname.get_labels().first()?.to_string();
    let index = host.strip_prefix(PREFIX).and_then(|index| index.parse::<u16>().ok());
    match index.filter(|index| *index < count) {
        Some(index) if question.qtype == QTYPE::TYPE(TYPE::A) => {
            let data = RData::A(address(index).into());
            message.answers.push(ResourceRecord::new(question.qname, CLASS::IN, 30, data));
        }
        Some(_) => {}
        None => *message.rcode_mut() = RCODE::NameError,
    }
    message.build_bytes_vec().ok()
}

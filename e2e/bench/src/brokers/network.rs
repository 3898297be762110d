//! The network of a round: a namespace for each pod, a link from it to the round's own, and routes between these. No
//! address is asked for by broadcast, so that the links cost nothing that grows with the square of their number.

use anyhow::{Context as _, Result};
use e2e::programs;
use fs_err as fs;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::process::Command;

/// The round's own address, where its name server is.
pub(super) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// A second address of the lead, as that of its Service.
pub(super) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

pub(super) fn address(index: u16) -> Ipv4Addr {
    let [high, low] = index.to_be_bytes();
    Ipv4Addr::new(10, 64, high, low)
}

/// The address of a link's end: 0 in the round's namespace, 1 in the pod's.
fn link_address(end: u8, index: u16) -> String {
    let [high, low] = index.to_be_bytes();
    format!("02:00:00:{end:02x}:{high:02x}:{low:02x}")
}

fn addresses(index: u16) -> impl Iterator<Item = Ipv4Addr> {
    [address(index)].into_iter().chain((index == 0).then_some(SERVICE))
}

/// Makes the namespaces and the round's ends of their links; packets from and to the lead take `delay`.
pub(super) fn make(count: u16, delay: Option<&str>) -> Result<()> {
    let mut lines = format!("link set lo up\naddress add {GATEWAY}/32 dev lo\n");
    for index in 0..count {
        let ends = [0, 1].map(|end| link_address(end, index));
        let made = write!(
            lines,
            "netns add pod{index}\n\
             link add pod{index} address {} type veth peer name eth0 address {} netns pod{index}\n\
             link set pod{index} up\n",
            ends[0], ends[1]
        );
        made.context("writing a text")?;
        for address in addresses(index) {
            lines.push_str(&route(&address.to_string(), &format!("pod{index}"), &ends[1]));
        }
    }
    programs::run_with_input(Command::new("ip").args(["-batch", "-"]), lines.as_bytes())?;
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    let Some(delay) = delay else { return Ok(()) };
    for place in
        [&["qdisc", "add", "dev", "pod0"][..], &["-n", "pod0", "qdisc", "add", "dev", "eth0"]]
    {
        let netem = ["root", "netem", "limit", "100000", "delay", delay];
        programs::run(Command::new("tc").args(place).args(netem))
            .context("delaying packets, which needs netem (sch_netem) in the kernel")?;
    }
    Ok(())
}

/// What `ip -batch` does in the namespace of the pod with this index.
pub(super) fn of_pod(index: u16) -> String {
    let own = addresses(index).map(|address| format!("address add {address}/32 dev eth0\n"));
    let gateway = route(&GATEWAY.to_string(), "eth0", &link_address(0, index));
    let own = own.collect::<String>();
    let default = format!("route add default via {GATEWAY} dev eth0\n");
    ["link set lo up\nlink set eth0 up\n", &own, &gateway, &default].concat()
}

/// A route to `address` over a link whose other end has the address `at`. Such a neighbour does not count towards the
/// kernel's limit of 1,024.
fn route(address: &str, link: &str, at: &str) -> String {
    format!(
        "route add {address} dev {link}\nneigh add {address} lladdr {at} dev {link} nud permanent\n"
    )
}

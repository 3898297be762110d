//! Flux itself, and bursting.

use crate::support::{CERTIFICATE, faults};
use crate::validate::good;
use flux_contract::Bootstrap;
use flux_operator::cluster::Curve;
use serde_json::json;

#[test]
fn an_empty_connect_timeout_leaves_it_to_flux() {
    assert_eq!(good(json!({})).flux.broker.connect_timeout.as_deref(), Some("5s"));
    assert_eq!(good(json!({ "flux": { "connectTimeout": "" } })).flux.broker.connect_timeout, None);
}

#[test]
fn the_certificate_is_made_given_or_in_a_secret_and_never_shown() {
    assert_eq!(good(json!({})).flux.curve, Curve::Generate);
    let curve = good(json!({ "flux": { "curveCertSecret": "mine" } })).flux.curve;
    assert_eq!(curve, Curve::Secret("mine".to_owned()));
    let curve = good(json!({ "flux": { "curveCert": CERTIFICATE } })).flux.curve;
    assert!(matches!(&curve, Curve::Given(text) if text.expose() == CERTIFICATE));
    assert!(!format!("{curve:?}").contains("secret-key"));
    let half = CERTIFICATE.replace("secret-key", "secret+key");
    let fault = faults(&json!({ "flux": { "curveCert": half } })).concat();
    assert!(!fault.contains("D:)Q"), "{fault}");
}

#[test]
fn the_root_of_a_burst_lists_its_own_hosts_then_the_clusters() {
    let bursting = json!({ "clusters": [{ "size": 2 }, { "name": "other" }, {}] });
    let flux = good(json!({ "flux": { "bursting": bursting } })).flux;
    let Bootstrap::Root { hosts } = flux.bootstrap else { panic!("{:?}", flux.bootstrap) };
    assert_eq!(hosts.to_string(), "hello-[0-3],burst-0-[0-1],other-[0-3],burst-2-[0-3]");
}

#[test]
fn a_burst_cluster_lists_the_lead_by_its_host_name() {
    let lead = json!({ "name": "root", "address": "24.123.50.123", "port": 30093, "size": 3 });
    let clusters = json!([{ "name": "hello", "size": 4 }]);
    for flux in [
        json!({ "bursting": { "leadBroker": lead, "clusters": clusters } }),
        json!({ "leadBroker": lead, "bursting": { "clusters": clusters } }),
    ] {
        let flux = good(json!({ "flux": flux })).flux;
        let Bootstrap::Child { lead, lead_port, hosts } = flux.bootstrap else { panic!() };
        assert_eq!(hosts.to_string(), "root-[0-2],hello-[0-3]");
        assert_eq!((lead.as_str(), lead_port), ("24.123.50.123", 30093));
    }
    let alone = json!({ "name": "root", "address": "a", "size": 1 });
    let flux = json!({ "bursting": { "leadBroker": alone, "clusters": clusters } });
    assert_eq!(
        good(json!({ "flux": flux })).flux.bootstrap.hosts().to_string(),
        "root-0,hello-[0-3]"
    );
}

#[test]
fn a_given_hostlist_is_taken_as_it_is_wherever_it_is_given() {
    let hosts = "root-[0-3],hello-[0-3]";
    let lead = json!({ "address": "lead.test", "hostlist": hosts });
    let beside = json!({ "leadBroker": { "address": "lead.test" }, "hostlist": hosts });
    for flux in [json!({ "leadBroker": lead }), json!({ "bursting": beside })] {
        let flux = good(json!({ "flux": flux })).flux;
        assert_eq!(flux.bootstrap.hosts().to_string(), hosts);
        assert!(matches!(flux.bootstrap, Bootstrap::Child { lead_port: 8050, .. }));
    }
    let flux =
        good(json!({ "flux": { "bursting": { "hostlist": "hello-[0-3],gffw-a-[001-003]" } } }))
            .flux;
    assert_eq!(flux.bootstrap.hosts().to_string(), "hello-[0-3],gffw-a-[001-003]");
}

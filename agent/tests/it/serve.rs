//! `flux-agent serve`: what `flux-rest` gets, a script here that prints that.

use crate::prelude::*;
use flux_contract::token::fingerprint;
use flux_contract::{AGENT_CONFIG_PATH, REST_TLS_MOUNT, Rest, ServedInstance, ServedTokens};
use nix::unistd::getuid;
use std::os::unix::fs::chown;

const TOKEN: &str = "0123456789abcdef";
/// The user whose broker it is.
const OWNER: u32 = 1000;

/// Calls `flux-agent serve`, where the API of the instance is `rest`: the user who `flux-rest` is, and the instance that it
/// gets. The broker belongs to `owner`, or to the user of the test.
fn served(
    pod: &Pod,
    owner: Option<u32>,
    options: &[&str],
    rest: Option<Rest>,
) -> (String, ServedInstance) {
    pod.write_config(&AgentConfig { rest, ..pod.config(&["true"]) });
    pod.write_executable("mnt/flux/bin/flux-rest", "#!/bin/sh\nid -u\necho \"$1\"\n");
    let socket = pod.layout().local_socket();
    broker_in_state(&socket, "run");
    chown(&socket, owner, owner).unwrap();
    let ended = pod.ask("serve", options).with_code(0);
    let (user, instance) = ended.output.split_once('\n').unwrap();
    (user.to_owned(), serde_json::from_str(instance).unwrap())
}

#[test]
fn flux_rest_gets_all_that_it_needs_of_the_pod() {
    let pod = Pod::new();
    let options = ["--listen", "[::]:80", "--until-input-ends"];
    let (user, instance) = served(&pod, None, &options, None);
    assert_eq!(user, getuid().to_string());
    assert_eq!((instance.cluster.as_str(), instance.validated), ("hello", false));
    assert_eq!(instance.broker, pod.layout().local_socket());
    assert_eq!(instance.agent, Path::new(&pod.layout().agent_status()));
    assert_eq!(instance.users, pod.at("etc/passwd"));
    assert!(instance.limits["nofile"] != 0 && instance.limits.len() == 9);
    assert_eq!(instance.listen.to_string(), "[::]:80");
    assert!(instance.until_input_ends);
    assert_eq!((instance.tokens, instance.tls), (ServedTokens::New, None));
}

#[test]
fn flux_rest_serves_as_it_is_configured() {
    let pod = Pod::new();
    let options = ["--as-configured"];
    for tls in [false, true] {
        let rest = Some(Rest { port: 8080, tls, ..Rest::default() });
        let (_, instance) = served(&pod, None, &options, rest);
        assert_eq!(instance.listen.to_string(), "[::]:8080");
        let document = ServedTokens::Config(pod.at(AGENT_CONFIG_PATH.trim_start_matches('/')));
        let certificate = tls.then(|| pod.at(REST_TLS_MOUNT.trim_start_matches('/')));
        assert_eq!((instance.tokens, instance.tls), (document, certificate));
    }
    pod.write_config(&pod.config(&["true"]));
    let ended = pod.ask("serve", &options).with_code(Exit::Config.code());
    ended.with_log("set flux.rest, or leave out --as-configured");
}

#[test]
fn root_reads_the_token_and_becomes_the_owner_of_the_broker() {
    let Some(pod) = Pod::of_root() else { return };
    let file = pod.at("token");
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let options = ["--token-file", &file.display().to_string()];
    let (user, instance) = served(&pod, Some(OWNER), &options, None);
    let tokens = ServedTokens::Sha256(fingerprint(TOKEN));
    assert_eq!((user, instance.tokens), (OWNER.to_string(), tokens));
}

#[test]
fn without_flux_rest_the_error_has_its_place_and_a_remedy() {
    let pod = Pod::new();
    pod.write_config(&pod.config(&["true"]));
    broker_in_state(pod.layout().local_socket(), "run");
    let ended: Ended = pod.ask("serve", &[]).with_code(Exit::Prepare.code());
    let place = pod.at("mnt/flux/bin/flux-rest");
    ended.with_log(&place.display().to_string()).with_log("from the image of the agent");
}

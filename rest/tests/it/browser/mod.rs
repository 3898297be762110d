//! The page of an instance in a real browser, with a recorded instance behind it, which changes as the tests say. `cargo verify` has Debian's Chromium; by hand, with `chromedriver` and its browser in PATH:
//!
//! `cargo test -p flux-rest --test it browser:: -- --ignored`

mod webdriver;

use crate::broker::broker_that;
use crate::instance::Instance;
use crate::server::{Background, Place, READER, TOKEN, program, served};
use flux_contract::{Phase, ServedInstance, ServedTokens, phase};
use flux_protocol::job_id::f58_plain;
use serde_json::json;
use std::env;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use webdriver::Browser;

const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");
/// Bytes that a picture may have.
const PICTURE_LIMIT: usize = 150_000;

/// A person before the page of an instance.
struct Scene {
    browser: Browser,
    instance: Arc<Instance>,
    server: Background,
    address: SocketAddr,
    place: Place,
}

impl Scene {
    fn open() -> Self {
        let place = Place::new();
        let users = "root:x:0:0::/root:/bin/sh\nflux:x:1000:1000::/:/bin/sh\n";
        fs::write(place.at("passwd"), users).unwrap();
        fs::write(place.at("agent"), json!({ "phases": phases() }).to_string()).unwrap();
        let instance =
            Arc::new(Instance::new(true, |number| 37_346_082_816 + 6_324_924_416 * number));
        let broker = Arc::clone(&instance);
        broker_that(place.at("broker"), move |topic, payload| broker.answer(topic, payload));
        let (server, address) = served(&place.instance());
        let browser = Browser::start();
        // The token leaves the address, and stays with the tab.
        for address in [format!("http://{address}/#token={TOKEN}"), format!("http://{address}/")] {
            browser.open(&address);
            browser.awaits("data('body', 'connection') + location.search + location.hash", "good");
        }
        Self { browser, instance, server, address, place }
    }

    /// Submits a job by the form, and returns its id, which the page shows then.
    fn submit(&self, command: &str, tasks: &str) -> u64 {
        self.browser.click("#new");
        self.browser.write("[name=command]", command);
        self.browser.write("[name=num_tasks]", tasks);
        self.browser.click("#submit-now");
        self.browser.awaits("document.querySelector('#submit').open", false);
        let (id, _) = self.instance.newest();
        self.browser.awaits("text('#job-id')", f58_plain(id));
        self.browser.awaits("data('#what', 'look')", "pending");
        id
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let complaints = self.browser.complaints();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

/// The phases of a start. The last of them runs.
fn phases() -> Vec<Phase> {
    let mut start_milliseconds = 0;
    let phases =
        [(phase::PREPARE, 180), (phase::HOOKS, 640), (phase::QUORUM, 2310), (phase::COMMAND, 0)];
    let phases = phases.map(|(name, duration_milliseconds)| {
        let phase = Phase { name: name.to_owned(), start_milliseconds, duration_milliseconds };
        start_milliseconds += duration_milliseconds;
        phase
    });
    phases.into()
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_job_is_submitted_seen_to_run_and_read() {
    let scene = Scene::open();
    let Scene { browser, instance, .. } = &scene;
    browser.awaits("[text('#name'), data('#state', 'state')]", json!(["hello", "run"]));
    let phases = "all('#timeline li span').map(it => it.textContent)";
    browser.awaits(phases, json!(["prepare", "hooks", "quorum"]));
    let id = scene.submit("echo 'one two'", "2");
    let (_, jobspec) = instance.newest();
    assert_eq!(jobspec["tasks"][0]["command"], json!(["echo", "one two"]));
    instance.run(id, &[1, 2]);
    browser.awaits("data('#what', 'look')", "running");
    browser.awaits("all('.tile[data-ours=yes]').map(it => it.dataset.rank)", json!(["1", "2"]));
    browser.awaits("text('#cores')", "8 of 16");
    instance.print(id, 0, "stdout", "<b>one</b>\n");
    instance.print(id, 1, "stderr", "two\n");
    let lines = "all('#lines p').map(it => [it.className, it.dataset.rank, it.textContent])";
    // What a job prints is text, whatever it looks like.
    browser.awaits(lines, json!([["stdout", "0", "<b>one</b>"], ["stderr", "1", "two"]]));
    instance.end(id, 3);
    browser.awaits("data('#what', 'look')", "failed");
    browser.awaits("text('#why')", "failed: exit code 3");
    let row = format!(".row[data-job={}]", f58_plain(id));
    let row = format!("['look', 'state'].map(it => data('{row}', it))");
    browser.awaits(&row, json!(["failed", "INACTIVE"]));
    browser.click("#events-tab");
    browser.awaits("text('#events li:last-child b')", "clean");
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn the_list_of_jobs_is_filtered_by_state_text_and_rank() {
    let scene = Scene::open();
    let Scene { browser, instance, .. } = &scene;
    let ids = ["sleep 1", "sleep 2", "hostname"].map(|command| scene.submit(command, "1"));
    instance.run(ids[0], &[0]);
    instance.run(ids[1], &[3]);
    instance.run(ids[2], &[2]);
    instance.end(ids[2], 0);
    let rows =
        "all('.row').sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map(it => it.dataset.job)";
    let [first, second, third] = ids.map(f58_plain);
    browser.awaits(rows, json!([third, second, first]));
    browser.click("#states [data-filter=running]");
    browser.awaits(rows, json!([second, first]));
    browser.click(".tile[data-rank='3']");
    browser.awaits("document.querySelector('#filter').value", "rank:3");
    browser.awaits(rows, json!([second]));
    browser.write("#filter", "hostname completed");
    browser.awaits(rows, json!([third]));
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_form_that_is_wrong_says_so_beside_its_fields() {
    let scene = Scene::open();
    let browser = &scene.browser;
    browser.click("#new");
    browser.click("#submit-now");
    browser.awaits("text('[data-fault=command]')", "a command is needed");
    browser.write("[name=command]", "hostname");
    browser.write("[name=num_tasks]", "two");
    browser.click("#submit-now");
    browser.awaits("text('[data-fault=num_tasks]')", "a whole number");
    browser.awaits("text('[data-fault=command]')", "");
    browser.write("[name=num_tasks]", "2");
    browser.click("#advanced summary");
    browser.write("[name=urgency]", "32");
    browser.click("#submit-now");
    // This is what the server says.
    let refused = "urgency: 32 is no whole number in 0..31";
    browser.awaits("text('[data-fault=urgency]')", refused);
    browser
        .awaits("[document.querySelector('#submit').open, all('.row').length]", json!([true, 0]));
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_job_is_cancelled_by_who_says_so_twice() {
    let scene = Scene::open();
    let Scene { browser, instance, .. } = &scene;
    let id = scene.submit("sleep 300", "1");
    instance.run(id, &[0]);
    browser.awaits("data('#what', 'look')", "running");
    browser.click("#cancel");
    browser.awaits("text('#cancel')", "Really cancel?");
    assert!(instance.is_running(id));
    browser.click("#cancel");
    browser.awaits("text('#message')", format!("Cancel of {} requested", f58_plain(id)));
    browser.awaits("data('#what', 'look')", "canceled");
    browser.awaits("document.querySelector('#cancel').disabled", true);
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_token_that_reads_has_no_form_and_cancels_nothing() {
    let scene = Scene::open();
    let Scene { browser, instance, address, .. } = &scene;
    let id = scene.submit("sleep 300", "1");
    instance.run(id, &[0]);
    // Another token in the same tab replaces the first.
    browser.open(&format!("http://{address}/#token={READER}"));
    browser.awaits("data('body', 'connection') + location.hash", "good");
    let disabled = "['new', 'cancel'].map(it => document.querySelector(`#${it}`).disabled)";
    browser.click(&format!(".row[data-job={}]", f58_plain(id)));
    browser.awaits("data('#what', 'look')", "running");
    browser.awaits(disabled, json!([true, true]));
    let title = "document.querySelector('#new').title";
    browser.awaits(&format!("{title}.startsWith('This token may only read')"), true);
    browser.awaits("text('#cores')", "4 of 16");
    assert!(instance.is_running(id));
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_code_in_the_address_is_exchanged_for_the_token() {
    let scene = Scene::open();
    let instance = ServedInstance { tokens: ServedTokens::New, ..scene.place.instance() };
    let mut server = Background::start(program(&instance));
    let printed = server.line();
    let (page, secrets) = printed.split_once('#').unwrap();
    let (_, code) = secrets.split_once('&').unwrap();
    scene.browser.open(&format!("{page}#{code}"));
    scene.browser.awaits("data('body', 'connection') + location.hash", "good");
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_rank_is_seen_to_be_drained_lost_and_there_again() {
    let scene = Scene::open();
    let Scene { browser, instance, .. } = &scene;
    let states = "all('.tile').map(it => it.dataset.state)";
    let numbers = "['size', 'up', 'lost', 'drained'].map(it => text(`#${it}`))";
    browser.awaits(states, json!(["up", "up", "up", "up"]));
    browser.awaits(numbers, json!(["4", "4", "0", "0"]));
    instance.drain(2, "bad fan");
    browser.awaits(states, json!(["up", "up", "drained", "up"]));
    browser.awaits("text('.tile[data-rank=\"2\"] .said')", "drained: bad fan");
    instance.lose(3);
    browser.awaits(states, json!(["up", "up", "drained", "lost"]));
    browser.awaits(numbers, json!(["4", "3", "1", "1"]));
    instance.regain(3);
    instance.undrain(2);
    browser.awaits(states, json!(["up", "up", "up", "up"]));
    browser.awaits(numbers, json!(["4", "4", "0", "0"]));
}

#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn a_page_that_has_lost_its_server_says_so_and_goes_on_when_there_is_one_again() {
    let mut scene = Scene::open();
    scene.server.0.kill().unwrap();
    scene.server.0.wait().unwrap();
    scene.browser.awaits("data('body', 'connection')", "none");
    scene.browser.awaits("text('#connection').startsWith('No connection since ')", true);
    scene.instance.drain(1, "bad fan");
    let instance = ServedInstance { listen: scene.address, ..scene.place.instance() };
    scene.server = Background::start(program(&instance));
    scene.browser.awaits("data('body', 'connection')", "good");
    scene.browser.awaits("data('.tile[data-rank=\"1\"]', 'state')", "drained");
}

/// What `docs/pictures` shows; `UPDATE_EXPECT=1` writes the pictures anew.
#[test]
#[ignore = "needs Chromium, which `cargo verify` has"]
fn the_page_is_light_or_dark_as_the_user_prefers() {
    let scene = Scene::open();
    let Scene { browser, instance, .. } = &scene;
    let done = scene.submit("hostname", "4");
    instance.run(done, &[0, 1, 2, 3]);
    instance.end(done, 0);
    let failed = scene.submit("./prepare --all", "1");
    instance.run(failed, &[1]);
    instance.end(failed, 3);
    let runs = scene.submit("python3 simulate.py --steps 5000", "8");
    instance.run(runs, &[0, 1]);
    scene.submit("python3 analyse.py", "16");
    instance.drain(2, "bad fan");
    instance.lose(3);
    for step in 1..8 {
        let text = format!("step {:>4}   energy {:.4}\n", step * 100, 2.5 - 1.0 / f64::from(step));
        instance.print(runs, 0, "stdout", &text);
    }
    instance.print(runs, 3, "stderr", "warning: 2 of 512 neighbour lists are full\n");
    browser.click(&format!(".row[data-job={}]", f58_plain(runs)));
    browser.awaits("all('#lines p').length", 8);
    browser.awaits("[text('#lost'), text('#drained'), text('#message')]", json!(["1", "1", ""]));
    for (colours, background) in [("light", "rgb(245, 244, 241)"), ("dark", "rgb(18, 20, 23)")] {
        browser.prefer(colours);
        browser.awaits("getComputedStyle(document.documentElement).backgroundColor", background);
        let picture = browser.picture();
        assert!(picture.len() <= PICTURE_LIMIT, "{colours}: {} bytes", picture.len());
        if env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(format!("{PICTURES}/page-{colours}.png"), picture).unwrap();
        }
    }
}

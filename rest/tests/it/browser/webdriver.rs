//! A browser by the commands of W3C `WebDriver` (<https://www.w3.org/TR/webdriver2/>) that the tests need. A crate for them
//! would cost more: `fantoccini` needs one under a licence that `deny.toml` does not allow, and `thirtyfour` switches
//! on the feature of `serde_json` that changes the order of the fields in every program and test of the workspace.

use crate::server::{self, Background, PATIENCE};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The field of an element's id.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// Pause between two looks at the page.
const INTERVAL: Duration = Duration::from_millis(20);
/// What an expression may use.
const HELPERS: &str = "const all = it => [...document.querySelectorAll(it)];
    const text = it => document.querySelector(it)?.textContent ?? null;
    const data = (it, name) => document.querySelector(it)?.dataset[name] ?? null;";

/// A Chromium with a profile of its own, which ends with the test.
pub(super) struct Browser {
    address: SocketAddr,
    session: String,
    _driver: Background,
    _home: TempDir,
}

/// How often a driver is started: one ends at once where another program has the port in one family of addresses that
/// the system has given it in the other.
const STARTS: usize = 10;

/// A driver and its address, unless it has ended before it says that.
fn start_driver(home: &Path) -> Option<(Background, SocketAddr)> {
    let mut command = Command::new("chromedriver");
    command.arg("--port=0").env("HOME", home).env("TMPDIR", home);
    let mut driver = Background::start(command);
    let mut lines = BufReader::new(driver.0.stdout.as_mut().unwrap()).lines();
    let port = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, port) = line.split_once("successfully on port ")?;
        port.trim_end_matches('.').parse().ok()
    })?;
    Some((driver, SocketAddr::from(([127, 0, 0, 1], port))))
}

impl Browser {
    pub(super) fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let (driver, address) = (0..STARTS).find_map(|_| start_driver(home.path())).unwrap();
        let profile = format!("--user-data-dir={}", home.path().join("profile").display());
        // Root has no sandbox, and a container little shared memory.
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--hide-scrollbars",
            &profile,
        ];
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let begun = ask(address, "POST", "/session", &wanted);
        let session = begun["sessionId"].as_str().unwrap().to_owned();
        let browser = Self { address, session, _driver: driver, _home: home };
        let size = json!({ "width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        browser.emulate("setDeviceMetricsOverride", &size);
        browser
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        ask(self.address, "POST", &format!("/session/{}/{path}", self.session), body)
    }

    pub(super) fn open(&self, address: &str) {
        self.command("url", &json!({ "url": address }));
    }

    pub(super) fn value(&self, expression: &str) -> Value {
        let script = format!("{HELPERS} return {expression};");
        self.command("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until it is `expected`.
    pub(super) fn awaits(&self, expression: &str, expected: impl Into<Value>) {
        let (expected, deadline) = (expected.into(), Instant::now() + PATIENCE);
        loop {
            let found = self.value(expression);
            if found == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{expression}: {found}, not {expected}");
            park_timeout(INTERVAL);
        }
    }

    /// Does what a person can do to the element, once it is there.
    fn act(&self, element: &str, what: &str, body: &Value) {
        self.awaits(&format!("document.querySelector({}) !== null", json!(element)), true);
        let by = json!({ "using": "css selector", "value": element });
        let found = self.command("element", &by);
        let id = found[ELEMENT].as_str().unwrap();
        self.command(&format!("element/{id}/{what}"), body);
    }

    pub(super) fn click(&self, element: &str) {
        self.act(element, "click", &json!({}));
    }

    /// Writes `text` into a field, in the place of what is there.
    pub(super) fn write(&self, field: &str, text: &str) {
        self.act(field, "clear", &json!({}));
        self.act(field, "value", &json!({ "text": text }));
    }

    /// Asks Chromium to pretend something (Chrome `DevTools` Protocol, the domain `Emulation`).
    fn emulate(&self, what: &str, how: &Value) {
        let body = json!({ "cmd": format!("Emulation.{what}"), "params": how });
        self.command("goog/cdp/execute", &body);
    }

    /// Lets pages know that the user prefers these colours: `light` or `dark`.
    pub(super) fn prefer(&self, colours: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": colours }]);
        self.emulate("setEmulatedMedia", &json!({ "features": features }));
    }

    /// What is seen, as a PNG.
    pub(super) fn picture(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let encoded = ask(self.address, "GET", &path, &Value::Null);
        BASE64_STANDARD.decode(encoded.as_str().unwrap()).unwrap()
    }

    /// What the browser has found wrong with the page: errors of its script, and what its policy forbids. Requests
    /// that fail are not among it.
    pub(super) fn complaints(&self) -> Vec<Value> {
        let log = self.command("se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().unwrap();
        entries.iter().filter(|entry| entry["source"] != "network").cloned().collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser; it may itself have ended.
        let request = format!("DELETE /session/{} HTTP/1.1", self.session);
        let _ = server::ask(self.address, &request, "", "");
    }
}

/// The value that a command is answered with.
fn ask(address: SocketAddr, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let json_type = "Content-Type: application/json\r\n";
    let answer =
        server::ask(address, &format!("{method} {path} HTTP/1.1"), json_type, &body).unwrap();
    assert_eq!(answer.status, 200, "{method} {path} {body}: {answer:?}");
    answer.json()["value"].clone()
}

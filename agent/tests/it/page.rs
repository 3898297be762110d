//! The page of a running instance as a file: it comes alone, and its policy allows its own script and style and no other.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};
use std::env;
use std::fs;
use std::path::Path;

/// What the page has between `start` and `end`.
fn between<'page>(page: &'page str, start: &str, end: &str) -> &'page str {
    let (_, rest) = page.split_once(start).unwrap();
    rest.split_once(end).unwrap().0
}

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-agent --test it page`.
#[test]
fn the_policy_of_the_page_has_the_hashes_of_its_script_and_style() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/page.html");
    let page = fs::read_to_string(&file).unwrap();
    let mut fresh = page.clone();
    let texts = [
        ("script-src ", between(&page, "<script type=\"module\">", "</script>")),
        ("style-src ", between(&page, "<style>", "</style>")),
    ];
    for (directive, text) in texts {
        let hash = BASE64_STANDARD.encode(Sha256::digest(text));
        let old = between(&fresh, directive, ";");
        fresh = fresh.replace(&format!("{directive}{old};"), &format!("{directive}'sha256-{hash}';"));
    }
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&file, &fresh).unwrap();
        return;
    }
    assert!(page == fresh, "script or style changed: UPDATE_EXPECT=1 writes their hashes into the policy");
}

#[test]
fn the_page_asks_no_other_host_and_makes_no_markup_of_text() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/serve/page.html")).unwrap();
    let own = page.replace("xmlns='http://www.w3.org/2000/svg'", "");
    let forbidden = ["http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\""];
    let found = forbidden.into_iter().filter(|text| own.contains(text)).collect::<Vec<_>>();
    assert!(found.is_empty(), "{found:?}");
}

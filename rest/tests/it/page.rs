//! The page of a running instance as a file: it comes alone, and its policy allows its own script and style and no other.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sha2::{Digest as _, Sha256};
use std::env;
use std::fs;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/page.html");

/// Marks of text that becomes markup or code, and of other hosts.
const FORBIDDEN: &str =
    "http:// https:// innerHTML outerHTML insertAdjacentHTML document.write eval( style=\"";

fn between<'page>(page: &'page str, start: &str, end: &str) -> &'page str {
    let (_, rest) = page.split_once(start).unwrap();
    rest.split_once(end).unwrap().0
}

/// The page with the hash of `text` as all that `directive` of its policy allows.
fn allowing(page: &str, directive: &str, text: &str) -> String {
    let old = format!("{directive} {};", between(page, directive, ";").trim());
    let hash = BASE64_STANDARD.encode(Sha256::digest(text));
    page.replace(&old, &format!("{directive} 'sha256-{hash}';"))
}

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-rest --test it page`.
#[test]
fn the_policy_of_the_page_has_the_hashes_of_its_script_and_style() {
    let page = fs::read_to_string(FILE).unwrap();
    let script = between(&page, "<script type=\"module\">", "</script>");
    let style = between(&page, "<style>", "</style>");
    let fresh = allowing(&allowing(&page, "script-src", script), "style-src", style);
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(FILE, fresh).unwrap();
    } else {
        assert!(page == fresh, "script or style changed: UPDATE_EXPECT=1 writes their hashes");
    }
}

#[test]
fn the_page_asks_no_other_host_and_makes_no_markup_of_text() {
    let page = fs::read_to_string(FILE).unwrap();
    let own = page.replace("xmlns='http://www.w3.org/2000/svg'", "");
    let found: Vec<_> = FORBIDDEN.split(' ').filter(|mark| own.contains(mark)).collect();
    assert!(found.is_empty(), "{found:?}");
}

//! The page that explains every field.

use std::path::Path;

#[test]
fn the_page_in_docs_is_the_generated_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/minicluster.md");
    let written = std::fs::read_to_string(file).unwrap_or_default();
    let page = flux_operator::reference::reference().unwrap();
    assert!(
        written == page,
        "docs/minicluster.md is not what the code says: run `cargo run -q -p flux-operator -- reference --output-file docs/minicluster.md`"
    );
}

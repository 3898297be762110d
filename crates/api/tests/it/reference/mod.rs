//! The page about all fields: it is generated.

mod about_examples;
mod fields;
pub(crate) mod page;

/// Written anew by `UPDATE_EXPECT=1 cargo test -p flux-api --test it reference`.
#[test]
fn the_page_in_docs_is_the_generated_one() {
    expect_test::expect_file!["../../../../../docs/minicluster.md"].assert_eq(&page::page());
}

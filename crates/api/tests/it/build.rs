//! All objects that are built of a few MiniClusters, with a snapshot for each file of `clusters`.

use crate::support::{cluster, documents};
use flux_testkit::samples::stored;

#[test]
fn objects_of_each_cluster_are_as_recorded() {
    insta::glob!("clusters/*.yaml", |path| {
        let object = serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let documents = documents(&cluster(&stored(object)));
        let texts: Vec<_> = documents.iter().map(|d| serde_saphyr::to_string(d).unwrap()).collect();
        insta::assert_snapshot!(texts.join("---\n"));
    });
}

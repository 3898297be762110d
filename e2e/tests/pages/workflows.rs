//! What workflows of the repository's host use is what was looked at.

use crate::repository;

#[test]
fn every_action_is_named_by_its_commit() {
    let directory = std::fs::read_dir(repository().join(".github/workflows")).unwrap();
    let mut used = 0;
    for path in directory.map(|entry| entry.unwrap().path()) {
        let text = std::fs::read_to_string(&path).unwrap();
        let actions = text.lines().filter_map(|line| line.split_once("uses: "));
        for (_, action) in actions.filter(|(_, action)| !action.starts_with("./")) {
            let (name, version) = action.split_once(" # v").unwrap_or((action, ""));
            let commit = name.split_once('@').map_or("", |(_, commit)| commit);
            let is_whole = commit.len() == 40 && commit.chars().all(|it| it.is_ascii_hexdigit());
            assert!(is_whole && !version.is_empty(), "{}: {action}", path.display());
            used += 1;
        }
    }
    assert!(used > 10, "only {used} uses of actions were found");
}

//! Names that this plugin gives to MiniClusters.

use anyhow::{Context as _, Result};
use flux_contract::ClusterName;

/// The characters of suffixes, which are hard to confuse: those of Kubernetes.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// `stem` with a random suffix, which replaces the one that it has.
pub(crate) fn random_name(
    stem: &str,
    random: &mut dyn FnMut() -> Result<u32, getrandom::Error>,
) -> Result<String> {
    let mut number = random().context("choose a random name")? as usize;
    let is_suffix =
        |end: &str| end.len() == SUFFIX_LENGTH && end.bytes().all(|it| LETTERS.contains(&it));
    let stem = stem.rsplit_once('-').filter(|(_, end)| is_suffix(end)).map_or(stem, |it| it.0);
    let stem: String = stem.chars().take(ClusterName::LIMIT - SUFFIX_LENGTH - 1).collect();
    let suffix = std::iter::repeat_with(|| {
        let letter = LETTERS[number % LETTERS.len()];
        number /= LETTERS.len();
        char::from(letter)
    });
    let suffix: String = suffix.take(SUFFIX_LENGTH).collect();
    Ok(format!("{}-{suffix}", stem.trim_end_matches('-')))
}

#[cfg(test)]
#[test]
fn a_suffix_replaces_another_and_fits() {
    let name = |stem: &str| random_name(stem, &mut || Ok(1)).unwrap();
    assert_eq!(["lammps", "lammps-x7k2p"].map(name), ["lammps-cbbbb"; 2]);
    assert_eq!(name("hello-world"), "hello-world-cbbbb");
    assert_eq!(name(&"a".repeat(60)).len(), ClusterName::LIMIT);
}

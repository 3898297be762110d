//! Names nobody else has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// A number that differs from call to call and from process to process: the standard library
/// seeds its hashers from the system.
pub(crate) fn number() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// A random UUID (version 4, RFC 9562).
pub(crate) fn random() -> String {
    let (high, low) = (number(), number());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_are_never_the_same() {
        let (one, two) = (super::random(), super::random());
        assert_eq!(one.len(), 36);
        assert_ne!(one, two);
    }
}

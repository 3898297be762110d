//! What the API server has decided about tokens, for a short time, so that a scrape seldom asks it.

use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How many tokens are remembered.
const MOST: usize = 1024;
/// How long a token that may read the metrics is remembered, and one that may not.
const ALLOWED_LIFETIME: Duration = Duration::from_mins(1);
const REFUSED_LIFETIME: Duration = Duration::from_secs(10);

/// What the API server has decided about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its user may read the metrics.
    Allowed,
    /// Its user may not.
    Forbidden,
    /// It is no token of this cluster, or has expired.
    Unauthenticated,
}

/// The verdicts, by a hash of the token: no token stays in memory.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(HashMap<[u8; 32], (Verdict, Instant)>);

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl Verdicts {
    pub(crate) fn get(&self, token: &str, now: Instant) -> Option<Verdict> {
        let (verdict, end) = self.0.get(&hash(token))?;
        (*end > now).then_some(*verdict)
    }

    /// Remembers the verdict. Where there are too many, the one that would be forgotten next makes room.
    pub(crate) fn insert(&mut self, token: &str, verdict: Verdict, now: Instant) {
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, end)| *end > now);
        }
        if self.0.len() >= MOST {
            let next = self.0.iter().min_by_key(|(_, (_, end))| *end).map(|(hash, _)| *hash);
            next.map(|hash| self.0.remove(&hash));
        }
        let is_allowed = verdict == Verdict::Allowed;
        let lifetime = if is_allowed { ALLOWED_LIFETIME } else { REFUSED_LIFETIME };
        self.0.insert(hash(token), (verdict, now + lifetime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_few_and_do_not_last() {
        let begin = Instant::now();
        let mut verdicts = Verdicts::default();
        verdicts.insert("prometheus", Verdict::Allowed, begin);
        verdicts.insert("none", Verdict::Unauthenticated, begin);
        let later = begin + REFUSED_LIFETIME;
        assert_eq!(verdicts.get("none", begin), Some(Verdict::Unauthenticated));
        assert_eq!(verdicts.get("none", later), None);
        assert_eq!(verdicts.get("prometheus", begin + ALLOWED_LIFETIME), None);
        for number in 0..2 * MOST {
            verdicts.insert(&number.to_string(), Verdict::Forbidden, later);
        }
        assert_eq!(verdicts.0.len(), MOST);
        assert_eq!(verdicts.get("prometheus", later), Some(Verdict::Allowed));
    }
}

//! Files that are replaced while a server runs: the kubelet does so some time after a ConfigMap or Secret has changed.

use std::time::Duration;
use tokio::time::sleep;

/// Time from one look at the files to the next. A mounted file gives no sign that every kernel and file system has.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reads again and again, and takes what is new. `report` gets why something cannot be read or taken, once; what was taken
/// before stays in use.
pub async fn follow<Content: PartialEq>(
    read: impl Fn() -> Result<Content, String>,
    take: impl Fn(&Content) -> Result<(), String>,
    report: impl Fn(&str),
) {
    let (mut known, mut fault) = (None, String::new());
    loop {
        sleep(INTERVAL).await;
        let now = match read() {
            Ok(now) if known.as_ref() == Some(&now) => continue,
            Ok(now) => take(&now).map(|()| known = Some(now)),
            Err(why) => Err(why),
        };
        let why = now.err().unwrap_or_default();
        if !why.is_empty() && why != fault {
            report(&format!("{why}; what was read before stays in use"));
        }
        fault = why;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn what_is_new_and_right_is_taken_once() {
        let reads = RefCell::new(vec![Ok(3), Err("gone"), Ok(2), Ok(2), Ok(-1), Ok(1), Ok(1)]);
        let (taken, reported) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let read = || reads.borrow_mut().pop().unwrap_or(Ok(3)).map_err(str::to_owned);
        let take = |now: &i32| {
            taken.borrow_mut().push(*now);
            (*now > 0).then_some(()).ok_or_else(|| "wrong".to_owned())
        };
        let endless = follow(read, take, |why| reported.borrow_mut().push(why.to_owned()));
        assert!(timeout(INTERVAL * 10, endless).await.is_err());
        assert_eq!(*taken.borrow(), [1, -1, 2, 3]);
        let stays = |why| format!("{why}; what was read before stays in use");
        assert_eq!(*reported.borrow(), ["wrong", "gone"].map(stays));
    }
}

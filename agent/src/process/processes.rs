//! The processes that this one sees, as `/proc` has them.

use std::fs;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// The beginning of its program's name.
    pub(crate) name: String,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// When it started, in clock ticks since the machine did: with the id it names one process for good.
    pub(crate) started: u64,
    /// It has ended and waits for its parent, or cannot do anything any more.
    pub(crate) ended: bool,
}

pub(crate) fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        // One that has ended since is not there any more.
        process(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    })
    .collect()
}

/// Reads `/proc/PID/stat` (`proc_pid_stat(5)`). The name, in parentheses, may hold anything.
fn process(pid: i32, stat: &str) -> Option<Process> {
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let session = fields.next()?.parse().ok()?;
    // From the 6th field, the session, to the 22nd.
    let started = fields.nth(15)?.parse().ok()?;
    Some(Process { pid, name: name.to_owned(), parent, group, session, started, ended })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_anything_in_it_is_read_over() {
        let stat = |state: char| {
            format!("42 (a) R 7 (b) {state} 3 41 40 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 8765 1 1")
        };
        let (name, ended) = ("a) R 7 (b".to_owned(), false);
        let read =
            Process { pid: 42, name, parent: 3, group: 41, session: 40, started: 8765, ended };
        assert_eq!(process(42, &stat('S')), Some(read.clone()));
        assert_eq!(process(42, &stat('Z')), Some(Process { ended: true, ..read }));
        assert_eq!(process(42, "42 (a"), None);
        let id = nix::unistd::getpid().as_raw();
        let own = processes().into_iter().find(|process| process.pid == id).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid().as_raw());
    }
}

//! The dump of an instance that runs, made fit to be restored when that instance has ended without a stop.
//!
//! flux-dump(1) writes a snapshot of the key-value store as a tar archive. The jobs of a snapshot may be in the middle of a
//! change. Flux (0.50 to 0.88 were tried) does not start, or never schedules again, with some of them:
//!
//! - A job that is not validated yet: before 0.65 the job manager does not start ("job state (NEW) is invalid after replay").
//! - A job with an `R` and no event `alloc`: the job manager refuses the scheduler's next `R` ("already allocated"), and with
//!   it the scheduler (`alloc_response_cb` of `src/modules/job-manager/alloc.c`).
//! - A job that ran: it gets the exception "failed to create guest ns", which names no cause.
//!
//! So the first is left out, as if it was submitted after the dump, the second waits, and the third ends with an exception
//! that names the cause.

use crate::eventlog::{self, Event};
use crate::job_id;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use tar::{Archive, Builder, Entry, EntryType};

/// The type of the exception of a job that ran when its instance ended.
const LOST: &str = "lost";

/// What becomes of a job that has not ended.
#[derive(Debug, PartialEq)]
enum Fate {
    LeftOut,
    /// It is to run.
    Waits,
    /// It ends with these events.
    Ends {
        events: Vec<Value>,
        is_lost: bool,
    },
}

impl Fate {
    /// The fate of a job with these events, which end `now` with `note`; none of a job that has ended.
    fn of(events: &[Event], note: &str, now: f64) -> Option<Self> {
        let has = |name: &str| events.iter().any(|event| event.name == name);
        if has("clean") {
            return None;
        }
        if !has("validate") {
            return Some(Self::LeftOut);
        }
        let has_ended = has("finish") || eventlog::fatal_exception(events).is_some();
        if !has_ended && !has("alloc") {
            return Some(Self::Waits);
        }
        let event = |name: &str| json!({ "timestamp": now, "name": name });
        let with = |name: &str, context: Value| json!({ "timestamp": now, "name": name, "context": context });
        let mut end = Vec::new();
        if !has_ended {
            let context = json!({ "type": LOST, "severity": 0, "userid": 0, "note": note });
            end.push(with("exception", context));
        }
        if has("alloc") && !has("free") {
            end.push(with("release", json!({ "ranks": "all", "final": true })));
            end.push(event("free"));
        }
        end.push(event("clean"));
        Some(Self::Ends { events: end, is_lost: !has_ended })
    }
}

/// Where an orderly end leaves whether queues are started (`checkpoint_key` of `src/modules/job-manager/restart.c`).
const QUEUES: &str = "checkpoint/job-manager";

/// The jobs of a dump.
#[derive(Debug)]
pub struct Jobs {
    /// What becomes of those that have not ended, by their directories.
    fates: BTreeMap<String, Fate>,
    /// Whether the dump has the states of the queues. Without them Flux stops those with names.
    pub has_queues: bool,
}

impl Jobs {
    /// Reads the jobs of the tar archive `dump`. Those that ran end `now`, in seconds of Unix time, with `note`.
    pub fn read(dump: impl Read, note: &str, now: f64) -> io::Result<Self> {
        let (mut jobs, mut has_queues) = (BTreeMap::new(), false);
        let mut dump = Archive::new(dump);
        for entry in dump.entries()? {
            let mut entry = entry?;
            let path = path(&entry);
            has_queues |= path == QUEUES;
            let Some((job, file)) = of_job(&path) else { continue };
            if file == "eventlog" {
                let mut log = Vec::new();
                entry.read_to_end(&mut log)?;
                let events = eventlog::parse(&String::from_utf8_lossy(&log));
                let fate = events.map_or(Some(Fate::LeftOut), |it| Fate::of(&it, note, now));
                jobs.insert(job.to_owned(), fate);
            } else {
                // As long as no eventlog is found.
                jobs.entry(job.to_owned()).or_insert(Some(Fate::LeftOut));
            }
        }
        let fates = jobs.into_iter().filter_map(|(job, fate)| Some((job, fate?))).collect();
        Ok(Self { fates, has_queues })
    }

    /// The ids of the jobs that ran, as Flux prints them.
    pub fn lost(&self) -> Vec<String> {
        let is_lost = |fate: &Fate| matches!(fate, Fate::Ends { is_lost: true, .. });
        let lost = self.fates.iter().filter(|(_, fate)| is_lost(fate));
        let id = |job: &str| {
            job_id::parse(&job.strip_prefix("job/")?.replace('/', ".")).map(job_id::f58)
        };
        lost.filter_map(|(job, _)| id(job)).collect()
    }

    /// Writes the archive `dump`, the one that was read, with the jobs as they are to be restored.
    pub fn repair(&self, dump: impl Read, out: impl Write) -> io::Result<()> {
        let (mut dump, mut out) = (Archive::new(dump), Builder::new(out));
        for entry in dump.entries()? {
            let mut entry = entry?;
            let path = path(&entry);
            let fate = of_job(&path).and_then(|(job, file)| Some((self.fates.get(job)?, file)));
            match fate {
                Some((Fate::LeftOut, _) | (Fate::Waits, "R")) => {}
                // A link to what only the instance of the dump had.
                Some((Fate::Ends { .. }, "guest"))
                    if entry.header().entry_type() == EntryType::Symlink => {}
                Some((Fate::Ends { events, .. }, "eventlog")) => {
                    let mut log = Vec::new();
                    entry.read_to_end(&mut log)?;
                    for event in events {
                        writeln!(log, "{event}")?;
                    }
                    let mut header = entry.header().clone();
                    header.set_size(log.len() as u64);
                    out.append_data(&mut header, &path, &log[..])?;
                }
                Some(_) | None => copy(&mut entry, &path, &mut out)?,
            }
        }
        out.into_inner()?.flush()
    }
}

fn path<Dump: Read>(entry: &Entry<'_, Dump>) -> String {
    String::from_utf8_lossy(&entry.path_bytes()).into_owned()
}

/// The directory of the job to which `path` belongs, and the rest of the path.
fn of_job(path: &str) -> Option<(&str, &str)> {
    if !path.starts_with("job/") {
        return None;
    }
    let (end, _) = path.match_indices('/').nth(4)?;
    Some((&path[..end], &path[end + 1..]))
}

fn copy<Dump: Read>(
    entry: &mut Entry<'_, Dump>,
    path: &str,
    out: &mut Builder<impl Write>,
) -> io::Result<()> {
    let mut header = entry.header().clone();
    if let Some(target) = entry.link_name()? {
        return out.append_link(&mut header, path, target);
    }
    // That of an extended header, if there is one.
    header.set_size(entry.size());
    out.append_data(&mut header, path, entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tar::Header;

    const RAN: &str = "job/0000/0006/7300/0000";
    const WAITED: &str = "job/0000/0007/5500/0000";

    fn log(names: &[&str]) -> String {
        let line = |name: &&str| format!("{}\n", json!({ "timestamp": 1.5, "name": name }));
        names.iter().map(line).collect::<Vec<_>>().concat()
    }

    /// A dump with these files; those without content are links.
    fn dump(files: &[(&str, &str)]) -> Vec<u8> {
        let mut builder = Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = Header::new_gnu();
            header.set_mode(0o644);
            if content.is_empty() {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, path, "job-27699183616::.").unwrap();
            } else {
                header.set_size(content.len() as u64);
                builder.append_data(&mut header, path, content.as_bytes()).unwrap();
            }
        }
        builder.into_inner().unwrap()
    }

    /// The files of the repaired dump, with the names of the events in eventlogs; and the lost jobs.
    fn repaired(dump: &[u8]) -> (Vec<(String, String)>, Vec<String>) {
        let jobs = Jobs::read(dump, "a note", 7.5).unwrap();
        let mut out = Vec::new();
        jobs.repair(dump, &mut out).unwrap();
        let mut archive = Archive::new(&out[..]);
        let files = archive.entries().unwrap().map(|entry| {
            let mut entry = entry.unwrap();
            let (path, mut text) = (path(&entry), String::new());
            entry.read_to_string(&mut text).unwrap();
            let events = eventlog::parse(&text).filter(|_| path.ends_with("eventlog"));
            let names = events.map(|events| {
                events.into_iter().map(|event| event.name).collect::<Vec<_>>().join(" ")
            });
            (path, names.unwrap_or(text))
        });
        (files.collect(), jobs.lost())
    }

    /// What becomes of the eventlog of a job with these events.
    fn ended(events: &str) -> Option<String> {
        let names: Vec<&str> = events.split(' ').collect();
        let path = format!("{RAN}/eventlog");
        let (files, _) = repaired(&dump(&[(&path, &log(&names))]));
        files.into_iter().next().map(|(_, names)| names)
    }

    #[test]
    fn every_job_is_one_that_flux_restores() {
        for (events, becomes) in [
            ("submit", None),
            ("submit validate", Some("")),
            ("submit validate depend priority", Some("")),
            ("submit validate alloc", Some(" exception release free clean")),
            ("submit validate alloc start", Some(" exception release free clean")),
            ("submit validate alloc start finish", Some(" release free clean")),
            ("submit validate alloc start finish release free", Some(" clean")),
            ("submit validate alloc start finish release free clean", Some("")),
            // No fatal one: the helper writes no context.
            ("submit validate exception", Some("")),
        ] {
            assert_eq!(ended(events), becomes.map(|end| format!("{events}{end}")), "{events}");
        }
        let canceled =
            "{\"name\":\"validate\"}\n{\"name\":\"exception\",\"context\":{\"severity\":0}}\n";
        let (files, lost) = repaired(&dump(&[(&format!("{RAN}/eventlog"), canceled)]));
        assert_eq!((&*files[0].1, lost), ("validate exception clean", vec![]));
    }

    #[test]
    fn what_is_no_state_of_a_waiting_or_a_lost_job_stays_as_it_is() {
        let long = format!("{RAN}/guest/{}", "x".repeat(200));
        let at = |job: &str, file: &str| format!("{job}/{file}");
        let paths = [at(RAN, "R"), at(RAN, "guest"), at(RAN, "eventlog"), at(WAITED, "R")];
        let (running, waiting) = (log(&["validate", "alloc"]), log(&["validate"]));
        let waits = at(WAITED, "eventlog");
        let (files, lost) = repaired(&dump(&[
            ("resource/R", "all"),
            (&paths[0], "of it"),
            (&paths[1], ""),
            (&long, "long"),
            (&paths[2], &running),
            (&paths[3], "too early"),
            (&waits, &waiting),
            ("job/0000/0008/0000/0000/J", "no eventlog"),
            ("link", ""),
        ]));
        let paths: Vec<&str> = files.iter().map(|(path, _)| &**path).collect();
        assert_eq!(
            paths,
            ["resource/R", &at(RAN, "R"), &long, &at(RAN, "eventlog"), &waits, "link"]
        );
        assert_eq!(
            (&*files[2].1, &*files[3].1),
            ("long", "validate alloc exception release free clean")
        );
        assert_eq!(lost, ["ƒjCgZGK"]);
    }

    #[test]
    fn a_dump_that_is_cut_off_or_no_dump_is_an_error() {
        let path = format!("{RAN}/eventlog");
        let whole = dump(&[(&path, &log(&["validate"]))]);
        assert!(Jobs::read(&whole[..600], "", 0.0).is_err());
        assert!(Jobs::read(&b"x".repeat(1024)[..], "", 0.0).is_err());
        assert!(!Jobs::read(&whole[..], "", 0.0).unwrap().has_queues);
        assert!(Jobs::read(&dump(&[(QUEUES, "{}")])[..], "", 0.0).unwrap().has_queues);
        // Flux moves such a job aside.
        assert_eq!(repaired(&dump(&[(&path, "x\n")])).0, []);
    }
}

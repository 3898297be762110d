//! What a check has found, as people read it, and as an exit code.

use super::Findings;

/// Exit code where something cannot be read; clap's own for a wrong command line.
const CANNOT_READ: u8 = 2;
const HAS_FAULTS: u8 = 1;

/// Hands what is valid to `answer`, every fault and note to `complain`, and why something cannot be read to `fail`.
pub fn print(
    all: &[anyhow::Result<Findings>],
    answer: impl Fn(&str),
    complain: impl Fn(&str),
    fail: impl Fn(&anyhow::Error),
) {
    for one in all {
        match one {
            Ok(findings) => {
                for remark in
                    findings.faults.iter().chain(&findings.warnings).chain(&findings.notes)
                {
                    complain(&remark.to_string());
                }
                if findings.faults.is_empty() {
                    answer(&format!("{}: {} valid", findings.file.display(), findings.checked));
                }
            }
            Err(error) => fail(error),
        }
    }
}

/// 0 if everything is valid, 1 if there is a fault, 2 if something cannot be read.
pub fn exit_code(all: &[anyhow::Result<Findings>]) -> u8 {
    if all.iter().any(Result::is_err) {
        return CANNOT_READ;
    }
    let mut findings = all.iter().flatten();
    if findings.all(|findings| findings.faults.is_empty()) { 0 } else { HAS_FAULTS }
}

//! Prints the findings, and gives the exit code.

use super::Findings;

/// Exit code if something cannot be read, which is also clap's for a wrong command line.
const CANNOT_READ: u8 = 2;
const HAS_FAULTS: u8 = 1;

/// Passes a line for each valid file to `valid`, each remark to `remark`, and each error to `failed`.
pub fn print(
    all: &[anyhow::Result<Findings>],
    valid: impl Fn(&str),
    print_remark: impl Fn(&str),
    failed: impl Fn(&anyhow::Error),
) {
    for one in all {
        match one {
            Ok(findings) => {
                for remark in
                    findings.faults.iter().chain(&findings.warnings).chain(&findings.notes)
                {
                    print_remark(&remark.to_string());
                }
                if findings.faults.is_empty() {
                    valid(&format!("{}: {} valid", findings.file.display(), findings.checked));
                }
            }
            Err(error) => failed(error),
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

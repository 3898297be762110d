//! The command line of the test harness: `cargo e2e`, `cargo demo`, `cargo verify`.

use std::process::ExitCode;

fn main() -> ExitCode {
    e2e::commands::main()
}

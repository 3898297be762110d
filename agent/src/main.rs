//! The in-pod agent of the Flux Operator.

use std::process::ExitCode;

fn main() -> ExitCode {
    flux_agent::commands::main()
}

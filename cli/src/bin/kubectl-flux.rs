//! `kubectl flux`, a plugin of kubectl.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_flux::main()
}

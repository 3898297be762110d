//! Makes view images from an installed Flux, and checks them.

use std::process::ExitCode;

fn main() -> ExitCode {
    flux_view::main()
}

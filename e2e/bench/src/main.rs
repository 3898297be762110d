//! Measurements, most of them on a real cluster: `cargo bench-flux`. They assert nothing: they report where the time goes.

mod brokers;
mod images;
mod namespace;
mod operator;
mod results;
mod scale;
mod start;

use clap::Parser;
use std::process::ExitCode;

/// Measure on this machine.
#[derive(Debug, Parser)]
#[command(name = "bench-flux")]
enum Command {
    /// Measure how long a MiniCluster takes from `kubectl apply` to its command's end, beside other ways to
    /// start the same.
    Start(start::Arguments),
    /// Measure what many MiniClusters, and a large one, cost.
    Scale(scale::Arguments),
    /// Measure how long many agents and brokers take to the quorum, as processes without Kubernetes, beside `flux start`
    /// with as many.
    Brokers(brokers::Arguments),
    /// One start of `brokers`.
    #[command(hide = true)]
    BrokersRound {
        #[arg(value_parser = |text: &str| serde_json::from_str::<brokers::Round>(text))]
        round: brokers::Round,
    },
}

fn main() -> ExitCode {
    let measured = match Command::parse() {
        Command::Start(arguments) => arguments.run(),
        Command::Scale(arguments) => arguments.run(),
        Command::Brokers(arguments) => arguments.run(),
        Command::BrokersRound { round } => round.run(),
    };
    e2e::commands::exit_code(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_of_the_page_exist() {
        let page = include_str!("../../../docs/testing.md").replace("\\\n", " ");
        let typed = page.lines().filter_map(|line| line.strip_prefix("$ cargo "));
        let typed: Vec<_> = typed.filter(|line| line.starts_with("bench-flux")).collect();
        for line in &typed {
            Command::try_parse_from(line.split_whitespace()).unwrap();
        }
        assert_eq!(typed.len(), 5, "{typed:?}");
    }
}

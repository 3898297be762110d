//! What a pod does: as a plan, and as the real binary with a shell script in place of Flux.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod archive;
mod attacks;
mod broker_watch;
mod capabilities;
mod checkpoint;
mod demand;
mod every_setting;
mod first_process;
mod go_bugs;
mod image;
mod instance;
mod job_numbers;
mod lead_lost;
mod leave;
mod linked_view;
mod mpi;
mod people;
mod plan;
mod pod;
mod prelude;
mod probe;
mod properties;
mod rc;
mod readiness;
mod refusals;
mod run;
mod serve;
mod settings;
mod sidecars;
mod stop;
mod subcommands;
mod submit;
mod supervise;
mod transfer;
mod view;
mod zmtp_server;

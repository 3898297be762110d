//! The clients of flux-restful as they are published, with the API and the Secret of `flux.rest`.

use crate::forward::Forward;
use crate::prelude::*;
use crate::rest;
use e2e::product::python;

/// The script, which the tests of `flux-rest` use, too, and the clients.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../rest/tests/it/restful");

/// The second client ends the instance.
#[test]
#[ignore = "needs a cluster"]
fn the_clients_of_flux_restful_work_with_the_secret_of_an_instance() {
    // Before the trial: the cluster's network does not reach the package index.
    let files = Path::new(FILES);
    let packages = python::packages(&files.join("requirements.txt")).unwrap();
    let why = "the stand-in takes jobs from flux alone";
    with_real_flux("restful", "the clients of flux-restful", why, async |trial| {
        let run = trial.start("restful", rest::SPEC).await?;
        run.ready_with(2).await?;
        let (_, [token, _]) = rest::tokens(&run).await?;
        rest::served(&run).await?;
        for (package, command_line, more) in [
            ("flux_restful.client.main", "flux_restful.client.commands", None),
            ("flux_restful_client.main", "flux_restful_client.client", Some("stop")),
        ] {
            let forward = Forward::to(trial, trial.namespace(), "restful-rest", 80)?;
            let mut python = trial.program(Path::new("python3"));
            python.arg(files.join("clients.py")).args([package, command_line]).args(more);
            python.env("PYTHONPATH", &packages).env("PYTHONDONTWRITEBYTECODE", "1");
            let url = format!("http://{}", forward.address);
            python.envs([("FLUX_RESTFUL_HOST", &url), ("FLUX_TOKEN", &token)]);
            python.envs([("FLUX_USER", "fluxuser"), ("FLUX_SECRET_KEY", "any")]);
            programs::run(&mut python)?;
        }
        run.complete().await.map(drop)
    });
}

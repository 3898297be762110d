//! An autoscaler sets the size of an instance by a metric that the instance serves. On a cluster of its own, because no
//! namespace of a cluster can be deleted while its API of metrics leads nowhere. Needs root.

use crate::prelude::*;
use e2e::examples::run::run;

#[test]
#[ignore = "needs root"]
fn an_autoscaler_follows_the_jobs_of_an_instance() {
    on_a_cluster(&options("metrics", Network::default()), |environment| {
        run("metrics-api", None, environment)
    });
}

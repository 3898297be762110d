//! Reads one MiniCluster, also one whose specification is none.

use crate::cluster::validate::{Violation, Violations};
use crate::controller::error::{Error, Verb};
use crate::crd::{MiniCluster, MiniClusterSpec, MiniClusterStatus};
use kube::api::GetParams;
use kube::core::{ApiResource, Object, Request};
use kube::{Api, Client, Resource as _};
use serde::de::IgnoredAny;

/// A MiniCluster whose specification nobody asks for: whatever is in there, it can be read.
pub(crate) type Reported = Object<IgnoredAny, MiniClusterStatus>;

/// Every MiniCluster of `namespace` without its specification.
pub(crate) fn reported(client: Client, namespace: &str) -> Api<Reported> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<MiniCluster>(&()))
}

pub(crate) struct Read {
    /// The object; with an empty specification where that could not be read.
    pub(crate) object: MiniCluster,
    pub(crate) unreadable: Option<Violations>,
}

/// Reads the MiniCluster `name`; nothing where there is none.
///
/// The API server stores what the definition of its time allows, and an overlay of any depth. What is
/// no specification for this operator is a fault of that MiniCluster. The client's own reading would
/// log the whole object, secrets included.
pub(crate) async fn read(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<Option<Read>, Error> {
    let failed = Error::of(Verb::Read, "MiniCluster", name);
    let request = Request::new(MiniCluster::url_path(&(), Some(namespace)));
    let text = match request.get(name, &GetParams::default()) {
        Ok(request) => client.request_text(request).await,
        Err(error) => Err(kube::Error::BuildRequest(error)),
    };
    let text = match text {
        Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(text) => text,
    };
    let error = match serde_json::from_str(&text) {
        Ok(object) => return Ok(Some(Read { object, unreadable: None })),
        Err(error) => error,
    };
    let reported: Reported =
        serde_json::from_str(&text).map_err(|error| failed(kube::Error::SerdeError(error)))?;
    let object = MiniCluster {
        metadata: reported.metadata,
        spec: MiniClusterSpec::default(),
        status: reported.status,
    };
    let message = format!("cannot be read: {error}");
    let violation = Violation { path: "spec".to_owned(), message };
    Ok(Some(Read { object, unreadable: Some(Violations(vec![violation])) }))
}

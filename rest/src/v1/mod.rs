//! The API of flux-restful 1.1, for the clients that there are of it: the same calls as in `/api/v1`, in the shapes that
//! those clients know. `session`, `submit` and `shape` decide over values; `calls` answers.

pub(crate) mod calls;
pub(crate) mod session;
mod shape;
pub(crate) mod submit;

/// The path at which a client that has sent no token hands it over.
pub(crate) const TOKEN: &str = "/v1/token";

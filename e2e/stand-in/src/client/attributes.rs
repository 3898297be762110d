//! `flux getattr`, `setattr`, `lsattr`.

use super::Call;
use super::connection::ask;
use crate::failure::Failure;
use crate::options::{Argument, short};
use crate::output;
use crate::protocol::Request;

/// `flux getattr NAME`.
pub(crate) fn get(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("getattr", &[])?;
    let [name] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux getattr name"));
    };
    call.refuse_in_batch("getattr")?;
    let prefix = format!("flux-getattr: {name}");
    let value = ask(call, &prefix, &Request::Attribute { name: name.clone() })?;
    output::line(value.as_str().unwrap_or_default());
    Ok(0)
}

/// `flux setattr NAME VALUE`.
pub(crate) fn set(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("setattr", &[short("force", 'f', Argument::None)])?;
    let [name, value] = parsed.rest.as_slice() else {
        return Err(Failure::new("Usage: flux setattr [OPTIONS] name value"));
    };
    call.refuse_in_batch("setattr")?;
    let request = Request::SetAttribute {
        name: name.clone(),
        value: value.clone(),
        force: parsed.has("force"),
    };
    ask(call, "flux-setattr", &request)?;
    Ok(0)
}

/// `flux lsattr [-v]`.
pub(crate) fn list(call: &Call) -> Result<u8, Failure> {
    let parsed = call.options("lsattr", &[short("values", 'v', Argument::None)])?;
    call.refuse_in_batch("lsattr")?;
    let all = ask(call, "flux-lsattr", &Request::Attributes)?;
    for (name, value) in all.as_object().into_iter().flatten() {
        if parsed.has("values") {
            output::line(&format!("{name:<40}{}", value.as_str().unwrap_or("-")));
        } else {
            output::line(name);
        }
    }
    Ok(0)
}

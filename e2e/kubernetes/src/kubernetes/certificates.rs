//! The cluster's certificate authorities, certificates and keys.

use super::layout::NodeLayout;
use super::network::Network;
use crate::prelude::*;
use fs_err::os::unix::fs::OpenOptionsExt as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use std::io::Write as _;

/// Base names of the certificates of clients that are in the cluster once, with the users and groups that kubeadm gives
/// them.
const CLIENTS: [(&str, &str, Option<&str>); 5] = [
    ("admin", "kubernetes-admin", Some("system:masters")),
    ("apiserver-kubelet", "kube-apiserver-kubelet-client", Some("system:masters")),
    ("controller-manager", "system:kube-controller-manager", None),
    ("scheduler", "system:kube-scheduler", None),
    ("coredns", "system:coredns", None),
];

/// Writes a `.crt` and a `.key` for every client on each node, beside `ca.crt`; on the first also for everyone of
/// the control plane, beside `ca.key`, `front-proxy-ca.crt` and `service-accounts.key`. All are PEM. Each kubelet
/// makes the certificate that it serves under itself.
pub(crate) fn write_all(nodes: &[&NodeLayout], network: &Network) -> Result<()> {
    let authority = authority("kubernetes")?;
    for node in nodes {
        let directory = node.certificates();
        write(&directory.join("ca.crt"), &authority.pem())?;
        let user = format!("system:node:{}", node.name);
        issue(&directory, &authority, "kubelet", &client(&user, Some("system:nodes"))?)?;
        issue(&directory, &authority, "proxy", &client("system:kube-proxy", None)?)?;
        if node.has_control_plane() {
            write_control_plane(&directory, &authority, network)?;
        }
    }
    Ok(())
}

fn write_control_plane(directory: &Path, authority: &Authority, network: &Network) -> Result<()> {
    write(&directory.join("ca.key"), &authority.key().serialize_pem())?;
    for (file, user, group) in CLIENTS {
        issue(directory, authority, file, &client(user, group)?)?;
    }
    issue(directory, authority, "apiserver", &api_server(network)?)?;
    // With this certificate the API server proves to extension API servers that a request comes from it. It has an
    // authority of its own, because its holder may claim to be any user.
    let authority = self::authority("front-proxy")?;
    write(&directory.join("front-proxy-ca.crt"), &authority.pem())?;
    let name = "front-proxy-client";
    issue(directory, &authority, name, &client(name, None)?)?;
    let key = KeyPair::generate()?;
    write(&directory.join("service-accounts.key"), &key.serialize_pem())?;
    write(&directory.join("service-accounts.pub"), &key.public_key_pem())
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Result<Authority> {
    let mut parameters = parameters(name, None, Vec::new())?;
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages.extend([KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]);
    CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)
        .with_context(|| format!("making the authority {name}"))
}

fn client(user: &str, group: Option<&str>) -> Result<CertificateParams> {
    let mut parameters = parameters(user, group, Vec::new())?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(parameters)
}

fn api_server(network: &Network) -> Result<CertificateParams> {
    let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
    let addresses = [network.addresses().api_service, network.addresses().nodes[0]];
    let serves = names.into_iter().chain(["127.0.0.1"]).chain(addresses).map(str::to_owned);
    let serves = serves.chain([network.api_name()]).collect();
    let mut parameters = parameters("kube-apiserver", None, serves)?;
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

/// Makes a certificate for these names; names that are IP addresses become addresses in it.
fn parameters(user: &str, group: Option<&str>, serves: Vec<String>) -> Result<CertificateParams> {
    let mut parameters = CertificateParams::new(serves)
        .with_context(|| format!("describing the certificate of {user}"))?;
    parameters.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        parameters.distinguished_name.push(DnType::OrganizationName, group);
    }
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(parameters)
}

fn issue(
    directory: &Path,
    authority: &Authority,
    file: &str,
    parameters: &CertificateParams,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = parameters
        .signed_by(&key, authority)
        .with_context(|| format!("signing the certificate of {file}"))?;
    write(&directory.join(format!("{file}.crt")), &certificate.pem())?;
    write(&directory.join(format!("{file}.key")), &key.serialize_pem())
}

/// Writes a file that its owner alone can read, and makes its directory.
pub(super) fn write(path: &Path, content: &str) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut options = File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    Ok(file.write_all(content.as_bytes())?)
}

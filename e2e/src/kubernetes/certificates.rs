//! The cluster's certificate authority, certificates and keys.

use std::{fs, os::unix::fs::OpenOptionsExt as _, path::Path};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::network::Network;

/// Name of the one node.
pub(crate) const NODE_NAME: &str = "node";

/// What a certificate says about its owner.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    /// Base name of the certificate's and the key's file.
    file: &'static str,
    /// The user for the API server.
    common_name: &'static str,
    /// The group for the API server.
    organization: Option<&'static str>,
    /// Names and addresses it serves under; none for a client.
    serves: Vec<String>,
}

/// Everyone in the cluster who has a certificate, with the users and groups that kubeadm gives them.
fn identities(network: &Network) -> Vec<Identity> {
    let addresses = network.all();
    let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
    let api = names.into_iter().chain([NODE_NAME, "127.0.0.1"]);
    let api = api.chain(addresses.iter().flat_map(|it| [it.api_service, it.node]));
    let kubelet = [NODE_NAME].into_iter().chain(addresses.iter().map(|it| it.node));
    vec![
        Identity {
            serves: api.map(str::to_owned).chain([network.api_name()]).collect(),
            ..client("apiserver", "kube-apiserver", None)
        },
        // Without the node's address in it, `kubectl logs` and `exec` fail.
        Identity {
            serves: kubelet.map(str::to_owned).collect(),
            ..client("kubelet-server", "system:node:node", Some("system:nodes"))
        },
        client("admin", "kubernetes-admin", Some("system:masters")),
        client("apiserver-kubelet", "kube-apiserver-kubelet-client", Some("system:masters")),
        client("controller-manager", "system:kube-controller-manager", None),
        client("scheduler", "system:kube-scheduler", None),
        client("proxy", "system:kube-proxy", None),
        client("coredns", "system:coredns", None),
        client("kubelet", "system:node:node", Some("system:nodes")),
    ]
}

const fn client(
    file: &'static str,
    common_name: &'static str,
    organization: Option<&'static str>,
) -> Identity {
    Identity { file, common_name, organization, serves: Vec::new() }
}

/// How the API server shows an extension API server that a request comes from it. This takes an authority of
/// its own: whoever has such a certificate may claim to be anyone.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// Writes `ca.crt`, `ca.key`, `front-proxy-ca.crt`, a `.crt` and a `.key` for everyone, and
/// `service-accounts.key`, all PEM.
pub(crate) fn write_all(directory: &Path, network: &Network) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    let authority = authority("kubernetes")?;
    write(&directory.join("ca.crt"), &authority.pem())?;
    write(&directory.join("ca.key"), &authority.key().serialize_pem())?;
    for identity in identities(network) {
        issue(directory, &authority, &identity)?;
    }
    let authority = self::authority("front-proxy")?;
    write(&directory.join("front-proxy-ca.crt"), &authority.pem())?;
    issue(directory, &authority, &client(FRONT_PROXY, FRONT_PROXY, None))?;
    let key = KeyPair::generate().context("making the service accounts' key")?;
    write(&directory.join("service-accounts.key"), &key.serialize_pem())?;
    write(&directory.join("service-accounts.pub"), &key.public_key_pem())
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut parameters =
        CertificateParams::new([]).with_context(|| format!("describing the authority {name}"))?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate().with_context(|| format!("making the key of {name}"))?;
    CertifiedIssuer::self_signed(parameters, key)
        .with_context(|| format!("making the authority {name}"))
}

fn issue(
    directory: &Path,
    authority: &CertifiedIssuer<'_, KeyPair>,
    identity: &Identity,
) -> Result<()> {
    let file = identity.file;
    let key = KeyPair::generate().with_context(|| format!("making the key of {file}"))?;
    let certificate = parameters(identity)?
        .signed_by(&key, authority)
        .with_context(|| format!("signing the certificate of {file}"))?;
    write(&directory.join(format!("{file}.crt")), &certificate.pem())?;
    write(&directory.join(format!("{file}.key")), &key.serialize_pem())
}

fn parameters(identity: &Identity) -> Result<CertificateParams> {
    // An address among the names becomes an address in the certificate.
    let mut parameters = CertificateParams::new(identity.serves.clone())
        .with_context(|| format!("describing the certificate of {}", identity.file))?;
    parameters.distinguished_name.push(DnType::CommonName, identity.common_name);
    if let Some(group) = identity.organization {
        parameters.distinguished_name.push(DnType::OrganizationName, group);
    }
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![if identity.serves.is_empty() {
        ExtendedKeyUsagePurpose::ClientAuth
    } else {
        ExtendedKeyUsagePurpose::ServerAuth
    }];
    Ok(parameters)
}

fn write(path: &Path, content: &str) -> Result<()> {
    use std::io::Write as _;
    fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(content.as_bytes()))
        .with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use rcgen::SanType;

    use super::*;

    fn both() -> Network {
        Network { ip_families: "ipv6,ipv4".parse().unwrap(), ..Network::default() }
    }

    fn find(file: &str) -> Identity {
        identities(&both()).into_iter().find(|identity| identity.file == file).unwrap()
    }

    fn addresses(file: &str) -> Vec<IpAddr> {
        let names = parameters(&find(file)).unwrap().subject_alt_names;
        let address = |name: &SanType| {
            if let SanType::IpAddress(address) = name { Some(*address) } else { None }
        };
        names.iter().filter_map(address).collect()
    }

    #[test]
    fn the_kubelets_certificate_holds_the_nodes_addresses() {
        let nodes = both().all().into_iter().map(|it| it.node.parse::<IpAddr>().unwrap());
        assert_eq!(addresses("kubelet-server"), nodes.collect::<Vec<_>>());
    }

    #[test]
    fn the_api_servers_certificate_holds_its_services_addresses_and_name() {
        let held = addresses("apiserver");
        assert!(both().all().iter().all(|it| held.contains(&it.api_service.parse().unwrap())));
        assert!(find("apiserver").serves.contains(&both().api_name()));
    }

    #[test]
    fn a_client_serves_under_no_name() {
        let parameters = parameters(&find("admin")).unwrap();
        assert!(parameters.subject_alt_names.is_empty());
        assert_eq!(parameters.extended_key_usages, [ExtendedKeyUsagePurpose::ClientAuth]);
    }

    #[test]
    fn keys_are_readable_by_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path(), &both()).unwrap();
        for identity in identities(&both()) {
            for ending in ["crt", "key"] {
                let path = directory.path().join(format!("{}.{ending}", identity.file));
                assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
    }
}

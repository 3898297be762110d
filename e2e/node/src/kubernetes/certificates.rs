//! The cluster's certificate authority, certificates and keys.

use std::{fs, os::unix::fs::OpenOptionsExt as _, path::Path};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::{layout::NodeLayout, network::Network};

/// What a certificate says about its owner.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    /// Base name of the certificate's and the key's file.
    file: &'static str,
    /// The user for the API server.
    common_name: String,
    /// The group for the API server.
    organization: Option<&'static str>,
    /// Names and addresses it serves under; none for a client.
    serves: Vec<String>,
}

/// Everyone who is in the cluster once and has a certificate, with the users and groups that kubeadm gives them.
fn of_control_plane(network: &Network) -> Vec<Identity> {
    let addresses = network.all();
    let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"];
    let api = names.into_iter().chain(["127.0.0.1"]);
    let api = api.chain(addresses.iter().flat_map(|it| [it.api_service, it.control_plane()]));
    vec![
        Identity {
            serves: api.map(str::to_owned).chain([network.api_name()]).collect(),
            ..client("apiserver", "kube-apiserver", None)
        },
        client("admin", "kubernetes-admin", Some("system:masters")),
        client("apiserver-kubelet", "kube-apiserver-kubelet-client", Some("system:masters")),
        client("controller-manager", "system:kube-controller-manager", None),
        client("scheduler", "system:kube-scheduler", None),
        client("coredns", "system:coredns", None),
    ]
}

/// The same for those who are on each node.
fn of_node(name: &str, position: usize, network: &Network) -> Vec<Identity> {
    let user = format!("system:node:{name}");
    let group = Some("system:nodes");
    let addresses = network.all().into_iter().map(|it| it.nodes[position].own);
    vec![
        // Without the node's address in it, `kubectl logs` and `exec` fail.
        Identity {
            serves: [name].into_iter().chain(addresses).map(str::to_owned).collect(),
            ..client("kubelet-server", &user, group)
        },
        client("kubelet", &user, group),
        client("proxy", "system:kube-proxy", None),
    ]
}

fn client(file: &'static str, common_name: &str, organization: Option<&'static str>) -> Identity {
    Identity { file, common_name: common_name.to_owned(), organization, serves: Vec::new() }
}

/// How the API server shows an extension API server that a request comes from it. This takes an authority of
/// its own: whoever has such a certificate may claim to be anyone.
pub(crate) const FRONT_PROXY: &str = "front-proxy-client";

/// Writes a `.crt` and a `.key` for everyone on each node, beside `ca.crt`; on the first also for everyone of
/// the control plane, beside `ca.key`, `front-proxy-ca.crt` and `service-accounts.key`. All are PEM.
pub(crate) fn write_all(nodes: &[NodeLayout], network: &Network) -> Result<()> {
    let authority = authority("kubernetes")?;
    for node in nodes {
        let directory = node.certificates();
        fs::create_dir_all(&directory)
            .with_context(|| format!("making {}", directory.display()))?;
        write(&directory.join("ca.crt"), &authority.pem())?;
        for identity in of_node(node.name(), node.position(), network) {
            issue(&directory, &authority, &identity)?;
        }
        if node.has_control_plane() {
            write_control_plane(&directory, &authority, network)?;
        }
    }
    Ok(())
}

fn write_control_plane(
    directory: &Path,
    authority: &CertifiedIssuer<'_, KeyPair>,
    network: &Network,
) -> Result<()> {
    write(&directory.join("ca.key"), &authority.key().serialize_pem())?;
    for identity in of_control_plane(network) {
        issue(directory, authority, &identity)?;
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
    parameters.distinguished_name.push(DnType::CommonName, identity.common_name.as_str());
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
    use crate::{
        cache::Cache,
        kubernetes::{ClusterId, layout::Layout},
    };

    fn both() -> Network {
        Network { ip_families: "ipv6,ipv4".parse().unwrap(), ..Network::default() }
    }

    /// Of those on the second node and of the control plane.
    fn find(file: &str) -> Identity {
        let all = of_node("node-2", 1, &both()).into_iter().chain(of_control_plane(&both()));
        all.into_iter().find(|identity| identity.file == file).unwrap()
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
        let nodes = both().all().into_iter().map(|it| it.nodes[1].own.parse::<IpAddr>().unwrap());
        assert_eq!(addresses("kubelet-server"), nodes.collect::<Vec<_>>());
        assert_eq!(find("kubelet").common_name, "system:node:node-2");
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
        let cache = Cache::at(directory.path()).unwrap();
        let layout = Layout::new(&cache, &ClusterId::named("a").unwrap()).unwrap();
        let nodes = &layout.places()[..2];
        write_all(nodes, &both()).unwrap();
        let files = |node: &NodeLayout| {
            let entries = fs::read_dir(node.certificates()).unwrap().flatten();
            for entry in entries {
                assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            }
            fs::read_dir(node.certificates()).unwrap().count()
        };
        let of_each = 1 + 2 * of_node("node-2", 1, &both()).len();
        assert_eq!(files(&nodes[1]), of_each);
        // The authority's key, the front proxy's three files, the service accounts' two.
        assert_eq!(files(&nodes[0]), of_each + 6 + 2 * of_control_plane(&both()).len());
    }
}

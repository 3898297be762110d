//! The document is the same for every release.

use super::*;

/// A document with every field, as the first release writes it. Do not change it: a new field has a default, at which
/// it is left out.
const GOLDEN: &str = include_str!("../../tests/golden/agent.toml");

/// A document with all defaults.
fn hello() -> AgentConfig {
    AgentConfig {
        install: Install::default(),
        shutdown: Shutdown::default(),
        ..AgentConfig::from_toml(GOLDEN).unwrap()
    }
}

/// This fails for a new field without a default, and for one that is not left out at its default.
#[test]
fn a_document_of_the_first_release_is_written_again_unchanged() {
    assert_eq!(AgentConfig::from_toml(GOLDEN).unwrap().to_toml().unwrap(), GOLDEN);
}

#[test]
fn an_unknown_field_is_refused_by_name() {
    let text = hello().to_toml().unwrap().replace("[logging]", "[logging]\nshout = true");
    let error = AgentConfig::from_toml(&text).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("shout"));
}

#[test]
fn defaults_are_left_out_and_other_values_read_back() {
    let text = hello().to_toml().unwrap();
    for name in ["install", "shutdown", "autoscale"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    let shutdown = |grace_seconds, deadline_seconds| AgentConfig {
        shutdown: Shutdown { grace_seconds, deadline_seconds, idle_seconds: None },
        ..hello()
    };
    let autoscale = Some(Autoscale { max_size: 9, idle_seconds: 60 });
    for config in [
        AgentConfig { install: Install::Image, ..hello() },
        shutdown(600, None),
        shutdown(30, Some(5)),
        shutdown(0, Some(1)),
        AgentConfig { autoscale, ..hello() },
    ] {
        let text = config.to_toml().unwrap();
        assert_eq!(AgentConfig::from_toml(&text).unwrap(), config);
        // A newer operator may write fields that the agent of a pod does not know.
        let newer = format!("newer = 1\n{text}");
        assert!(AgentConfig::from_toml(&newer).is_err());
        assert_eq!(Shutdown::of_document(&newer), Some(config.shutdown));
        assert_eq!(Autoscale::of_document(&newer), config.autoscale);
    }
    assert_eq!((Shutdown::of_document(""), Autoscale::of_document("no TOML")), (None, None));
}

#[test]
fn fingerprints_are_read_from_documents_of_every_release() {
    let older = RestTokens::of_document(GOLDEN).unwrap();
    assert_eq!((older.token_sha256.as_str(), older.read_only_token_sha256), ("7e", None));
    let rest = Rest {
        port: 1,
        token_sha256: "a".to_owned(),
        read_only_token_sha256: Some("b".to_owned()),
        rotation: Some("2".to_owned()),
        tls: true,
    };
    let config = AgentConfig { rest: Some(rest), ..hello() };
    let text = config.to_toml().unwrap();
    assert_eq!(AgentConfig::from_toml(&text).unwrap(), config);
    let newer = text.replace("[rest]", "[rest]\nnewer = 1");
    let read = RestTokens::of_document(&newer).unwrap();
    assert_eq!(read.token_sha256, "a");
    assert_eq!(read.read_only_token_sha256.as_deref(), Some("b"));
    assert!(RestTokens::of_document("version = 1").is_err());
}

#[test]
fn another_version_is_refused_as_a_version() {
    let text = hello().to_toml().unwrap().replace("version = 1", "version = 2\nnews = 1");
    let error = AgentConfig::from_toml(&text).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

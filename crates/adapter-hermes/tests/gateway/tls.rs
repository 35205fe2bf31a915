//! Gateways behind TLS.

use std::path::Path;
use std::sync::Arc;

use headcount_adapter_hermes::scripted::{Gateway, Served, Version};
use headcount_adapter_hermes::{HermesAdapter, HermesConfig};
use headcount_contract::{AdapterErrorKind, CancelOutcome, ChildLifecycleAdapter, ChildState};
use libtest_mimic::Trial;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::support::live::{Watched, config, id, source, token_file, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("tls::an_authority_that_is_named_is_trusted", trusted),
        trial("tls::an_authority_that_nobody_named_is_not", untrusted),
        trial("tls::a_certificate_for_another_host_is_refused", other_host),
        trial("tls::the_file_is_read_anew_for_each_connection", replaced),
        trial("tls::something_else_than_tls_is_told", something_else),
        trial("tls::without_it_other_hosts_are_refused", plain),
    ]
}

/// An authority of this test's own.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {}", fastrand::u32(..));
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Self { params, key }
    }

    fn write(&self, path: &Path) {
        let certificate = self.params.self_signed(&self.key).unwrap();
        std::fs::write(path, certificate.pem()).unwrap();
    }

    /// Vouches for a server of this name.
    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&self.params, &self.key);
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A gateway that is served, and what speaks TLS in front of it.
struct Shielded {
    gateway: Gateway,
    _served: Served,
    url: String,
}

async fn shielded(acceptor: TlsAcceptor) -> Shielded {
    let gateway = Gateway::new(Version::V0_22);
    let served = gateway.serve("sesame").await.unwrap();
    let url = served.url();
    let behind = url.trim_start_matches("ws://").split('/').next().unwrap();
    let behind = behind.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind) = (acceptor.clone(), behind.clone());
            tokio::spawn(async move {
                // A client that does not trust it goes away.
                let mut outside = acceptor.accept(stream).await.ok()?;
                let mut inside = TcpStream::connect(behind).await.ok()?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside)
                    .await
                    .ok()
            });
        }
    });
    Shielded {
        gateway,
        _served: served,
        url: format!("wss://127.0.0.1:{port}/api/ws"),
    }
}

fn to(shielded: &Shielded, ca_file: Option<&Path>) -> HermesConfig {
    let mut config = config();
    config.ws = Some(shielded.url.clone());
    config.token_file = Some(token_file("sesame").to_path_buf());
    config.resume = vec!["stored-s1".to_owned()];
    config.ca_file = ca_file.map(Path::to_owned);
    config
}

async fn trusted() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("authority.pem");
    let authority = Authority::new();
    authority.write(&ca_file);
    let shielded = shielded(authority.acceptor("127.0.0.1")).await;
    let mut watched = Watched::of(to(&shielded, Some(&ca_file)));
    watched
        .until("its session to be resumed", |_| {
            shielded.gateway.asked("session.resume") > 0
        })
        .await;
    let a = shielded.gateway.start("s1", None, "a");
    watched.until_state(&a, ChildState::RUNNING).await;
    shielded.gateway.hang_up();
    watched
        .until_discontinuity("Reconnected, gap RuledOut")
        .await;
    let accepted = watched.adapter.cancel(&id(&a), None).await.unwrap();
    assert_eq!(accepted, CancelOutcome::Accepted);
    watched.until_state(&a, ChildState::CANCELLED).await;
}

async fn untrusted() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("authority.pem");
    Authority::new().write(&ca_file);
    let shielded = shielded(Authority::new().acceptor("127.0.0.1")).await;
    for ca_file in [None, Some(&ca_file)] {
        let mut watched = Watched::of(to(&shielded, ca_file.map(|path| &**path)));
        watched
            .until_down(&["is not trusted", "`ca_file`", "UnknownIssuer"])
            .await;
        assert!(!watched.adapter.is_finished(), "it is tried again");
        let told = format!("{:?}", watched.seen);
        assert!(!told.contains("sesame"), "a token is never told");
    }
    assert_eq!(shielded.gateway.clients(), 0);
}

async fn other_host() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("authority.pem");
    let authority = Authority::new();
    authority.write(&ca_file);
    let shielded = shielded(authority.acceptor("gateway.example")).await;
    let mut watched = Watched::of(to(&shielded, Some(&ca_file)));
    watched
        .until_down(&["is not trusted", "gateway.example"])
        .await;
    assert_eq!(shielded.gateway.clients(), 0);
}

async fn replaced() {
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("authority.pem");
    let authority = Authority::new();
    let shielded = shielded(authority.acceptor("127.0.0.1")).await;
    let mut watched = Watched::of(to(&shielded, Some(&ca_file)));
    watched
        .until_down(&["authority.pem", "BEGIN CERTIFICATE"])
        .await;
    authority.write(&ca_file);
    watched
        .until("the connection", |_| shielded.gateway.clients() > 0)
        .await;
}

async fn something_else() {
    let gateway = Gateway::new(Version::V0_22);
    let served = gateway.serve("sesame").await.unwrap();
    let mut config = config();
    config.ws = Some(served.url().replace("ws://", "wss://"));
    let mut watched = Watched::of(config);
    watched.until_down(&["cannot be reached"]).await;
    assert!(!watched.adapter.is_finished(), "it is tried again");
}

async fn plain() {
    let mut config = config();
    config.ws = Some("ws://192.0.2.1:9119/api/ws".to_owned());
    let error = HermesAdapter::new(source(), config.clone()).unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::InvalidConfig);
    let said = error.to_string();
    assert!(
        said.contains("wss://") && said.contains("allow_insecure_remote"),
        "{said}"
    );
    config.allow_insecure_remote = true;
    assert!(HermesAdapter::new(source(), config).is_ok());
}

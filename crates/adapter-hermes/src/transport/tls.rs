//! Whom a `wss://` address is trusted to lead to.

use std::path::Path;
use std::sync::Arc;

use headcount_contract::{AdapterError, AdapterErrorKind};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_tungstenite::Connector;
use tokio_tungstenite::tungstenite::{Error, error::TlsError};

/// Trusts the system's authorities, and those in `ca_file`.
pub(super) fn connector(ca_file: Option<&Path>) -> Result<Connector, AdapterError> {
    let cannot = |error: String| {
        AdapterError::new(AdapterErrorKind::Internal, "no TLS connection can be made")
            .with_source(error)
    };
    let mut roots = rustls::RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = ca_file {
        for certificate in certificates(path)? {
            let added = roots.add(certificate);
            added.map_err(|error| unusable(path, error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| cannot(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Connector::Rustls(Arc::new(config)))
}

/// The certificates of a file: at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, AdapterError> {
    let read = CertificateDer::pem_file_iter(path);
    let read = read.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unusable(path, error))?;
    if found.is_empty() {
        return Err(unusable(path, "there is none in it"));
    }
    Ok(found)
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> AdapterError {
    AdapterError::new(
        AdapterErrorKind::InvalidConfig,
        "`ca_file` is to hold certificates, each between BEGIN CERTIFICATE and END CERTIFICATE",
    )
    .retryable()
    .with_context("ca_file", path.display())
    .with_context("why", why)
}

/// Why the other side's certificate was not accepted, if that is what went wrong.
pub(super) fn mistrust(error: &Error) -> Option<String> {
    let cause: Option<&rustls::Error> = match error {
        Error::Tls(TlsError::Rustls(cause)) => Some(cause),
        Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    };
    match cause? {
        cause @ rustls::Error::InvalidCertificate(_) => Some(cause.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: Option<&str>, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authority.pem");
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let said = match connector(Some(&path)) {
            Ok(_) => "fine".to_owned(),
            Err(error) => {
                assert_eq!(error.kind(), AdapterErrorKind::InvalidConfig);
                let said = error.to_string();
                assert!(said.contains("authority.pem"), "{said}");
                said
            }
        };
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let authority = rcgen::generate_simple_self_signed(["authority".to_owned()]).unwrap();
        let pem = authority.cert.pem();
        check(Some(&pem), "fine");
        check(Some(&format!("Our own:\n{pem}\n{pem}")), "fine");
        check(None, "BEGIN CERTIFICATE");
        check(Some(""), "there is none in it");
        check(
            Some(&authority.signing_key.serialize_pem()),
            "there is none in it",
        );
        check(
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n"),
            "BEGIN CERTIFICATE",
        );
        check(
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            "BEGIN CERTIFICATE",
        );
    }
}

//! A gateway that runs, reached over a WebSocket.

use std::time::{Duration, SystemTime};

use futures_util::{SinkExt, StreamExt};
use headcount_adapter_kit::new_epoch;
use headcount_contract::{AdapterError, AdapterErrorKind};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::{BATCHES, End, Link, REQUESTS, tls};
use crate::config::HermesConfig;
use crate::frame::{Decoded, FrameFault, decode};

/// A message over the limit is skipped and counted up to this many times the limit; a longer one
/// ends the connection, since it would have to be read into memory whole.
const TOLERANCE: usize = 4;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects.
pub(crate) async fn open(config: &HermesConfig) -> Result<Link, AdapterError> {
    let url = config.ws.as_deref().unwrap_or_default();
    let with_token = match token(config)? {
        None => url.to_owned(),
        Some(token) => {
            let joint = if url.contains('?') { '&' } else { '?' };
            format!("{url}{joint}token={}", percent_encoded(&token))
        }
    };
    let limit = config.max_frame_bytes.saturating_mul(TOLERANCE);
    let protocol = WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit));
    let tls = url
        .starts_with("wss://")
        .then(|| tls::connector(config.ca_file.as_deref()))
        .transpose()?;
    let connecting =
        tokio_tungstenite::connect_async_tls_with_config(with_token, Some(protocol), true, tls);
    let unavailable = |message: &'static str| {
        AdapterError::new(AdapterErrorKind::Unavailable, message)
            .retryable()
            .with_context("address", without_query(url))
    };
    let socket = match tokio::time::timeout(config.request_timeout, connecting).await {
        Err(_) => {
            return Err(unavailable(
                "the gateway does not accept a connection in time",
            ));
        }
        Ok(Err(Error::Http(answer))) if answer.status() == 403 || answer.status() == 401 => {
            return Err(AdapterError::new(
                AdapterErrorKind::Denied,
                "the gateway refuses the token: name the right one in `token_env` or `token_file`",
            )
            .retryable()
            .with_context("address", without_query(url))
            .with_context("status", answer.status().as_u16()));
        }
        Ok(Err(Error::Http(answer))) => {
            return Err(unavailable("no gateway answers there")
                .with_context("status", answer.status().as_u16()));
        }
        Ok(Err(error)) if let Some(why) = tls::mistrust(&error) => {
            return Err(unavailable(
                "the gateway's certificate is not trusted: name a file with its authority's in `ca_file`",
            )
            .with_context("why", why));
        }
        // The library's messages may repeat the address, and with it the token.
        Ok(Err(Error::Io(error))) => {
            return Err(
                unavailable("the gateway cannot be reached").with_source(error.kind().to_string())
            );
        }
        Ok(Err(_)) => return Err(unavailable("the gateway cannot be reached")),
        Ok(Ok((socket, _))) => socket,
    };
    let (frames, incoming) = mpsc::channel(BATCHES);
    let (outgoing, lines) = mpsc::channel(REQUESTS);
    let (end, ended) = oneshot::channel();
    let carrying = carry(
        socket,
        frames,
        lines,
        config.max_frame_bytes,
        config.request_timeout,
    );
    tokio::spawn(async move {
        let _ = end.send(carrying.await);
    });
    Ok(Link {
        incoming,
        outgoing,
        ended,
        epoch: new_epoch(SystemTime::now().into()),
        process: None,
    })
}

/// Carries messages both ways until one side has enough; returns why.
async fn carry(
    mut socket: Socket,
    frames: mpsc::Sender<Vec<Decoded>>,
    mut lines: mpsc::Receiver<String>,
    limit: usize,
    patience: Duration,
) -> End {
    let closed = |why: &str| End::Disconnected(why.to_owned());
    loop {
        let message = tokio::select! {
            message = socket.next() => message,
            line = lines.recv() => {
                let Some(line) = line else {
                    let _ = tokio::time::timeout(patience, socket.close(None)).await;
                    return closed("the connection was closed");
                };
                let sending = socket.send(Message::text(line));
                match tokio::time::timeout(patience, sending).await {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => return broke(&error),
                    Err(_) => return closed("the gateway reads no more"),
                }
            }
        };
        let decoded = match message {
            None => return closed("the connection was lost"),
            Some(Err(error)) => return broke(&error),
            Some(Ok(Message::Text(text))) => decode_all(text.as_bytes(), limit),
            Some(Ok(Message::Binary(bytes))) => decode_all(&bytes, limit),
            Some(Ok(Message::Close(close))) => {
                return match close.map(|close| u16::from(close.code)) {
                    Some(4401 | 4403) => {
                        closed("the gateway closed the connection: not authorised")
                    }
                    Some(4400) => closed("the gateway closed the connection: bad request"),
                    Some(code) => closed(&format!("the gateway closed the connection ({code})")),
                    None => closed("the gateway closed the connection"),
                };
            }
            Some(Ok(_)) => continue,
        };
        if !decoded.is_empty() && frames.send(decoded).await.is_err() {
            return closed("the connection was closed");
        }
    }
}

/// One message holds one frame, or several lines of them.
fn decode_all(message: &[u8], limit: usize) -> Vec<Decoded> {
    message
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            if line.len() > limit {
                Some(Err(FrameFault::Oversized))
            } else {
                decode(line)
            }
        })
        .collect()
}

fn broke(error: &Error) -> End {
    match error {
        Error::Capacity(_) => End::Overlong,
        Error::Io(error) => End::Disconnected(format!("the connection broke: {}", error.kind())),
        _ => End::Disconnected("the connection broke".to_owned()),
    }
}

/// The token, read anew for each attempt: it may have been changed.
fn token(config: &HermesConfig) -> Result<Option<String>, AdapterError> {
    let missing = |what: &'static str, name: &str| {
        AdapterError::new(
            AdapterErrorKind::InvalidConfig,
            "the gateway's token is not there",
        )
        .retryable()
        .with_context(what, name)
    };
    if let Some(name) = &config.token_env {
        let token = std::env::var(name)
            .ok()
            .filter(|token| !token.trim().is_empty());
        let token = token.ok_or_else(|| missing("variable", name))?;
        return Ok(Some(token.trim().to_owned()));
    }
    if let Some(path) = &config.token_file {
        let shown = path.display().to_string();
        let token = std::fs::read_to_string(path)
            .map_err(|error| missing("file", &shown).with_source(error))?;
        if token.trim().is_empty() {
            return Err(missing("file", &shown));
        }
        return Ok(Some(token.trim().to_owned()));
    }
    Ok(None)
}

fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

fn percent_encoded(token: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(token.len());
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_passes_through_an_address_unharmed() {
        assert_eq!(percent_encoded("aB9-._~"), "aB9-._~");
        assert_eq!(percent_encoded("a b&c=d/é"), "a%20b%26c%3Dd%2F%C3%A9");
    }

    #[test]
    fn a_message_may_hold_several_lines() {
        let line = r#"{"method":"ping"}"#;
        let read = decode_all(
            format!("{line}\n\n{line}\n{}", "x".repeat(99)).as_bytes(),
            40,
        );
        assert!(matches!(
            read[..],
            [Ok(_), Ok(_), Err(FrameFault::Oversized)]
        ));
    }
}

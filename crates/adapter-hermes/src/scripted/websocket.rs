//! The scripted gateway on a WebSocket of this host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Gateway, Output};

/// A gateway that is served; dropping it ends the service and cuts all connections.
#[derive(Debug)]
pub struct Served {
    address: SocketAddr,
    gateway: Gateway,
    open: Arc<AtomicBool>,
    serving: JoinHandle<()>,
}

impl Gateway {
    /// Serves on a free port of this host whoever bears the token.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub async fn serve(&self, token: &str) -> std::io::Result<Served> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let open = Arc::new(AtomicBool::new(true));
        let (gateway, token, opened) = (self.clone(), token.to_owned(), open.clone());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let client = client(gateway.clone(), stream, token.clone(), opened.clone());
                tokio::spawn(client);
            }
        });
        Ok(Served {
            address,
            gateway: self.clone(),
            open,
            serving,
        })
    }
}

impl Served {
    /// Where it is served, without the token.
    pub fn url(&self) -> String {
        format!("ws://{}/api/ws", self.address)
    }

    /// Cuts all connections, and lets nobody in until [`Self::reopen`].
    pub fn shut(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.gateway.hang_up();
    }

    /// Lets clients in again.
    pub fn reopen(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
        self.gateway.hang_up();
    }
}

async fn client(gateway: Gateway, stream: TcpStream, token: String, open: Arc<AtomicBool>) {
    if !open.load(Ordering::SeqCst) {
        return;
    }
    let wanted = format!("token={token}");
    // The library wants the answer whole, in an error too.
    #[allow(clippy::result_large_err)]
    let check = |request: &Request, response: Response| {
        let query = request.uri().query().unwrap_or_default();
        if request.uri().path() == "/api/ws" && query.split('&').any(|part| part == wanted) {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(None);
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        Err(refusal)
    };
    let Ok(mut socket) = tokio_tungstenite::accept_hdr_async(stream, check).await else {
        return;
    };
    let greeting = gateway.greeting();
    let (answers, mut outputs) = gateway.client();
    // Shut meanwhile: this client was not there yet to be cut.
    if !open.load(Ordering::SeqCst) {
        return;
    }
    if socket.send(Message::text(greeting)).await.is_err() {
        return;
    }
    loop {
        let sent = tokio::select! {
            output = outputs.recv() => match output {
                Some(Output::Line(line)) if gateway.trickles() => trickle(&mut socket, &line).await,
                Some(Output::Line(line)) => socket.send(Message::text(line)).await,
                Some(Output::Bytes(bytes)) => socket.send(Message::binary(bytes)).await,
                Some(Output::CutWithin(line)) => {
                    let half = line.as_bytes()[..line.len() / 2].to_vec();
                    let _ = socket.send(fragment(half, Position::First)).await;
                    return;
                }
                // Dropping the socket cuts the connection.
                Some(Output::Cut) | None => return,
            },
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    gateway.answer(text.as_str(), &answers);
                    Ok(())
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => Ok(()),
            },
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends a text with one byte in each fragment.
async fn trickle<S>(socket: &mut WebSocketStream<S>, line: &str) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let last = line.len().saturating_sub(1);
    for (at, byte) in line.bytes().enumerate() {
        let position = match at {
            _ if last == 0 => Position::Only,
            0 => Position::First,
            at if at == last => Position::Last,
            _ => Position::Between,
        };
        socket.send(fragment(vec![byte], position)).await?;
    }
    Ok(())
}

/// Where in a message a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Only,
    First,
    Between,
    Last,
}

fn fragment(bytes: Vec<u8>, position: Position) -> Message {
    let kind = match position {
        Position::Only | Position::First => Data::Text,
        Position::Between | Position::Last => Data::Continue,
    };
    let is_final = matches!(position, Position::Only | Position::Last);
    Message::Frame(Frame::message(bytes, OpCode::Data(kind), is_final))
}

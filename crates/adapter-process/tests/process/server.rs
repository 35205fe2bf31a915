//! Servers that answer as a test says, and processes whose readiness they are.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_process::{Listener, ProcessOptions, Readiness, ReadyCheck};
use headcount_contract::*;

use crate::support::*;

pub(crate) const LONG: Duration = Duration::from_secs(20);
pub(crate) const AT_ONCE: Duration = Duration::ZERO;

/// What a server in this process answers to its first requests; the last answer is repeated, and
/// an empty one keeps the request waiting for ever.
pub(crate) fn serve(
    address: impl Into<SocketAddr>,
    answers: &[&str],
    delay: Duration,
) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(address.into()).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let answers: Vec<String> = answers.iter().map(|answer| (*answer).to_owned()).collect();
    let counted = asked.clone();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let at = counted.fetch_add(1, Ordering::Relaxed);
            let answer = &answers[at.min(answers.len() - 1)];
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap_or(0);
            if answer.is_empty() && read > 0 {
                kept.push(stream);
                continue;
            }
            std::thread::sleep(delay);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, asked)
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nready";
pub(crate) const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

/// A process that sleeps, whose readiness is a server that is not its own.
pub(crate) fn sleeper(mut check: ReadyCheck, timeout: Duration) -> ProcessOptions {
    match &mut check {
        ReadyCheck::Http(http) => http.listener = Listener::Any,
        ReadyCheck::Tcp(tcp) => tcp.listener = Listener::Any,
        _ => {}
    }
    let mut options = ProcessOptions::new("sleep");
    options.args = vec!["30".into()];
    let mut readiness = Readiness::new(check);
    readiness.interval = Duration::from_millis(10);
    readiness.timeout = timeout;
    options.ready = Some(readiness);
    options
}

/// The events up to and with readiness, or the end.
pub(crate) async fn until_settled(handle: &Arc<dyn RunHandle>) -> Vec<RunEvent> {
    let mut stream = handle.subscribe();
    let mut events = Vec::new();
    while handle.status() == RunStatus::Starting {
        match within(stream.next()).await {
            Some(event) => events.push(event),
            None => break,
        }
    }
    events
}

pub(crate) async fn becomes_ready(options: ProcessOptions) {
    let handle = start(options).await;
    until_settled(&handle).await;
    assert_eq!(handle.status(), RunStatus::Ready);
    within(handle.stop()).await.unwrap();
}

/// A server whose answers have bodies without an end. Counts the requests, and the connections that
/// the other side holds open.
pub(crate) fn serve_endless_bodies() -> (u16, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (asked, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counts = (asked.clone(), open.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (asked, open) = counts.clone();
            open.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 1024]);
                asked.fetch_add(1, Ordering::Relaxed);
                let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 1000000000\r\n\r\n";
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&[b'x'; 4096]);
                // Until the other side lets go.
                while stream.read(&mut [0; 1024]).is_ok_and(|read| read > 0) {}
                open.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    (port, asked, open)
}

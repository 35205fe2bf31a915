//! A server to ask.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Answers requests by their method and path, and remembers them.
#[derive(Clone)]
pub(crate) struct Server {
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    seen: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            answers: Arc::default(),
            seen: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
                if stream.read_line(&mut first).is_err() {
                    continue;
                }
                while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let asked = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
                let (status, text) = shared
                    .answers
                    .lock()
                    .unwrap()
                    .get(&asked)
                    .cloned()
                    .unwrap_or((404, "{}".into()));
                shared
                    .seen
                    .lock()
                    .unwrap()
                    .push(format!("{asked} {}", String::from_utf8_lossy(&body)));
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
                    text.len()
                );
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn answer(&self, asked: &str, status: u16, body: impl Into<Value>) {
        self.answers
            .lock()
            .unwrap()
            .insert(asked.into(), (status, body.into().to_string()));
    }

    pub(crate) fn seen(&self, asked: &str) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|seen| seen.starts_with(asked))
            .cloned()
            .collect()
    }
}

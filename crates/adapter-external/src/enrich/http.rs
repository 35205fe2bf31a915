//! Small requests to a runtime on this machine.

use std::net::IpAddr;
use std::time::Duration;

use headcount_contract::AdapterError;
use reqwest::{Client, Method, StatusCode, Url, redirect::Policy};
use serde_json::Value;

use super::{Fits, PID, place_of};
use crate::config::invalid;

/// The most bytes of an answer that are read.
const MAX_BODY: usize = 256 << 10;

/// Refuses addresses that are not of this machine: status and control are not sent over a network
/// in the clear.
pub(super) fn check_url(key: &'static str, template: &str, fits: Fits) -> Result<(), AdapterError> {
    fits.check_place(key, template)?;
    let why = "an address on this machine, as http://127.0.0.1:7000/status";
    let url: Url = template
        .replace(PID, "1")
        .parse()
        .map_err(|error| invalid(key, template, why).with_source(error))?;
    let local = url.host_str().is_some_and(|host| {
        host == "localhost"
            || host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    });
    let plain = url.username().is_empty() && url.password().is_none();
    if url.scheme() != "http" || !local {
        return Err(invalid(key, template, why));
    }
    if !plain {
        return Err(invalid(
            key,
            "(not shown)",
            "no user or password in an address: name a variable in token_env",
        ));
    }
    Ok(())
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// Asks once. The error is for a person and holds nothing of the answer.
pub(super) async fn ask(
    method: Method,
    template: &str,
    pid: u32,
    token_env: Option<&str>,
    body: Option<&Value>,
    timeout: Duration,
) -> Result<Answer, String> {
    let url = place_of(template, pid);
    let mut request = client(timeout)?.request(method, &url);
    if let Some(name) = token_env {
        let token = std::env::var(name)
            .map_err(|_| format!("the environment variable {name} (token_env) is not set"))?;
        request = request.bearer_auth(token);
    }
    if let Some(body) = body {
        request = request
            .header("content-type", "application/json")
            .body(body.to_string());
    }
    let mut response = request.send().await.map_err(|error| in_words(&error))?;
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| in_words(&error))? {
        if bytes.len() + chunk.len() > MAX_BODY {
            return Err(format!("the answer is longer than {MAX_BODY} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Answer {
        status,
        body: bytes,
    })
}

/// The body of a successful answer.
pub(super) async fn get(
    template: &str,
    pid: u32,
    token_env: Option<&str>,
    timeout: Duration,
) -> Result<Vec<u8>, String> {
    let answer = ask(Method::GET, template, pid, token_env, None, timeout).await?;
    if !answer.status.is_success() {
        return Err(format!("it answered {}", answer.status));
    }
    Ok(answer.body)
}

/// As [`get`], for JSON.
pub(super) async fn get_json(
    template: &str,
    pid: u32,
    token_env: Option<&str>,
    timeout: Duration,
) -> Result<Value, String> {
    let body = get(template, pid, token_env, timeout).await?;
    serde_json::from_slice(&body).map_err(|_| "its answer is no JSON".into())
}

/// Refuses an answer that is of another process.
pub(super) fn check_pid(answer: &Value, pointer: Option<&str>, pid: u32) -> Result<(), String> {
    let Some(pointer) = pointer else {
        return Ok(());
    };
    match answer.pointer(pointer).and_then(Value::as_u64) {
        Some(number) if number == u64::from(pid) => Ok(()),
        Some(number) => Err(format!("it answers for process {number}")),
        None => Err(format!("its answer has no process number at {pointer}")),
    }
}

fn client(timeout: Duration) -> Result<Client, String> {
    // The environment's proxy would see what is meant for this machine, and a redirect would lead
    // to who knows where.
    let client = Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .timeout(timeout)
        .pool_max_idle_per_host(0);
    client.build().map_err(|error| in_words(&error))
}

fn in_words(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "it did not answer in time".into()
    } else if error.is_connect() {
        "it cannot be connected to".into()
    } else {
        "its answer broke off or is no HTTP".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_of_this_machine_and_without_secrets() {
        let cases = [
            ("http://127.0.0.1:7000/x", true),
            ("http://localhost/x", true),
            ("http://[::1]:7000/{pid}", true),
            ("http://127.8.9.1/", true),
            ("https://127.0.0.1/", false),
            ("http://example.org/", false),
            ("http://10.0.0.1/", false),
            ("http://localhost.example.org/", false),
            ("http://ada:pw@127.0.0.1/", false),
            ("ftp://127.0.0.1/", false),
            ("/status", false),
            ("", false),
        ];
        for (url, fine) in cases {
            let checked = check_url("url", url, Fits::One);
            assert_eq!(checked.is_ok(), fine, "{url}: {checked:?}");
            assert!(checked.is_ok() || !checked.unwrap_err().to_string().contains("pw"));
        }
        assert!(check_url("url", "http://localhost/x", Fits::Many).is_err());
        assert!(check_url("url", "http://localhost/{pid}", Fits::Many).is_ok());
    }
}

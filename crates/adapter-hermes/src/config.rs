//! How a gateway is reached, and what may be asked of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use headcount_adapter_kit::duration;
use headcount_contract::{AdapterError, AdapterErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::frame::DEFAULT_MAX_FRAME_BYTES;

/// The gateway that is started if nothing else is named.
const DEFAULT_COMMAND: [&str; 3] = ["python3", "-m", "tui_gateway.entry"];

/// What a started gateway gets of this process's environment, besides what `inherit` names. No
/// variable here holds a secret.
const INHERITED: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TERM",
    "HERMES_HOME",
    "VIRTUAL_ENV",
    "PYTHONPATH",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// Configuration of the Hermes adapter.
///
/// Without `ws` a gateway is started: its standard input and output carry the frames, and it ends
/// with the adapter. With `ws` the adapter attaches to one that runs.
///
/// ```
/// use headcount_adapter_hermes::HermesConfig;
/// let config: HermesConfig = serde_json::from_value(serde_json::json!({
///     "ws": "ws://127.0.0.1:9119/api/ws",
///     "token_env": "HERMES_DASHBOARD_SESSION_TOKEN",
/// }))?;
/// config.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct HermesConfig {
    /// The WebSocket address of a running gateway, such as `ws://127.0.0.1:9119/api/ws`.
    pub ws: Option<String>,
    /// The environment variable that holds the gateway's token.
    pub token_env: Option<String>,
    /// The file that holds the gateway's token.
    pub token_file: Option<PathBuf>,
    /// A file of certificates (PEM) to trust besides the system's, for a gateway behind a `wss://`
    /// whose authority is a private one. Read anew for each connection.
    pub ca_file: Option<PathBuf>,
    /// Let `ws://` go to another host, though everybody on the way can read it.
    pub allow_insecure_remote: bool,
    /// Stored ids of sessions to resume on the running gateway, so that their events come here.
    /// Whoever shows such a session now no longer gets them.
    pub resume: Vec<String>,

    /// The gateway to start: program and arguments.
    pub command: Vec<String>,
    /// Where to start it; by default where this process is.
    pub cwd: Option<PathBuf>,
    /// Names of environment variables that it gets besides the harmless ones.
    pub inherit: Vec<String>,
    /// Environment variables that it gets with these values.
    pub env: BTreeMap<String, String>,
    /// How long it may take to end when asked; then it is killed.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub grace: Duration,

    /// The gateway's home, to look for transcripts of children whose end was not seen. A started
    /// gateway's is known; name one only if the running gateway is on this host.
    pub hermes_home: Option<PathBuf>,
    /// How often to ask which children run; `0s` never asks, and then no child's liveness is known.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub poll_interval: Duration,
    /// How long an answer may take.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub request_timeout: Duration,
    /// The longest wait between two attempts to reach a running gateway again.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub reconnect_max: Duration,
    /// Whether children may be interrupted.
    pub cancel: bool,
    /// The longest frame, in bytes; longer ones are skipped and counted.
    pub max_frame_bytes: usize,
    /// A file, not there yet, to which the frames about children are recorded. Prompts and the
    /// like are left out.
    pub record: Option<PathBuf>,
}

impl Default for HermesConfig {
    fn default() -> Self {
        Self {
            ws: None,
            token_env: None,
            token_file: None,
            ca_file: None,
            allow_insecure_remote: false,
            resume: Vec::new(),
            command: DEFAULT_COMMAND.map(str::to_owned).into(),
            cwd: None,
            inherit: Vec::new(),
            env: BTreeMap::new(),
            grace: Duration::from_secs(5),
            hermes_home: None,
            poll_interval: Duration::from_secs(5),
            request_timeout: Duration::from_secs(10),
            reconnect_max: Duration::from_secs(30),
            cancel: true,
            max_frame_bytes: DEFAULT_MAX_FRAME_BYTES,
            record: None,
        }
    }
}

impl HermesConfig {
    /// Checks what can be checked without touching anything.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key and what would be right.
    pub fn check(&self) -> Result<(), AdapterError> {
        let refuse = |key: &'static str, why: &'static str| {
            Err(AdapterError::new(AdapterErrorKind::InvalidConfig, why).with_context("key", key))
        };
        if self.token_env.is_some() && self.token_file.is_some() {
            return refuse(
                "token_file",
                "name the token's variable or its file, not both",
            );
        }
        if self.ca_file.is_some()
            && !self
                .ws
                .as_ref()
                .is_some_and(|url| url.starts_with("wss://"))
        {
            return refuse(
                "ca_file",
                "certificates are for a gateway that is reached over wss://: name its address in `ws`",
            );
        }
        match &self.ws {
            Some(url) => self.check_url(url)?,
            None if self.command.first().is_none_or(String::is_empty) => {
                return refuse(
                    "command",
                    "a gateway to start needs a program, or `ws` the address of one that runs",
                );
            }
            None if self.token_env.is_some() || self.token_file.is_some() => {
                return refuse(
                    "token_env",
                    "a token is for a gateway that runs: name its address in `ws`",
                );
            }
            None if !self.resume.is_empty() => {
                return refuse(
                    "resume",
                    "sessions can be resumed only on a gateway that runs: name its address in `ws`",
                );
            }
            None => {}
        }
        if self.request_timeout.is_zero() {
            return refuse("request_timeout", "an answer needs some time: at least 1ms");
        }
        if self.max_frame_bytes < 1024 {
            return refuse(
                "max_frame_bytes",
                "frames of children need some room: at least 1024",
            );
        }
        Ok(())
    }

    /// The address may only lead to this host, or over TLS, unless told otherwise; and it bears no
    /// token, since addresses end up in logs.
    fn check_url(&self, url: &str) -> Result<(), AdapterError> {
        let refuse = |why: &'static str| {
            Err(AdapterError::new(AdapterErrorKind::InvalidConfig, why).with_context("key", "ws"))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("ws", rest)) => (false, rest),
            Some(("wss", rest)) => (true, rest),
            _ => return refuse("an address begins with ws:// or wss://"),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.is_empty() {
            return refuse("an address names a host, as in ws://127.0.0.1:9119/api/ws");
        }
        if authority.contains('@') || url.contains("token=") {
            return refuse(
                "an address bears no token or password: name a variable in `token_env` or a file in `token_file`",
            );
        }
        if !tls && !self.allow_insecure_remote && !is_loopback(authority) {
            return refuse(
                "another host is reached over wss://, or with `allow_insecure_remote = true`",
            );
        }
        Ok(())
    }

    /// The environment of a started gateway.
    pub(crate) fn environment(
        &self,
        ours: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Vec<(String, std::ffi::OsString)> {
        let names = INHERITED
            .into_iter()
            .chain(self.inherit.iter().map(String::as_str));
        let mut environment: Vec<_> = names
            .filter_map(|name| Some((name.to_owned(), ours(name)?)))
            .collect();
        // Frames must not wait in a buffer.
        environment.push(("PYTHONUNBUFFERED".to_owned(), "1".into()));
        let given = self
            .env
            .iter()
            .map(|(name, value)| (name.clone(), value.into()));
        environment.extend(given);
        environment
    }

    pub(crate) fn polls_every(&self) -> Option<Duration> {
        (!self.poll_interval.is_zero()).then_some(self.poll_interval)
    }
}

/// Whether `host[:port]` is this host.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host),
    };
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(config: Value, expected: &str) {
        let shown = config.to_string();
        let said = match serde_json::from_value::<HermesConfig>(config) {
            Err(error) => error.to_string(),
            Ok(config) => config
                .check()
                .map_or_else(|error| error.to_string(), |()| "fine".into()),
        };
        assert!(said.contains(expected), "{shown}: {said}");
    }

    #[test]
    fn says_what_is_wrong() {
        check(json!({}), "fine");
        check(json!({"ws": "ws://127.0.0.1:9119/api/ws"}), "fine");
        check(json!({"ws": "ws://localhost/api/ws"}), "fine");
        check(json!({"ws": "ws://[::1]:9119/api/ws"}), "fine");
        check(json!({"ws": "wss://gateway.example/api/ws"}), "fine");
        check(
            json!({"ws": "ws://gateway.example/api/ws"}),
            "allow_insecure_remote",
        );
        check(
            json!({"ws": "ws://127.0.0.1.example/api/ws"}),
            "allow_insecure_remote",
        );
        check(
            json!({"ws": "ws://localhost:1@gateway.example/"}),
            "no token or password",
        );
        check(
            json!({"ws": "ws://10.0.0.1/", "allow_insecure_remote": true}),
            "fine",
        );
        check(
            json!({"ws": "ws://127.0.0.1/api/ws?token=hunter2"}),
            "token_env",
        );
        check(json!({"ws": "http://127.0.0.1/"}), "ws:// or wss://");
        check(json!({"ws": "ws:///api"}), "names a host");
        check(json!({"command": []}), "needs a program");
        check(json!({"token_env": "T"}), "name its address");
        check(json!({"resume": ["2026"]}), "name its address");
        check(
            json!({"ws": "ws://127.0.0.1/", "token_env": "T", "token_file": "t"}),
            "not both",
        );
        check(
            json!({"ws": "wss://gateway.example/api/ws", "ca_file": "ca.pem"}),
            "fine",
        );
        check(
            json!({"ws": "ws://127.0.0.1/api/ws", "ca_file": "ca.pem"}),
            "over wss://",
        );
        check(json!({"ca_file": "ca.pem"}), "over wss://");
        check(json!({"request_timeout": "0s"}), "at least 1ms");
        check(json!({"grace": 5}), "expected");
        check(json!({"poll_interval": "5 parsecs"}), "such as 250ms");
        check(json!({"max_frame_bytes": 10}), "at least 1024");
        check(
            json!({"wss": "x"}),
            "unknown field `wss`, expected one of `ws`",
        );
    }

    #[test]
    fn a_token_is_never_repeated() {
        let config: HermesConfig =
            serde_json::from_value(json!({"ws": "ws://127.0.0.1/?token=hunter2"})).unwrap();
        let error = config.check().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn the_environment_is_an_allow_list() {
        let config: HermesConfig = serde_json::from_value(json!({
            "inherit": ["OPENAI_API_KEY", "NOT_SET"], "env": {"HERMES_YOLO_MODE": "1"},
        }))
        .unwrap();
        let ours = |name: &str| match name {
            "PATH" | "OPENAI_API_KEY" | "AWS_SECRET_ACCESS_KEY" => Some("x".into()),
            _ => None,
        };
        let names: Vec<_> = config
            .environment(ours)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(
            names,
            [
                "PATH",
                "OPENAI_API_KEY",
                "PYTHONUNBUFFERED",
                "HERMES_YOLO_MODE"
            ]
        );
    }
}

//! The real gateway, its home, and a model for it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headcount_adapter_hermes::HermesConfig;
use serde_json::json;

/// The version that the adapter was built for.
const PACKAGE: &str = "hermes-agent==0.19.0";
const TOKEN: &str = "trial-token";

/// Where a trial's gateways live.
#[derive(Clone)]
pub(crate) struct Home {
    python: PathBuf,
    folder: PathBuf,
    model: Arc<Model>,
}

/// The scripted model; it ends with the trial.
struct Model {
    process: std::sync::Mutex<Child>,
    port: u16,
}

impl Drop for Model {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap();
        let _ = process.kill();
        let _ = process.wait();
    }
}

/// A gateway that is served on a WebSocket.
pub(crate) struct Server {
    process: Child,
    pub(crate) url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Home {
    /// Everything that a gateway needs, or why it cannot be had.
    pub(crate) fn prepare() -> Result<Self, String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = target().join("live-hermes");
        let environment = folder.join("venv");
        let python = environment.join("bin/python");
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?;
        let installed = |python: &Path| {
            let found = Command::new(python)
                .args([
                    "-c",
                    "import importlib.metadata as m; print(m.version('hermes-agent'))",
                ])
                .output();
            found.is_ok_and(|found| {
                found.status.success()
                    && PACKAGE.ends_with(String::from_utf8_lossy(&found.stdout).trim())
            })
        };
        if !installed(&python) {
            let system = newest_python()?;
            println!("installing {PACKAGE} with {} …", system.display());
            run(Command::new(&system).args(["-m", "venv"]).arg(&environment))?;
            run(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                PACKAGE,
            ]))?;
            if !installed(&python) {
                return Err(format!("{PACKAGE} was installed and is not there"));
            }
        }
        let mut process = Command::new(&python)
            .arg(here.join("live/model_server.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the model cannot be started: {error}"))?;
        let mut port = String::new();
        let stdout = process.stdout.take().unwrap();
        BufReader::new(stdout)
            .read_line(&mut port)
            .map_err(|error| error.to_string())?;
        let port = port
            .trim()
            .parse()
            .map_err(|_| "the model tells no port".to_owned())?;
        let model = Arc::new(Model {
            process: process.into(),
            port,
        });
        Ok(Self {
            python,
            folder,
            model,
        })
    }

    /// The configuration of a gateway of its own that delegates this deep.
    pub(crate) fn gateway(&self, depth: u8) -> (HermesConfig, tempfile::TempDir) {
        let home = tempfile::Builder::new()
            .prefix("gateway-")
            .tempdir_in(&self.folder)
            .unwrap();
        let work = home.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let settings = json!({
            "model": {
                "default": "scripted", "provider": "custom", "api_key": "none", "context_length": 131_072,
                "base_url": format!("http://127.0.0.1:{}/v1", self.model.port),
            },
            "delegation": {"max_spawn_depth": depth},
            "display": {"tool_progress": "all"},
            "terminal": {"backend": "local", "cwd": work},
            "agent": {"max_turns": 20},
            "compression": {"enabled": false},
            "memory": {"memory_enabled": false, "user_profile_enabled": false},
        });
        std::fs::write(home.path().join("config.yaml"), settings.to_string()).unwrap();
        let mut config = HermesConfig::default();
        config.command = vec![
            self.python.to_str().unwrap().to_owned(),
            "-m".into(),
            "tui_gateway.entry".into(),
        ];
        config.cwd = Some(work);
        config.poll_interval = Duration::from_millis(500);
        let home_path = home.path().to_str().unwrap();
        for (name, value) in [
            ("HERMES_HOME", home_path),
            ("HOME", home_path),
            ("HERMES_TUI_TOOLSETS", "terminal,file,delegation"),
            ("HERMES_YOLO_MODE", "1"),
        ] {
            config.env.insert(name.to_owned(), value.to_owned());
        }
        (config, home)
    }

    /// A gateway that others started, on a WebSocket.
    pub(crate) async fn serve(&self) -> Result<Server, String> {
        let (config, home) = self.gateway(1);
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|l| l.local_addr())
            .map_err(|e| e.to_string())?
            .port();
        let log =
            std::fs::File::create(self.folder.join("serve.log")).map_err(|e| e.to_string())?;
        let mut process = Command::new(self.python.with_file_name("hermes"))
            .args([
                "serve",
                "--host",
                "127.0.0.1",
                "--port",
                &port.to_string(),
                "--skip-build",
            ])
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(&config.env)
            .env("HERMES_DASHBOARD_SESSION_TOKEN", TOKEN)
            .current_dir(config.cwd.unwrap())
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|e| e.to_string())?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("`hermes serve` cannot be started: {error}"))?;
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_err()
        {
            if let Ok(Some(status)) = process.try_wait() {
                let said =
                    std::fs::read_to_string(self.folder.join("serve.log")).unwrap_or_default();
                let last = said
                    .lines()
                    .rev()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or_default();
                return Err(format!("`hermes serve` ended with {status}: {last}"));
            }
            if began.elapsed() > Duration::from_mins(1) {
                let _ = process.kill();
                return Err("`hermes serve` does not listen".to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // It lives as long as the trial needs it.
        std::mem::forget(home);
        Ok(Server {
            process,
            url: format!("ws://127.0.0.1:{port}/api/ws"),
        })
    }

    /// The configuration to attach to it.
    pub(crate) fn attaching(&self, server: &Server) -> HermesConfig {
        let token = self.folder.join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut config = HermesConfig::default();
        config.ws = Some(server.url.clone());
        config.token_file = Some(token);
        config.poll_interval = Duration::from_millis(500);
        config
    }
}

/// The build's target folder: this program is in its `examples`.
fn target() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    this.ancestors().nth(3).unwrap().to_owned()
}

fn newest_python() -> Result<PathBuf, String> {
    let names = ["python3.13", "python3.12", "python3.11", "python3"];
    let good = names.into_iter().find(|name| {
        let asked = Command::new(name)
            .args(["-c", "import sys, venv, ensurepip; sys.exit(not ((3, 11) <= sys.version_info < (3, 14)))"])
            .stderr(Stdio::null())
            .status();
        asked.is_ok_and(|status| status.success())
    });
    good.map(PathBuf::from)
        .ok_or_else(|| "there is no Python 3.11 to 3.13 with venv here".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default();
    Err(format!(
        "{} ended with {}: {last}",
        command.get_program().to_string_lossy(),
        output.status
    ))
}

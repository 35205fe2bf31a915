//! An adapter on a scripted gateway, and what it tells.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_hermes::scripted::{Gateway, STEPS, Served, Step, Version};
use headcount_adapter_hermes::{HermesAdapter, HermesConfig};
use headcount_contract::{
    AdapterError, ChildId, ChildLifecycleAdapter, ChildState, EventKind, HealthStatus,
    LifecycleEvent, Signal, SignalStream, SourceId,
};

/// Longer than anything takes on a busy machine; only a failure waits so long.
pub const PATIENCE: Duration = Duration::from_mins(1);

pub fn source() -> SourceId {
    SourceId::new("hermes").unwrap()
}

pub fn id(id: &str) -> ChildId {
    ChildId::new(id).unwrap()
}

/// Quick to poll and to come back, so that tests are.
pub fn config() -> HermesConfig {
    let mut config = HermesConfig::default();
    config.poll_interval = Duration::from_millis(50);
    config.reconnect_max = Duration::from_millis(300);
    config.grace = Duration::from_secs(5);
    config
}

/// The configuration of a gateway process that performs these steps.
pub fn process(version: Version, steps: &[Step]) -> HermesConfig {
    let mut config = config();
    let this = std::env::current_exe().unwrap();
    config.command = vec![this.to_str().unwrap().to_owned()];
    let steps = serde_json::to_string(&(version, steps)).unwrap();
    config.env.insert(STEPS.to_owned(), steps);
    config
}

/// A way to a scripted gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Pipe,
    Socket,
}

impl Way {
    pub const ALL: [Self; 2] = [Self::Pipe, Self::Socket];

    /// A gateway that performs these steps, and an adapter on it whose session is `s1`.
    pub async fn to(
        self,
        version: Version,
        steps: Vec<Step>,
        mut config: HermesConfig,
    ) -> (Watched, Option<Served>) {
        match self {
            Self::Pipe => {
                let HermesConfig { command, env, .. } = process(version, &steps);
                (config.command, config.env) = (command, env);
                (Watched::of(config), None)
            }
            Self::Socket => {
                let gateway = Gateway::new(version);
                let served = gateway.serve("sesame").await.unwrap();
                config.ws = Some(served.url());
                config.token_file = Some(token_file("sesame").to_path_buf());
                config.resume = vec!["stored-s1".to_owned()];
                gateway.act(steps);
                (Watched::of(config), Some(served))
            }
        }
    }
}

/// An adapter, and everything that it has told.
pub struct Watched {
    pub adapter: Arc<HermesAdapter>,
    stream: SignalStream,
    pub seen: Vec<Signal>,
}

impl Watched {
    pub fn of(config: HermesConfig) -> Self {
        Self::on(HermesAdapter::new(source(), config).unwrap())
    }

    /// Why the adapter cannot be subscribed to.
    pub fn try_of(config: HermesConfig) -> Result<SignalStream, AdapterError> {
        HermesAdapter::new(source(), config)?.subscribe()
    }

    pub fn on(adapter: HermesAdapter) -> Self {
        let stream = adapter.subscribe().unwrap();
        Self {
            adapter: Arc::new(adapter),
            stream,
            seen: Vec::new(),
        }
    }

    /// Waits until what has been seen fulfils the condition.
    pub async fn until(&mut self, what: &str, fulfilled: impl Fn(&[Signal]) -> bool) {
        let waiting = async {
            while !fulfilled(&self.seen) {
                match self.stream.next().await {
                    Some(signal) => self.seen.push(signal),
                    None => panic!("the stream ended before {what}"),
                }
            }
        };
        if tokio::time::timeout(PATIENCE, waiting).await.is_err() {
            let transcript = super::Transcript::of(&self.seen);
            let lines: Vec<_> = transcript.lines().collect();
            let transcript = lines[lines.len().saturating_sub(40)..].join("\n");
            panic!(
                "waited in vain for {what}; health {:?}; seen:\n{transcript}",
                self.adapter.health()
            );
        }
    }

    pub async fn until_state(&mut self, child: &str, state: ChildState) {
        let what = format!("{child} {state}");
        self.until(&what, |seen| state_of(seen, child) == Some(state))
            .await;
    }

    pub async fn until_discontinuity(&mut self, told: &str) {
        let count = self.discontinuities().iter().filter(|d| *d == told).count();
        self.until(told, |seen| {
            discontinuities(seen).iter().filter(|d| *d == told).count() > count
        })
        .await;
    }

    /// Waits until the adapter says that it is down, in words that contain all of these.
    pub async fn until_down(&mut self, words: &[&str]) {
        self.until(&format!("it to be down: {words:?}"), |seen| {
            seen.iter().any(|signal| {
                matches!(signal, Signal::Health(health) if health.status == HealthStatus::Down
                    && words.iter().all(|word| health.message.as_deref().is_some_and(|m| m.contains(word))))
            })
        })
        .await;
    }

    /// Waits until the adapter says that nothing more can come, and reads what there is.
    pub async fn until_finished(&mut self) {
        let adapter = self.adapter.clone();
        self.until("the adapter to be finished", move |_| adapter.is_finished())
            .await;
        while let Ok(Some(signal)) =
            tokio::time::timeout(Duration::from_millis(20), self.stream.next()).await
        {
            self.seen.push(signal);
        }
    }

    /// Reads to the end of the stream.
    pub async fn read_to_end(&mut self) {
        let rest = async {
            while let Some(signal) = self.stream.next().await {
                self.seen.push(signal);
            }
        };
        tokio::time::timeout(PATIENCE, rest)
            .await
            .expect("the stream ends");
    }

    pub fn discontinuities(&self) -> Vec<String> {
        discontinuities(&self.seen)
    }

    pub fn events(&self, child: &str) -> Vec<&LifecycleEvent> {
        events(&self.seen, child)
    }

    pub fn count(&self, name: &str) -> u64 {
        self.adapter.health().counts.get(name).copied().unwrap_or(0)
    }
}

pub fn events<'a>(seen: &'a [Signal], child: &str) -> Vec<&'a LifecycleEvent> {
    seen.iter()
        .filter_map(|signal| match signal {
            Signal::Event(event) if event.child_id().as_str() == child => Some(event),
            _ => None,
        })
        .collect()
}

/// The state that the last event of a child tells.
pub fn state_of(seen: &[Signal], child: &str) -> Option<ChildState> {
    let told = events(seen, child).into_iter().rev();
    told.filter(|event| !matches!(event.kind(), EventKind::Diagnostic(_)))
        .find_map(LifecycleEvent::state)
}

pub fn discontinuities(seen: &[Signal]) -> Vec<String> {
    seen.iter()
        .filter_map(|signal| match signal {
            Signal::Discontinuity(d) => Some(format!("{:?}, gap {:?}", d.cause, d.gap)),
            _ => None,
        })
        .collect()
}

/// A detail of the last event of a child that has one.
pub fn detail(seen: &[Signal], child: &str, key: &str) -> Option<serde_json::Value> {
    events(seen, child)
        .into_iter()
        .rev()
        .find_map(|event| event.details().get(key))
}

/// An adapter on a gateway that is served on a WebSocket.
pub async fn attached(version: Version) -> (Gateway, Served, Watched) {
    attached_with(version, config()).await
}

pub async fn attached_with(
    version: Version,
    mut config: HermesConfig,
) -> (Gateway, Served, Watched) {
    let gateway = Gateway::new(version);
    let served = gateway.serve("sesame").await.unwrap();
    config.ws = Some(served.url());
    let token = token_file("sesame");
    config.token_file = Some(token.to_path_buf());
    let watched = Watched::of(config);
    // On a busy machine it may take longer to connect than a request waits for it.
    let created = loop {
        let params = serde_json::json!({"cols": 100});
        match watched.adapter.call("session.create", &params).await {
            Ok(created) => break created,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    assert_eq!(created["session_id"], "s1");
    (gateway, served, watched)
}

/// A token in a file. Left to the system's own cleaning, since it is only this one.
pub fn token_file(token: &str) -> Box<Path> {
    let (_, path) = tempfile::NamedTempFile::new().unwrap().keep().unwrap();
    std::fs::write(&path, format!("{token}\n")).unwrap();
    path.into_boxed_path()
}

/// A trial of libtest-mimic that runs on a runtime of its own.
pub fn trial<F>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> libtest_mimic::Trial
where
    F: Future<Output = ()> + 'static,
{
    libtest_mimic::Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let test: Pin<Box<dyn Future<Output = ()>>> = Box::pin(test());
        runtime.block_on(test);
        Ok(())
    })
}

/// Every state that each child was told to be in, in order, and how it ended by the gateway's words.
pub fn account(signals: &[Signal]) -> BTreeMap<String, Vec<String>> {
    let mut account: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for signal in signals {
        let Signal::Event(event) = signal else {
            continue;
        };
        let told = account.entry(event.child_id().to_string()).or_default();
        if let Some(state) = event.state() {
            told.push(state.to_string());
        }
        if matches!(event.kind(), EventKind::Terminal(_)) {
            for key in ["rawStatus", "outcomeSuspect", "summary", "goal"] {
                told.push(format!("{key} {:?}", event.details().get(key)));
            }
        }
    }
    account
}

/// The transcript of the only task of a delegation.
pub fn write_transcript(home: &Path, delegation: &str, status: &str) {
    let folder = home.join("cache/delegation/live").join(delegation);
    std::fs::create_dir_all(&folder).unwrap();
    let ended = format!("16:58:01 final    | status={status} duration=1.93s\n");
    std::fs::write(folder.join("task-0.log"), ended).unwrap();
}

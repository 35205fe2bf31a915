//! An adapter on a real gateway, and what it tells.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_hermes::HermesAdapter;
use headcount_contract::{
    ChildId, ChildLifecycleAdapter, ChildState, LifecycleEvent, Signal, SignalStream, SourceId,
    Urgency,
};
use serde_json::{Value, json};

use crate::setup::{Home, Server};

/// A gateway may take half a minute to come up on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

pub(crate) struct Watch {
    pub(crate) adapter: Arc<HermesAdapter>,
    stream: SignalStream,
    seen: Vec<Signal>,
    session: String,
    /// The gateway's folder, to be removed with it.
    _home: Option<tempfile::TempDir>,
}

/// A child that was found by its goal.
pub(crate) struct Found(ChildId);

impl Found {
    pub(crate) fn id(&self) -> &ChildId {
        &self.0
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Watch {
    /// A gateway of its own that is told to play this.
    pub(crate) async fn start(home: &Home, play: &str, depth: u8) -> Self {
        let (config, folder) = home.gateway(depth);
        let mut watch = Self::on(config, Some(folder)).await;
        watch.prompt(play).await;
        watch
    }

    pub(crate) async fn attach(home: &Home, server: &Server) -> Self {
        Self::on(home.attaching(server), None).await
    }

    async fn on(
        config: headcount_adapter_hermes::HermesConfig,
        home: Option<tempfile::TempDir>,
    ) -> Self {
        let adapter = HermesAdapter::new(SourceId::new("hermes").unwrap(), config).unwrap();
        let stream = adapter.subscribe().unwrap();
        let mut watch = Self {
            adapter: Arc::new(adapter),
            stream,
            seen: Vec::new(),
            session: String::new(),
            _home: home,
        };
        let created = loop {
            match watch
                .adapter
                .call("session.create", &json!({"cols": 100}))
                .await
            {
                Ok(created) => break created,
                Err(error) if error.is_retryable() => {}
                Err(error) => panic!("{error:?}"),
            }
        };
        created["session_id"]
            .as_str()
            .unwrap()
            .clone_into(&mut watch.session);
        watch
    }

    /// Tells the gateway's agent what to play.
    pub(crate) async fn prompt(&mut self, play: &str) {
        let prompt =
            json!({"session_id": self.session, "text": format!("Please begin. <<{play}>>")});
        self.adapter.call("prompt.submit", &prompt).await.unwrap();
    }

    /// Waits for the child with this goal.
    pub(crate) async fn child(&mut self, goal: &str) -> Found {
        let found = |seen: &[Signal]| {
            seen.iter().find_map(|signal| match signal {
                Signal::Event(event) => {
                    let told = event.details().get("goal")?;
                    told.as_str()?
                        .starts_with(goal)
                        .then(|| event.child_id().clone())
                }
                _ => None,
            })
        };
        self.until(goal, |seen| found(seen).is_some()).await;
        Found(found(&self.seen).unwrap())
    }

    /// Waits until the child is in this state; another end than this one is a failure.
    pub(crate) async fn until_ended(&mut self, child: &Found, state: ChildState) {
        let what = format!("{child} {state}");
        self.until(&what, |seen| {
            let now = state_of(seen, &child.0);
            assert!(
                now == Some(state) || !now.is_some_and(ChildState::is_terminal),
                "{what}: {now:?}"
            );
            now == Some(state)
        })
        .await;
    }

    pub(crate) async fn until_activity(&mut self, child: &Found) {
        self.until("an activity", |seen| {
            events(seen, &child.0).any(|e| e.activity().is_some())
        })
        .await;
    }

    async fn until(&mut self, what: &str, fulfilled: impl Fn(&[Signal]) -> bool) {
        let waiting = async {
            while !fulfilled(&self.seen) {
                match self.stream.next().await {
                    Some(signal) => self.seen.push(signal),
                    None => panic!("the stream ended before {what}"),
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(
            waited.is_ok(),
            "waited in vain for {what}; {:?}",
            self.adapter.health()
        );
    }

    pub(crate) fn state(&self, child: &Found) -> Option<ChildState> {
        state_of(&self.seen, &child.0)
    }

    pub(crate) fn last<'a>(&'a self, child: &'a Found) -> &'a LifecycleEvent {
        events(&self.seen, &child.0).last().unwrap()
    }

    pub(crate) fn activities(&self, child: &Found) -> Vec<String> {
        let told = events(&self.seen, &child.0).filter_map(LifecycleEvent::activity);
        told.map(|activity| activity.as_str().to_owned()).collect()
    }

    pub(crate) fn detail(&self, child: &Found, key: &str) -> Option<Value> {
        events(&self.seen, &child.0)
            .filter_map(|event| event.details().get(key))
            .last()
    }

    /// As `kill -9` from outside.
    pub(crate) fn kill_gateway(&self) {
        let epoch = self.adapter.identity().epoch;
        let (_, pid) = epoch.as_str().rsplit_once("pid-").unwrap();
        assert!(
            std::process::Command::new("kill")
                .args(["-9", pid])
                .status()
                .unwrap()
                .success()
        );
    }

    pub(crate) async fn close(&mut self) {
        self.adapter.close(Urgency::Graceful).await.unwrap();
        self.read_to_end().await;
    }

    pub(crate) async fn read_to_end(&mut self) {
        while let Some(signal) = self.stream.next().await {
            self.seen.push(signal);
        }
    }
}

fn events<'a>(seen: &'a [Signal], child: &'a ChildId) -> impl Iterator<Item = &'a LifecycleEvent> {
    seen.iter().filter_map(move |signal| match signal {
        Signal::Event(event) if event.child_id() == child => Some(event),
        _ => None,
    })
}

fn state_of(seen: &[Signal], child: &ChildId) -> Option<ChildState> {
    events(seen, child).filter_map(LifecycleEvent::state).last()
}

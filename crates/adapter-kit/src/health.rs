//! An adapter's health: one value, every change of which is also a signal.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headcount_contract::{Health, HealthStatus, Signal};

use crate::Fanout;

/// Holds an adapter's [`Health`] and tells its subscribers of every change.
///
/// ```
/// use std::sync::Arc;
/// use headcount_adapter_kit::{Fanout, HealthCell};
/// use headcount_contract::{Health, HealthStatus};
///
/// let cell = HealthCell::new(Arc::new(Fanout::new(8)), Health::default());
/// cell.set(HealthStatus::Degraded, "the gateway is slow");
/// cell.count("timeouts", 1);
/// assert_eq!(cell.get().counts["timeouts"], 1);
/// ```
#[derive(Debug)]
pub struct HealthCell {
    fanout: Arc<Fanout>,
    health: Mutex<Health>,
}

impl HealthCell {
    /// A cell that starts with `health`, which is not announced.
    pub fn new(fanout: Arc<Fanout>, health: Health) -> Self {
        Self {
            fanout,
            health: Mutex::new(health),
        }
    }

    /// The present health.
    pub fn get(&self) -> Health {
        self.lock().clone()
    }

    /// Sets status and message, and announces them if they changed.
    pub fn set(&self, status: HealthStatus, message: impl Into<String>) {
        self.change(status, Some(message.into()));
    }

    /// All is well: no message.
    pub fn healthy(&self) {
        self.change(HealthStatus::Healthy, None);
    }

    /// Adds to a count. Counts alone are not announced: they may change with every line.
    pub fn count(&self, name: &str, more: u64) {
        let mut health = self.lock();
        match health.counts.get_mut(name) {
            Some(count) => *count += more,
            None => {
                health.counts.insert(name.to_owned(), more);
            }
        }
    }

    /// Sets a gauge, such as a lag. Not announced.
    pub fn gauge(&self, name: &str, value: u64) {
        self.lock().counts.insert(name.to_owned(), value);
    }

    /// Adds a limitation, once, and announces it.
    pub fn limit(&self, limitation: &str) {
        self.announce(|health| {
            let is_new = !health.limitations.iter().any(|known| known == limitation);
            if is_new {
                health.limitations.push(limitation.to_owned());
            }
            is_new
        });
    }

    fn change(&self, status: HealthStatus, message: Option<String>) {
        self.announce(|health| {
            let is_new = health.status != status || health.message != message;
            health.status = status;
            health.message = message;
            is_new
        });
    }

    /// Changes the health, and tells of it if `change` says that there is news.
    fn announce(&self, change: impl FnOnce(&mut Health) -> bool) {
        let mut health = self.lock();
        if !change(&mut health) {
            return;
        }
        // In the stream before anybody can change it again: the last signal is the present health.
        let wakes = self.fanout.enqueue(vec![Signal::Health(health.clone())]);
        drop(health);
        wakes.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{FutureExt, StreamExt};

    #[test]
    fn announces_changes_and_only_those() {
        let fanout = Arc::new(Fanout::new(8));
        let mut stream = fanout.subscribe().unwrap();
        let cell = HealthCell::new(fanout, Health::default());
        cell.healthy();
        cell.healthy();
        cell.count("lines", 3);
        cell.set(HealthStatus::Down, "gone");
        let seen: Vec<_> = std::iter::from_fn(|| stream.next().now_or_never().flatten())
            .map(|signal| match signal {
                Signal::Health(health) => health.status,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(seen, [HealthStatus::Healthy, HealthStatus::Down]);
    }
}

//! The contract's trait over the sample.

use std::sync::{Arc, Mutex};

use headcount_contract::*;

use super::Bug::*;
use super::{Queue, Sample, Subscription, id, lock, now};

/// A fault that needs the adapter to know itself.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<Sample>);

#[async_trait]
impl ChildLifecycleAdapter for Shared {
    fn identity(&self) -> SourceIdentity {
        Sample::source(&lock(&self.0.state))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities;
        if self.0.has(CapabilitiesChange) && lock(&self.0.state).started > 0 {
            capabilities.history = Capability::Unknown;
        }
        capabilities
    }

    fn health(&self) -> Health {
        lock(&self.0.state).health.clone()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let sample = &self.0;
        sample.act(|state| {
            if state.closed {
                return Err(AdapterError::new(AdapterErrorKind::Closed, "it is closed"));
            }
            let queue = Queue {
                knew: state.children.keys().cloned().collect(),
                ..Queue::default()
            };
            let queue = Arc::new(Mutex::new(queue));
            state.queues.push(Arc::downgrade(&queue));
            if state.health.status == HealthStatus::Idle && !sample.has(SaysThatItIsIdle) {
                if sample.has(HealthIsNotInBand) {
                    state.health.status = HealthStatus::Healthy;
                } else {
                    sample.health(state, HealthStatus::Healthy, None);
                }
            }
            let stream = Subscription {
                queue,
                locks: sample
                    .has(LocksWhileItWakes)
                    .then(|| Arc::downgrade(sample)),
                keeps_wakers: sample
                    .has(WakesThoseWhoLeft)
                    .then(|| Arc::downgrade(sample)),
            };
            Ok(Box::pin(stream) as SignalStream)
        })
    }

    async fn snapshot(&self, reason: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let sample = &self.0;
        let (source, number, mut children) = sample.act(|state| {
            state.asking += 1;
            state.snapshots += 1;
            if sample.has(OneSnapshotAtATime) && state.asking > 1 {
                state.asking -= 1;
                return Err(AdapterError::new(
                    AdapterErrorKind::Unavailable,
                    "it is busy",
                ));
            }
            let children: Vec<_> = state
                .children
                .values()
                .filter(|child| !(sample.has(EarlyChildrenAreUnseen) && child.early))
                .map(|child| {
                    let listed = SnapshotChild::with_identity(child.identity.clone(), child.state);
                    match child.sequence.and_then(Sequence::new) {
                        Some(sequence) => listed.with_sequence(sequence),
                        None => listed,
                    }
                })
                .collect();
            Ok((Sample::source(state), state.snapshots, children))
        })?;
        tokio::task::yield_now().await;
        sample.act(|state| state.asking -= 1);
        if sample.has(SnapshotOmitsAChild) {
            children.retain(|child| child.state().is_terminal());
        }
        if sample.has(SnapshotDisagrees) {
            for child in &mut children {
                if !child.state().is_terminal() {
                    *child = SnapshotChild::new(child.id().clone(), ChildState::STARTING);
                }
            }
        }
        let source = match sample.bug {
            Some(SnapshotOfAnotherSource) => {
                SourceIdentity::new(id(SourceId::new("other")), source.epoch)
            }
            _ => source,
        };
        let number = if sample.has(SnapshotIdIsReused) {
            1
        } else {
            number
        };
        let name = id(SnapshotId::new(format!("snapshot-{number}")));
        let complete = (sample.capabilities.snapshot.is_known()
            || sample.has(SnapshotClaimsToBeComplete))
            && !(sample.has(ReasonMatters) && reason == SnapshotReason::SessionOpen);
        let snapshot = if complete {
            let coverage = if sample.has(CoverageNamesNobody) {
                let mut covered: Vec<_> = children.iter().map(|child| child.id().clone()).collect();
                covered.push(id(ChildId::new("nobody")));
                Coverage::Children(covered)
            } else {
                Coverage::All
            };
            AuthoritativeSnapshot::new(source, name, now(), coverage, children)
                .map(Snapshot::Complete)
                .unwrap()
        } else {
            PartialSnapshot::new(source, name, now(), children)
                .map(Snapshot::Partial)
                .unwrap()
        };
        Ok(vec![snapshot])
    }

    async fn cancel(
        &self,
        child: &ChildId,
        _reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        let sample = &self.0;
        Ok(sample.act(|state| {
            if !sample.capabilities.cancel.is_known() {
                return match sample.bug {
                    Some(CancelIsDenied) => CancelOutcome::Denied {
                        reason: "it does not do that".into(),
                    },
                    _ => CancelOutcome::Unsupported,
                };
            }
            if sample.has(CancelIsUnsupported) {
                return CancelOutcome::Unsupported;
            }
            let Some(known) = state.children.get_mut(child) else {
                return match sample.bug {
                    Some(UnknownChildIsAccepted) => CancelOutcome::Accepted,
                    _ => CancelOutcome::UnknownChild,
                };
            };
            if known.state.is_terminal() {
                if sample.has(CancelledTwiceEndsTwice) && known.cancelled {
                    sample.end(state, child, Outcome::Cancelled);
                } else if sample.has(EndedChildIsAccepted) && !known.cancelled {
                    return CancelOutcome::Accepted;
                }
                return CancelOutcome::AlreadyEnded;
            }
            known.cancelled = true;
            if !known.ignores_cancel || sample.has(AcceptedIsTheEnd) {
                sample.end(state, child, Outcome::Cancelled);
            }
            if sample.has(CancelsEverybody) {
                let others = state.live().into_iter().filter(|other| other != child);
                let others: Vec<_> = others.collect();
                for other in others {
                    sample.end(state, &other, Outcome::Cancelled);
                }
            }
            CancelOutcome::Accepted
        }))
    }

    async fn close(&self, _urgency: Urgency) -> Result<(), AdapterError> {
        if self.0.has(CloseEndsNothing) {
            return Ok(());
        }
        self.0.act(|state| {
            state.closed = true;
            Sample::end_streams(state);
        });
        Ok(())
    }
}

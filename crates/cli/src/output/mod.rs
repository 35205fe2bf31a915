//! The forms of output of whatever runs live.

mod plain;
mod writer;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;

use headcount::Change;
use headcount_contract::{ChildId, Health, LifecycleEvent, Observation, SourceId, Timestamp};

use crate::args::Output;
use plain::Plain;
pub(crate) use plain::facts;
pub(crate) use writer::{PIECE, Progress, Writer};

/// The form that `--output` asks for, `auto` decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Tui,
    Plain,
    Json,
}

impl Form {
    /// A table where a person can see it and press keys, else lines.
    pub(crate) fn of(output: Output) -> Self {
        let terminal = || {
            let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
            std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !dumb
        };
        match output {
            Output::Tui => Self::Tui,
            Output::Json => Self::Json,
            Output::Auto if terminal() => Self::Tui,
            Output::Auto | Output::Plain => Self::Plain,
        }
    }
}

/// Turns changes into lines of text.
#[derive(Debug)]
pub(crate) enum Printer {
    Plain(Box<PlainPrinter>),
    Json,
}

#[derive(Debug, Default)]
pub(crate) struct PlainPrinter {
    plain: Plain,
    /// When each live child was first seen, to say how long it lasted.
    began: HashMap<(SourceId, ChildId), Timestamp>,
    /// What each source's health was when it was told last: of its counts, nothing is told.
    health: HashMap<SourceId, Arc<Health>>,
}

impl Printer {
    pub(crate) fn plain() -> Self {
        Self::Plain(Box::default())
    }

    /// How many lines a change would have had to say.
    pub(crate) fn count(&mut self, change: &Change) -> u64 {
        if let Change::Observation {
            observation: Observation::Output(batch),
            ..
        } = change
            && matches!(self, Self::Plain(_))
        {
            return batch.len() as u64;
        }
        let mut text = String::new();
        self.change(change, &mut text);
        writer::lines(&text)
    }

    /// Adds what a change has to say to `out`.
    pub(crate) fn change(&mut self, change: &Change, out: &mut String) {
        match self {
            Self::Json => {
                if let Change::Event(event) = change {
                    push(out, &event.to_json());
                }
            }
            Self::Plain(printer) => printer.change(change, out),
        }
    }
}

impl PlainPrinter {
    fn change(&mut self, change: &Change, out: &mut String) {
        match change {
            Change::Event(event) => self.event(event, out),
            Change::Observation {
                child, observation, ..
            } => match observation {
                Observation::Output(batch) => {
                    for line in self.plain.output(child, batch) {
                        push(out, &line);
                    }
                }
                Observation::OutputMissed(lines) => push(out, &self.plain.missed(child, *lines)),
                _ => {}
            },
            Change::Health { source, health } => {
                let before = self.health.insert(source.clone(), health.clone());
                let is_new = before.is_none_or(|before| {
                    (before.status, &before.message) != (health.status, &health.message)
                });
                if is_new && let Some(message) = &health.message {
                    push(
                        out,
                        &self
                            .plain
                            .remark(source.as_str(), health.status.as_str(), message),
                    );
                }
            }
            Change::Journal(journal) => {
                if let Some(message) = &journal.message {
                    push(out, &self.plain.remark("journal", "", message));
                }
            }
            Change::Lagged(missed) => {
                push(out, &self.plain.remark("headcount", "", &format!("{missed} changes not shown: they came faster than they could be written")));
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &LifecycleEvent, out: &mut String) {
        let key = (event.source().clone(), event.child_id().clone());
        let Some(mut line) = self.plain.event(event) else {
            return;
        };
        if event
            .state()
            .is_some_and(headcount_contract::ChildState::is_terminal)
        {
            if let Some(began) = self.began.remove(&key) {
                plain::lasted(&mut line, began, event.observed_at());
            }
        } else {
            self.began.entry(key).or_insert(event.observed_at());
        }
        push(out, &line);
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_contract::HealthStatus;

    #[test]
    fn a_source_tells_of_its_health_once_until_that_changes() {
        let mut printer = Printer::plain();
        let mut out = String::new();
        let down = Health::new(HealthStatus::Down).with_message("not there");
        let mut counted = down.clone();
        counted.counts.insert("lines".to_owned(), 1);
        let healthy = Health::new(HealthStatus::Healthy);
        for health in [down.clone(), counted, healthy, down] {
            let change = Change::Health {
                source: SourceId::new("s").unwrap(),
                health: Arc::new(health),
            };
            printer.change(&change, &mut out);
        }
        assert_eq!(out.matches("down: not there").count(), 2, "{out}");
    }
}
